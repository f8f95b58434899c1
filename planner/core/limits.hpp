// Upper bounds of every input, chosen so that no later product leaves 63 bits. The readers check them before
// anything is computed; tests/property/limits_test.cpp recomputes the extremes in 128 bits.
#pragma once

#include "planner/core/integer.hpp"

namespace moeplan {

constexpr i64 kMaxTokens = i64{1} << 24;     // tokens of a plan, before power-of-two bucketing
constexpr i64 kMaxTopK = i64{1} << 12;       // experts a token is routed to
constexpr i64 kMaxExperts = i64{1} << 16;    // weights', router's and global experts
constexpr i64 kMaxDimension = i64{1} << 20;  // hidden and intermediate size, in elements
constexpr i64 kMaxMultiprocessors = i64{1} << 12;
constexpr i64 kMaxKvBytesPerToken = i64{1} << 28;  // of a rank; keeps context * bytes within 61 bits
constexpr i64 kMaxTokenCounts = 256;               // entries of a core token list

}  // namespace moeplan
