// What mma_rate.cu is launched with, and how much it does: one text for host and device.
#pragma once

#include "planner/core/integer.hpp"

namespace moeplan {

constexpr i64 kMmaRateThreads = 256;  // a block
constexpr i64 kMmaRateSums = 8;       // of a warp, side by side
constexpr i64 kMmaFlops = 2 * 16 * 8 * 16;

struct MmaRateArguments {
  float* out;  // a sum a thread, so that none can be left out
  i64 rounds;
};

// Of a launch.
constexpr i64 mma_rate_flops(i64 blocks, i64 rounds) {
  return blocks * (kMmaRateThreads / 32) * rounds * kMmaRateSums * kMmaFlops;
}

}  // namespace moeplan
