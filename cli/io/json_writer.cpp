#include "cli/io/json_writer.hpp"

#include <array>
#include <charconv>
#include <utility>

#include "cli/io/utf8.hpp"

namespace moeplan {
namespace {

// Bytes that stand for themselves inside a JSON string.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (int c = 0x20; c < 0x7F; ++c) plain[static_cast<std::size_t>(c)] = c != '"' && c != '\\';
  return plain;
}();

// Appends one byte that is not plain, or one character beyond ASCII. Returns the bytes it took.
std::size_t append_escaped(std::string& out, std::string_view rest) {
  constexpr std::pair<char, std::string_view> kShort[] = {
      {'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\t', "\\t"}, {'\r', "\\r"}};
  constexpr char kHex[] = "0123456789abcdef";
  for (const auto& [byte, escape] : kShort) {
    if (rest[0] != byte) continue;
    out += escape;
    return 1;
  }
  const auto code = static_cast<unsigned char>(rest[0]);
  if (code < 0x80) {
    out += "\\u00";
    out += kHex[code >> 4];
    out += kHex[code & 15];
    return 1;
  }
  // Texts from the command line need not be UTF-8; JSON has to be.
  const std::size_t length = utf8_length(rest);
  if (length == 0) {
    out += "\\ufffd";
    return 1;
  }
  const char32_t steering = utf8_code(rest, length);
  if (is_steering(steering)) {
    out += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out += kHex[steering >> shift & 15];
  } else {
    out += rest.substr(0, length);
  }
  return length;
}

}  // namespace

void JsonWriter::append(std::string_view text) {
  out_ += '"';
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && kPlain[static_cast<unsigned char>(text[end])]) ++end;
    out_.append(text, i, end - i);
    i = end;
    if (i < text.size()) i += append_escaped(out_, text.substr(i));
  }
  out_ += '"';
}

void JsonWriter::append(i64 number) {
  char digits[24];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, number);
  out_.append(digits, end);
}

void JsonWriter::new_line() {
  if (style_ == Style::compact) return;
  out_ += '\n';
  out_.append(static_cast<std::size_t>(depth_) * 2, ' ');
}

void JsonWriter::separate() {
  if (behind_key_) {
    behind_key_ = false;
  } else {
    if (needs_comma_) out_ += ',';
    if (depth_ > 0) new_line();
  }
  needs_comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  ++depth_;
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  --depth_;
  if (needs_comma_) new_line();
  out_ += bracket;
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  out_ += '"';
  out_ += name;
  out_ += style_ == Style::indented ? "\": " : "\":";
  behind_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::text_key(std::string_view text) {
  value(text);
  out_ += style_ == Style::indented ? ": " : ":";
  behind_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  append(text);
  return *this;
}

JsonWriter& JsonWriter::value(i64 number) {
  separate();
  append(number);
  return *this;
}

JsonWriter& JsonWriter::value(bool truth) {
  separate();
  out_ += truth ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

JsonWriter& JsonWriter::null() {
  separate();
  out_ += "null";
  return *this;
}

}  // namespace moeplan
