// top_k_sum: the output of every token, in fp32, from its routes' rows. With H the 128-point Hadamard
// transform:
//
//   y[t] = sum over slots s, in order, of H c13[r] / sqrt 128 * down_svh[e] * weight[r]     r = t * top_k + s
//
// Routes that were not computed are left out: their rows hold whatever was there. A warp takes
// kHadamardColumns columns of one token.
#include "kernels/moe/arguments.hpp"
#include "kernels/moe/hadamard.cuh"
#include "kernels/moe/lanes.cuh"
#include "kernels/moe/route.cuh"
#include "planner/moe/kernel_geometry.hpp"

namespace moeplan {
namespace {

constexpr int kThreads = kTopKSumThreads;
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");

struct alignas(16) FloatQuad {
  float a, b, c, d;
};

// Adds `slots` rows from `first_route` on; a lane holds the expert and weight of the slot of its number. Rows
// are loaded a few at a time, so that a warp waits for all of them together.
inline void add_slots(float (&sum)[kLaneElements], const TopKSumArguments& args, i64 first_route, i64 column,
                      int own_expert, float own_weight, int slots) {
  constexpr int kRows = 4;
  for (int first = 0; first < slots; first += kRows) {
    LaneHalves rows[kRows] = {}, scales[kRows] = {};
    int experts[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      experts[i] = first + i < slots ? ptx::shuffle(own_expert, first + i) : -1;
      if (experts[i] < 0) continue;
      rows[i] = load_lane(args.intermediate_cache13 + (first_route + first + i) * args.hidden + column);
      scales[i] = load_lane(args.down_svh + experts[i] * args.down_svh_stride + column);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (experts[i] < 0) continue;
      const float weight = ptx::shuffle(own_weight, first + i);
      float v[kLaneElements], scale[kLaneElements];
      to_floats(v, rows[i]);
      to_floats(scale, scales[i]);
      hadamard128(v);
#pragma unroll
      for (int j = 0; j < kLaneElements; ++j) sum[j] += v[j] * scale[j] * weight;
    }
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    top_k_sum(const __grid_constant__ TopKSumArguments args) {
  const i64 row_items = ceil_div(args.hidden, kHadamardColumns);
  const i64 item = static_cast<i64>(blockIdx.x) * (kThreads / 32) + warp_id();
  if (item >= args.tokens * row_items) return;
  const i64 token = item / row_items, own_column = item % row_items * kHadamardColumns + lane_column();
  // Lanes behind the last column take part in the first one's, and do not store.
  const bool is_inside = own_column < args.hidden;
  const i64 column = is_inside ? own_column : 0;

  float sum[kLaneElements] = {};
  for (i64 first = 0; first < args.top_k; first += 32) {
    // Every lane finds the expert of one slot.
    const i64 own = first + lane_id();
    int expert = -1;
    float weight = 0;
    if (own < args.top_k) {
      const i64 route = token * args.top_k + own;
      const Id id = static_cast<const Id*>(args.topk_ids)[route];
      expert = static_cast<int>(expert_of(id, args.expert_map, args.route_experts, args.experts));
      weight = args.topk_weights[route];
    }
    add_slots(sum, args, token * args.top_k + first, column, expert, weight,
              static_cast<int>(min_of(args.top_k - first, 32)));
  }
  if (!is_inside) return;
  float* output = args.output + token * args.hidden + column;
#pragma unroll
  for (int i = 0; i < kLaneElements; i += 4)
    *reinterpret_cast<FloatQuad*>(output + i % 8 + i / 8 * (kHadamardBlock / 2)) = {sum[i], sum[i + 1],
                                                                                    sum[i + 2], sum[i + 3]};
}

}  // namespace moeplan
