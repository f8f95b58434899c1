// ByteRange: a number of bytes known up to the digits it was printed with.
#pragma once

#include <optional>

#include "planner/core/integer.hpp"

namespace moeplan {

// Both ends are possible values.
struct ByteRange {
  i64 lo = 0;
  i64 hi = 0;

  constexpr bool is_exact() const { return lo == hi; }
  friend constexpr bool operator==(const ByteRange&, const ByteRange&) = default;
};
constexpr ByteRange exactly(i64 bytes) { return {bytes, bytes}; }
constexpr ByteRange operator+(ByteRange a, ByteRange b) { return {a.lo + b.lo, a.hi + b.hi}; }
constexpr ByteRange operator-(ByteRange a, ByteRange b) { return {a.lo - b.hi, a.hi - b.lo}; }

// The same with open ends: none is "nothing is known on this side".
struct ByteBounds {
  std::optional<i64> lo;
  std::optional<i64> hi;

  ByteBounds() = default;
  ByteBounds(std::optional<i64> low, std::optional<i64> high) : lo(low), hi(high) {}
  ByteBounds(ByteRange range) : lo(range.lo), hi(range.hi) {}
  bool is_exact() const { return lo && hi && *lo == *hi; }
};

inline ByteBounds operator+(const ByteBounds& a, const ByteBounds& b) {
  ByteBounds sum;
  if (a.lo && b.lo) sum.lo = *a.lo + *b.lo;
  if (a.hi && b.hi) sum.hi = *a.hi + *b.hi;
  return sum;
}

inline ByteBounds operator-(const ByteBounds& a, const ByteBounds& b) {
  ByteBounds difference;
  if (a.lo && b.hi) difference.lo = *a.lo - *b.hi;
  if (a.hi && b.lo) difference.hi = *a.hi - *b.lo;
  return difference;
}

}  // namespace moeplan
