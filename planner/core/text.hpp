// Building message texts without a formatting library: the planner links nothing.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "planner/core/integer.hpp"

namespace moeplan {

template <class Part>
void append_text(std::string& out, const Part& part) {
  if constexpr (std::integral<Part> && !std::same_as<Part, char>) {
    out += std::to_string(part);
  } else {
    out += part;
  }
}

// The parts after each other; integers in decimal.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string out;
  (append_text(out, parts), ...);
  return out;
}

// "1,234,567"
inline std::string grouped(i64 number) {
  std::string digits = std::to_string(number < 0 ? -number : number);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  if (number < 0) digits.insert(0, 1, '-');
  return digits;
}

// At most `limit` bytes of `text`, cut between characters and marked when cut.
inline std::string shortened(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  return concat(text.substr(0, limit), "…");
}

inline std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

// "a, b, c" with `last` before the last item when given: join(names, ", ", " or ").
template <class Items>
std::string join(const Items& items, std::string_view separator, std::string_view last = {}) {
  std::string out;
  const auto count = std::size(items);
  std::size_t index = 0;
  for (const auto& item : items) {
    if (index > 0) out += (index + 1 == count && !last.empty()) ? last : separator;
    append_text(out, item);
    ++index;
  }
  return out;
}

}  // namespace moeplan
