// Text for HTML, SVG and other XML.
#pragma once

#include <string>
#include <string_view>

namespace moeplan {

// Control bytes, and what XML 1.0 cannot hold, as \xNN; what means something to a parser as entities: safe as
// text and in quoted attributes.
std::string markup(std::string_view text);

}  // namespace moeplan
