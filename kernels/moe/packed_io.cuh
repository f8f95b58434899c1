// Numbers of the input and output type, which activations of packed plans have throughout: bf16 where
// IO_BF16, else fp16.
#pragma once

#include "kernels/moe/lanes.cuh"
#include "kernels/ptx.cuh"

namespace moeplan {

inline void to_io_floats(float (&v)[4], const HalfQuad& quad) {
  if constexpr (IO_BF16) {
    // A bf16 is the upper half of a float.
    const auto low = [](unsigned pair) { return __builtin_bit_cast(float, pair << 16); };
    const auto high = [](unsigned pair) { return __builtin_bit_cast(float, pair & 0xFFFF0000u); };
    v[0] = low(quad.low);
    v[1] = high(quad.low);
    v[2] = low(quad.high);
    v[3] = high(quad.high);
  } else {
    to_floats(v, quad);
  }
}

inline unsigned io_pair(float first, float second) {
  return IO_BF16 ? ptx::bfloat16s_of(first, second) : ptx::halves_of(first, second);
}

inline HalfQuad io_quad(const float (&v)[4]) { return {io_pair(v[0], v[1]), io_pair(v[2], v[3])}; }

}  // namespace moeplan
