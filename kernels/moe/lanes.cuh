// Threads by their place, and 128 elements as a warp holds them: lane l has elements 4l to 4l+3.
#pragma once

#include "kernels/moe/arguments.hpp"
#include "kernels/ptx.cuh"

namespace moeplan {

inline int thread_id() { return static_cast<int>(threadIdx.x); }
inline int lane_id() { return thread_id() % 32; }
inline int warp_id() { return thread_id() / 32; }

struct alignas(8) HalfQuad {
  unsigned low, high;  // halves 0, 1 and 2, 3
};

inline void to_floats(float (&v)[4], const HalfQuad& quad) {
  v[0] = ptx::float_of_half(static_cast<HalfBits>(quad.low));
  v[1] = ptx::float_of_half(static_cast<HalfBits>(quad.low >> 16));
  v[2] = ptx::float_of_half(static_cast<HalfBits>(quad.high));
  v[3] = ptx::float_of_half(static_cast<HalfBits>(quad.high >> 16));
}

inline HalfQuad load_quad(const HalfBits* block) {
  return reinterpret_cast<const HalfQuad*>(block)[lane_id()];
}

}  // namespace moeplan
