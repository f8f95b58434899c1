// lean_sum: a slice of every token's output, in fp32, from its routes' rows. With r a route of token t to
// expert e and H the 128-point Hadamard transform:
//
//   output[t] = sum over the routes of t of H rows[r] / sqrt 128 * down_svh[e] * weight[r]
//
// A warp takes 128 columns of a token, eight lanes every fourth route; their sums are added in a fixed order.
// Routes that were not computed are left out: their rows hold whatever was there.
#include "kernels/moe/hadamard.cuh"
#include "kernels/moe/instructions.cuh"
#include "kernels/moe/lean_routing.cuh"
#include "planner/moe/lean_geometry.hpp"

namespace moeplan {
namespace {

constexpr int kThreads = kLeanSumThreads;
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");
constexpr int kQuarters = 4;

struct alignas(16) FloatQuad {
  float a, b, c, d;
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    lean_sum(const __grid_constant__ LeanSumArguments args) {
  ptx::release_next_launch();
  const i64 column_blocks = args.columns / kHadamardBlock;
  const i64 item = i64{blockIdx.x} * (kThreads / 32) + warp_id();
  if (item >= args.tokens * column_blocks) {
    // Without tokens too: a launch that ended ahead of the one before would let those behind it overtake.
    ptx::wait_for_last_launch();
    return;
  }
  const i64 token = item / column_blocks;
  const i64 column = item % column_blocks * kHadamardBlock + lane_id() % 8 * 8;
  const int quarter = lane_id() / 8;

  float sum[kLaneElements] = {};
  bool is_first = true;
#pragma unroll 2
  for (i64 first = 0; first < args.top_k; first += kQuarters) {
    const i64 slot = first + quarter, route = token * args.top_k + slot;
    const i64 expert = slot < args.top_k ? routed_expert(args.routing, static_cast<int>(route)) : -1;
    LaneHalves row{}, scale{};
    float weight = 0;
    if (expert >= 0) {
      scale = load_lane(args.down_svh + expert * args.down_svh_stride + column);
      weight = args.topk_weights[route];
    }
    if (is_first) ptx::wait_for_last_launch();
    is_first = false;
    if (expert >= 0) row = load_lane(args.rows + route * args.row_pitch + column);
    float v[kLaneElements], factors[kLaneElements];
    to_floats(v, row);
    to_floats(factors, scale);
    hadamard128(v);
    if (expert < 0) continue;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) sum[i] += v[i] * factors[i] * weight;
  }
#pragma unroll
  for (float& element : sum) {
    element += ptx::shuffle_xor(element, 8);
    element += ptx::shuffle_xor(element, 16);
  }
  if (quarter != 0) return;
  float* const output = args.output + token * args.hidden + column;
#pragma unroll
  for (int i = 0; i < kLaneElements; i += 4)
    *reinterpret_cast<FloatQuad*>(output + i % 8 + i / 8 * (kHadamardBlock / 2)) = {sum[i], sum[i + 1],
                                                                                    sum[i + 2], sum[i + 3]};
}

}  // namespace moeplan
