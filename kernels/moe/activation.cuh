// The activation between the two products of a Trellis layer, of the columns that a warp transforms.
#pragma once

#include "kernels/moe/hadamard.cuh"
#include "kernels/ptx.cuh"

namespace moeplan {

// H halves / sqrt 128 * svh.
inline void rotate_output(float (&v)[kLaneElements], const LaneHalves& halves, const LaneHalves& svh) {
  to_floats(v, halves);
  hadamard128(v);
  multiply_by(v, svh);
}

inline float silu(float x) {
  constexpr float kLog2E = 1.4426950408889634f;
  return ptx::divide_fast(x, 1.0f + ptx::exp2_fast(-kLog2E * x));
}

// fp16(H (silu(g) * u * down_suh) / sqrt 128), with g and u the rotated gate and up. `gate_up`: the lane's
// first element of gate, that of up is `intermediate` behind it; `scales`: likewise of gate_svh, up_svh and
// down_suh.
inline LaneHalves activated_part(const HalfBits* gate_up, const HalfBits* scales, i64 intermediate) {
  const LaneHalves gate_halves = load_lane(gate_up);
  const LaneHalves gate_svh = load_lane(scales), down_suh = load_lane(scales + 2 * intermediate);
  float gate[kLaneElements], up[kLaneElements];
  rotate_output(gate, gate_halves, gate_svh);
#pragma unroll
  for (float& element : gate) element = silu(element);
  multiply_by(gate, down_suh);
  // Loaded behind the gate's transform: there are no registers for both.
  const LaneHalves up_halves = load_lane(gate_up + intermediate);
  const LaneHalves up_svh = load_lane(scales + intermediate);
  rotate_output(up, up_halves, up_svh);
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) gate[i] *= up[i];
  hadamard128(gate);
  return rounded(gate);
}

}  // namespace moeplan
