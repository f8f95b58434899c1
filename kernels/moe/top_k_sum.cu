// top_k_sum: the output of every token, in fp32, from its routes' rows. With H the 128-point Hadamard
// transform:
//
//   y[t] = sum over slots s, in order, of H c13[r] / sqrt 128 * down_svh[e] * weight[r]     r = t * top_k + s
//
// Routes that were not computed are left out: their rows hold whatever was there. A warp takes 128 columns of
// one token.
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

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    top_k_sum(const __grid_constant__ TopKSumArguments args) {
  const i64 row_blocks = args.hidden / kHadamardBlock;
  const i64 item = static_cast<i64>(blockIdx.x) * (kThreads / 32) + warp_id();
  if (item >= args.tokens * row_blocks) return;
  const i64 token = item / row_blocks, column = item % row_blocks * kHadamardBlock;

  float sum[4] = {};
  for (i64 slot = 0; slot < args.top_k; ++slot) {
    const i64 route = token * args.top_k + slot;
    const Id id = static_cast<const Id*>(args.topk_ids)[route];
    const i64 expert = expert_of(id, args.expert_map, args.route_experts, args.experts);
    if (expert < 0) continue;
    float v[4], scale[4];
    load_floats(v, args.intermediate_cache13 + route * args.hidden + column);
    load_floats(scale, args.down_svh + expert * args.down_svh_stride + column);
    hadamard128(v);
    const float weight = args.topk_weights[route];
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] += v[i] * kHadamardScale * scale[i] * weight;
  }
  reinterpret_cast<FloatQuad*>(args.output + token * args.hidden + column)[lane_id()] = {sum[0], sum[1],
                                                                                         sum[2], sum[3]};
}

}  // namespace moeplan
