// JsonWriter: appends JSON to a string. Integers and texts only as given, so that equal input gives equal
// bytes.
#pragma once

#include <string>
#include <string_view>

#include "planner/core/integer.hpp"

namespace moeplan {

class JsonWriter {
 public:
  enum class Style { compact, indented };
  explicit JsonWriter(std::string& out, Style style = Style::compact) : out_(out), style_(style) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  // An array of the values behind each other on one line, in either style.
  template <class Values>
  JsonWriter& inline_array(const Values& values) {
    separate();
    out_ += '[';
    bool first = true;
    for (const auto& item : values) {
      if (!first) out_ += style_ == Style::indented ? ", " : ",";
      first = false;
      append(item);
    }
    out_ += ']';
    return *this;
  }

  // Keys are our own words: they are not escaped.
  JsonWriter& key(std::string_view name);
  // A key that is somebody's text.
  JsonWriter& text_key(std::string_view text);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(i64 number);
  JsonWriter& value(bool truth);
  JsonWriter& null();
  // A value that is JSON already.
  JsonWriter& raw(std::string_view json);

  template <class T>
  JsonWriter& member(std::string_view name, const T& item) {
    key(name);
    return value(item);
  }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  void new_line();
  void append(std::string_view text);
  void append(i64 number);

  std::string& out_;
  Style style_;
  int depth_ = 0;
  bool needs_comma_ = false;
  bool behind_key_ = false;
};

}  // namespace moeplan
