// Half-precision numbers as bits, in plain integers and doubles: for references, which share nothing with the
// kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace moeplan::oracle {

inline double value_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = 0;
  if (exponent == 31)
    value = fraction ? NAN : INFINITY;
  else if (exponent == 0)
    value = std::ldexp(fraction, -24);
  else
    value = std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

// To nearest, ties to even.
inline std::uint16_t half_of(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  const auto with_sign = [&](int bits) { return static_cast<std::uint16_t>(sign | bits); };
  if (std::isnan(value)) return with_sign(0x7E00);
  if (size == 0) return sign;
  if (size >= 65520) return with_sign(0x7C00);  // half a step above the largest
  // The step between halves of this size; below 2^-14 they are as far apart as there.
  int exponent = 0;
  std::frexp(size, &exponent);
  const int step = std::max(exponent - 11, -24);
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(size, -step)));
  // 1024 steps and more carry into the exponent by themselves.
  return with_sign(step == -24 ? steps : ((step + 24) << 10) + steps);
}

inline double rounded_to_half(double value) { return value_of_half(half_of(value)); }

inline double value_of_bfloat16(std::uint16_t bits) {
  return static_cast<double>(__builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16));
}

// To nearest, ties to even; finite values.
inline std::uint16_t bfloat16_of(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace moeplan::oracle
