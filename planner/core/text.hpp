// Building message texts without a formatting library: the planner links nothing.
#pragma once

#include <concepts>
#include <span>
#include <string>
#include <string_view>

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
