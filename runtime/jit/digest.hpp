// SHA-256 as 64 hexadecimal digits: names cache entries, and tells a changed source or a damaged file.
#pragma once

#include <string>
#include <string_view>

namespace moeplan {

std::string sha256_hex(std::string_view bytes);

}  // namespace moeplan
