// What the bits of 16-bit numbers stand for, and the bits of what is rounded to them: in doubles, without the
// device's own conversions.
#pragma once

#include "kernels/oracle/arguments.hpp"

namespace moeplan {

inline double value_of_half(HalfBits half) {
  // As a float these bits are 2^-112 of the value; infinities and what is no number are not finite there.
  const unsigned size = half & 0x7fffu;
  const double value = static_cast<double>(__builtin_bit_cast(float, size << 13)) * 0x1p112;
  const double whole = size < 0x7c00u ? value : __builtin_bit_cast(double, 0x7ff8ull << 48);
  return (half & 0x8000u) != 0 ? -whole : whole;
}

// To nearest, ties to even.
inline HalfBits half_of(double value) {
  const unsigned long long bits = __builtin_bit_cast(unsigned long long, value);
  const unsigned sign = static_cast<unsigned>(bits >> 63) << 15;
  const long long exponent = static_cast<long long>(bits >> 52 & 0x7ff) - 1023;
  const double size = __builtin_bit_cast(double, bits & ~(1ull << 63));
  if (!(size < 65520.0)) return static_cast<HalfBits>(sign | (size == size ? 0x7c00u : 0x7e00u));
  // The step between halves of this size is 2^step.
  const long long step = exponent < -14 ? -24 : exponent - 10;
  const double per_step = __builtin_bit_cast(double, static_cast<unsigned long long>(1023 - step) << 52);
  const double scaled = size * per_step;  // below 2^11: adding 2^52 rounds it to a whole number
  const unsigned steps = static_cast<unsigned>((scaled + 0x1p52) - 0x1p52);
  return static_cast<HalfBits>(sign | (static_cast<unsigned>(step + 24) * 1024u + steps));
}

// A bf16 number is the upper half of a float.
inline double value_of_bfloat16(HalfBits bits) {
  return static_cast<double>(__builtin_bit_cast(float, static_cast<unsigned>(bits) << 16));
}

// To nearest, ties to even, of numbers that a float holds.
inline HalfBits bfloat16_of(double value) {
  const unsigned bits = __builtin_bit_cast(unsigned, static_cast<float>(value));
  return static_cast<HalfBits>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace moeplan
