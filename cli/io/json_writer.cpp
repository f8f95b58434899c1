#include "cli/io/json_writer.hpp"

#include <charconv>

#include "cli/io/utf8.hpp"

namespace moeplan {
void JsonWriter::append(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  out_ += '"';
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x80) {
      // Texts from the command line need not be UTF-8, JSON has to be.
      const std::size_t length = utf8_length(text.substr(i));
      if (length == 0) {
        out_ += "\\ufffd";
        ++i;
      } else {
        out_ += text.substr(i, length);
        i += length;
      }
      continue;
    }
    ++i;
    switch (c) {
      case '"':
        out_ += "\\\"";
        break;
      case '\\':
        out_ += "\\\\";
        break;
      case '\n':
        out_ += "\\n";
        break;
      case '\t':
        out_ += "\\t";
        break;
      case '\r':
        out_ += "\\r";
        break;
      default:
        if (code < 0x20 || code == 0x7F) {
          out_ += "\\u00";
          out_ += kHex[code >> 4];
          out_ += kHex[code & 15];
        } else {
          out_ += c;
        }
    }
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
  append(name);
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

JsonWriter& JsonWriter::null() {
  separate();
  out_ += "null";
  return *this;
}

}  // namespace moeplan
