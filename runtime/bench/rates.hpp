// What floors are computed with: how fast bytes move, weights decode and multiply-adds run.
#pragma once

#include <string>

#include "planner/core/integer.hpp"

namespace moeplan {

constexpr i64 rounded_div(i64 value, i64 divisor) { return (value + divisor / 2) / divisor; }

// Where floors of bytes come from.
struct Bandwidth {
  i64 gb_s = 0;  // bytes a nanosecond
  bool is_measured = false;
};
// "4,260 GB/s, measured: a device-to-device copy, read and written"
std::string text_of(const Bandwidth& bandwidth);

// What tensor cores do.
struct FlopRate {
  i64 per_ns = 0;  // thousands of them are TFLOP/s
  bool is_measured = false;
};
// "630.0 TFLOP/s, measured: mma.sync of halves out of registers"
std::string text_of(const FlopRate& rate);

// What `units` take at so many a nanosecond, in thousandths of `nanoseconds`.
constexpr i64 floor_permille(i64 units, i64 units_per_ns, i64 nanoseconds) {
  return rounded_div(units * 1000, max_of(units_per_ns * nanoseconds, 1));
}

}  // namespace moeplan
