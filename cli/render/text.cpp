#include "cli/render/text.hpp"

#include <algorithm>

#include "cli/io/utf8.hpp"
#include "planner/core/text.hpp"

namespace moeplan {

std::string in_units(i64 bytes, i64 unit) {
  const i64 magnitude = bytes < 0 ? -bytes : bytes;
  // Whole and remainder apart: bytes * 100 would overflow long before bytes do.
  i64 whole = magnitude / unit;
  i64 hundredths = (magnitude % unit * 100 + unit / 2) / unit;
  if (hundredths == 100) {
    ++whole;
    hundredths = 0;
  }
  const bool is_negative = bytes < 0 && (whole > 0 || hundredths > 0);
  return concat(is_negative ? "-" : "", grouped(whole), hundredths < 10 ? ".0" : ".", hundredths);
}

std::string mebibytes(i64 bytes) { return in_units(bytes, i64{1} << 20); }

std::string printable(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::string_view rest = text.substr(i);
    const std::size_t length = utf8_length(rest);
    const bool is_command = (i == begin && rest.starts_with("::")) || rest.starts_with("##[");
    if (length == 0 || is_command || is_steering(utf8_code(rest, length))) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
      ++i;
    } else {
      out += text.substr(i, length);
      i += length;
    }
  }
  return out;
}

}  // namespace moeplan
