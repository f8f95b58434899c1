// Text for HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace moeplan {

// Control bytes as \xNN, and what means something to a parser as entities: safe as text and in quoted
// attributes.
std::string markup(std::string_view text);

}  // namespace moeplan
