// top_k_sum: the output of every token, in fp32, from its routes' rows. With H the 128-point Hadamard
// transform:
//
//   y[t] = sum over slots s, in order, of H c13[r] / sqrt 128 * down_svh[e] * weight[r]     r = t * top_k + s
//
// Routes that were not computed are left out: their rows hold whatever was there. A warp takes 128 columns of
// one token.
#include "kernels/moe/arguments.hpp"
#include "kernels/moe/hadamard.cuh"
#include "kernels/ptx.cuh"
#include "planner/moe/kernel_geometry.hpp"

namespace moeplan {
namespace {

constexpr int kThreads = kTopKSumThreads;
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");

#if ID_BYTES == 8
using Id = long long;
#else
using Id = int;
#endif

struct alignas(8) HalfQuad {
  unsigned low, high;  // halves 0, 1 and 2, 3
};
struct alignas(16) FloatQuad {
  float a, b, c, d;
};

// Four halves of a block of 128, those of this lane.
inline void load_floats(float (&v)[4], const HalfBits* block, int lane) {
  const HalfQuad quad = reinterpret_cast<const HalfQuad*>(block)[lane];
  v[0] = ptx::float_of_half(static_cast<HalfBits>(quad.low));
  v[1] = ptx::float_of_half(static_cast<HalfBits>(quad.low >> 16));
  v[2] = ptx::float_of_half(static_cast<HalfBits>(quad.high));
  v[3] = ptx::float_of_half(static_cast<HalfBits>(quad.high >> 16));
}

// The expert of a route, or -1 where it was not computed.
inline i64 expert_of(const TopKSumArguments& args, i64 route) {
  const Id id = static_cast<const Id*>(args.topk_ids)[route];
  if (id < 0 || id >= args.route_experts) return -1;
  const i64 expert = args.expert_map ? args.expert_map[id] : id;
  return expert < args.experts ? expert : -1;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    top_k_sum(const __grid_constant__ TopKSumArguments args) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const i64 row_blocks = args.hidden / kHadamardBlock;
  const i64 item = static_cast<i64>(blockIdx.x) * (kThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  if (item >= args.tokens * row_blocks) return;
  const i64 token = item / row_blocks, column = item % row_blocks * kHadamardBlock;

  float sum[4] = {};
  for (i64 slot = 0; slot < args.top_k; ++slot) {
    const i64 route = token * args.top_k + slot;
    const i64 expert = expert_of(args, route);
    if (expert < 0) continue;
    float v[4], scale[4];
    load_floats(v, args.intermediate_cache13 + route * args.hidden + column, lane);
    load_floats(scale, args.down_svh + expert * args.down_svh_stride + column, lane);
    hadamard128(v);
    const float weight = args.topk_weights[route];
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] += v[i] * kHadamardScale * scale[i] * weight;
  }
  reinterpret_cast<FloatQuad*>(args.output + token * args.hidden + column)[lane] = {sum[0], sum[1], sum[2],
                                                                                    sum[3]};
}

}  // namespace moeplan
