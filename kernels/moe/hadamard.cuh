// The 128-point Walsh-Hadamard transform in natural order, a warp a block of 128.
#pragma once

#include "kernels/moe/lanes.cuh"
#include "kernels/ptx.cuh"
#include "planner/moe/kernel_geometry.hpp"

namespace moeplan {

constexpr float kHadamardScale = 0.088388347648318447f;  // 1 / sqrt(128), on each side of a linear layer

// Lane l of the warp holds elements 4l to 4l+3, before and behind. Not scaled.
inline void hadamard128(float (&v)[4]) {
  const float sum01 = v[0] + v[1], difference01 = v[0] - v[1];
  const float sum23 = v[2] + v[3], difference23 = v[2] - v[3];
  v[0] = sum01 + sum23;
  v[1] = difference01 + difference23;
  v[2] = sum01 - sum23;
  v[3] = difference01 - difference23;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float other = ptx::shuffle_xor(v[i], step);
      v[i] = (lane_id() & step) ? other - v[i] : v[i] + other;
    }
  }
}

}  // namespace moeplan
