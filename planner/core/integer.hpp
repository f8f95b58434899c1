// Exact integer helpers. Constexpr text without includes, so that host and device compilers read the same
// file.
#pragma once

namespace moeplan {

// 64 bits everywhere: arenas pass 2^31 bytes. A built-in type because device compilers have no <cstdint>.
using i64 = long long;

constexpr i64 min_of(i64 a, i64 b) { return a < b ? a : b; }
constexpr i64 max_of(i64 a, i64 b) { return a > b ? a : b; }

// ceil(value / divisor) for value >= 0, divisor >= 1.
constexpr i64 ceil_div(i64 value, i64 divisor) { return (value + divisor - 1) / divisor; }

// The smallest multiple of `alignment` that is >= value.
constexpr i64 align_up(i64 value, i64 alignment) { return ceil_div(value, alignment) * alignment; }

// The smallest power of two >= value, for 1 <= value <= 2^62.
constexpr i64 pow2_ceil(i64 value) {
  i64 power = 1;
  while (power < value) power *= 2;
  return power;
}

}  // namespace moeplan
