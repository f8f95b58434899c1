// Numbers of thousandths as people read them.
#pragma once

#include <string>

#include "planner/core/integer.hpp"
#include "planner/core/text.hpp"

namespace moeplan {

// With so many decimals, 1 to 3, rounded half up: "1,234.6".
inline std::string decimal(i64 thousandths, int decimals) {
  i64 unit = 1000;
  for (int i = 0; i < decimals; ++i) unit /= 10;
  const i64 units = (thousandths + unit / 2) / unit, whole = 1000 / unit;
  std::string fraction = std::to_string(units % whole);
  fraction.insert(0, static_cast<std::size_t>(decimals) - fraction.size(), '0');
  return concat(grouped(units / whole), ".", fraction);
}

inline std::string microseconds(i64 nanoseconds) { return decimal(nanoseconds, 1); }

// Of thousandths: "82.4".
inline std::string percent(i64 permille) { return decimal(100 * permille, 1); }

}  // namespace moeplan
