#include "planner/core/python_int.hpp"

namespace moeplan {

std::string_view strip_python_space(std::string_view text) {
  const auto is_space = [](char c) {
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
  };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<i64> parse_python_int(std::string_view text) {
  text = strip_python_space(text);
  bool negative = false;
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  if (text.empty() || text.front() == '_' || text.back() == '_') return std::nullopt;
  i64 value = 0;
  char before = '0';
  for (char c : text) {
    if (c == '_') {
      if (before == '_') return std::nullopt;
    } else if (c >= '0' && c <= '9') {
      value =
          value > kPythonIntLimit / 10 ? kPythonIntLimit : min_of(value * 10 + (c - '0'), kPythonIntLimit);
    } else {
      return std::nullopt;
    }
    before = c;
  }
  return negative ? -value : value;
}

}  // namespace moeplan
