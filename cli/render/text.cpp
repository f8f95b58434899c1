#include "cli/render/text.hpp"

#include <algorithm>

#include "cli/io/utf8.hpp"
#include "planner/core/text.hpp"

namespace moeplan {

std::string mebibytes(i64 bytes) {
  constexpr i64 kMebibyte = i64{1} << 20;
  const i64 magnitude = bytes < 0 ? -bytes : bytes;
  // Whole and remainder apart: bytes * 100 would overflow long before bytes do.
  i64 whole = magnitude / kMebibyte;
  i64 hundredths = (magnitude % kMebibyte * 100 + kMebibyte / 2) / kMebibyte;
  if (hundredths == 100) {
    ++whole;
    hundredths = 0;
  }
  const bool is_negative = bytes < 0 && (whole > 0 || hundredths > 0);
  return concat(is_negative ? "-" : "", grouped(whole), hundredths < 10 ? ".0" : ".", hundredths);
}

i64 display_width(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

namespace {

// U+202A..202E and U+2066..2069 reorder what follows them on a terminal.
bool is_bidi_control(std::string_view character) {
  return (character >= "\xE2\x80\xAA" && character <= "\xE2\x80\xAE") ||
         (character >= "\xE2\x81\xA6" && character <= "\xE2\x81\xA9");
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = utf8_length(text.substr(i));
    const bool is_control = byte < 0x20 || byte == 0x7F ||
                            (length == 2 && byte == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0);
    if (length == 0 || is_control || is_bidi_control(text.substr(i, length))) {
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
