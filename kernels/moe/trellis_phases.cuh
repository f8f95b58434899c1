// The phases of a fused Trellis launch that are no matrix products, and the routes that its blocks hold. A
// kernel that includes this is compiled for a BLOCK, the rows of a route block, and INPUT_BF16, the type of
// x.
#pragma once

#include "kernels/grid_barrier.cuh"
#include "kernels/moe/activation.cuh"
#include "kernels/moe/arguments.hpp"
#include "kernels/moe/hadamard.cuh"
#include "kernels/moe/instructions.cuh"
#include "kernels/moe/lanes.cuh"
#include "kernels/ptx.cuh"
#include "planner/moe/kernel_geometry.hpp"

namespace moeplan {

// The routes that are packed, padding included.
inline int packed_slots(const FusedTrellisArguments& args) { return *args.packed_route_count; }

// A route with its expert; expert -1: padding, or an expert that is not among the weights'.
struct Route {
  int route;
  int expert;
};
inline Route route_of_slot(const FusedTrellisArguments& args, int slot) {
  const int route = args.packed_route_indices[slot];
  const int expert = args.block_expert_ids[slot / BLOCK];
  const bool is_live = route < args.routes && expert >= 0 && expert < args.experts;
  return {route, is_live ? expert : -1};
}

// The lane's elements of x, as halves.
inline LaneHalves load_input(const HalfBits* from) {
  LaneHalves halves = load_lane(from);
  if constexpr (INPUT_BF16) {
#pragma unroll
    for (unsigned& pair : halves.pairs) pair = ptx::halves_of_bfloat16s(pair);
  }
  return halves;
}

inline LaneHalves rotated(LaneHalves input, const LaneHalves& suh) {
#pragma unroll
  for (int i = 0; i < kLanePairs; ++i) input.pairs[i] = ptx::multiply_halves(input.pairs[i], suh.pairs[i]);
  float v[kLaneElements];
  to_floats(v, input);
  hadamard128(v);
  return rounded(v);
}

// Calls work(route, column, is_inside) for every live route, a warp for kHadamardColumns of its `width`
// columns. Column: the lane's first. Lanes behind the last column are given the first one, and may not store.
template <class Work>
inline void for_each_row_part(const FusedTrellisArguments& args, i64 width, Work work) {
  const int row_items = static_cast<int>(ceil_div(width, kHadamardColumns));
  const int items = packed_slots(args) * row_items;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int stride = static_cast<int>(gridDim.x) * warps;
  for (int item = static_cast<int>(blockIdx.x) * warps + warp_id(); item < items; item += stride) {
    const Route at = route_of_slot(args, item / row_items);
    if (at.expert < 0) continue;
    const i64 column = item % row_items * kHadamardColumns + lane_column();
    work(at, column < width ? column : 0, column < width);
  }
}

inline void rotate_inputs(const FusedTrellisArguments& args) {
  for_each_row_part(args, args.hidden, [&](const Route& at, i64 column, bool is_inside) {
    const LaneHalves input = load_input(args.x + at.route / args.top_k * args.hidden + column);
    const LaneHalves gate_suh = load_lane(args.gate_suh + at.expert * args.gate_suh_stride + column);
    const LaneHalves up_suh = load_lane(args.up_suh + at.expert * args.up_suh_stride + column);
    const LaneHalves gate = rotated(input, gate_suh), up = rotated(input, up_suh);
    if (!is_inside) return;
    const i64 to = at.route * args.hidden + column;
    store_lane(args.rotation_a_gate + to, gate);
    store_lane(args.rotation_a_up + to, up);
  });
}

inline void activate(const FusedTrellisArguments& args) {
  for_each_row_part(args, args.intermediate, [&](const Route& at, i64 column, bool is_inside) {
    const LaneHalves activated = activated_part(
        args.intermediate_cache13 + at.route * (2 * args.intermediate) + column,
        args.intermediate_rotations + at.expert * (3 * args.intermediate) + column, args.intermediate);
    if (is_inside) store_lane(args.intermediate_cache2 + at.route * args.intermediate + column, activated);
  });
}

// A whole launch, with a barrier of the grid between any two phases. `multiply_fc1` turns the rotated inputs
// into gate and up, `multiply_fc2` the activations into a row for each route.
template <class MultiplyFc1, class MultiplyFc2>
inline void run_phases(const FusedTrellisArguments& args, MultiplyFc1 multiply_fc1,
                       MultiplyFc2 multiply_fc2) {
  const GridBarrier barrier{args.barrier, args.barrier + 1};
  rotate_inputs(args);
  grid_sync<0, 3>(barrier);
  multiply_fc1(args);
  grid_sync<1, 3>(barrier);
  activate(args);
  grid_sync<2, 3>(barrier);
  multiply_fc2(args);
}

}  // namespace moeplan
