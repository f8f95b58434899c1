// route_sum: the output of every token from its routes' rows, which have the router's weights in them:
//
//   y[t] = sum over slots s, in order, of c13[t * top_k + s]
//
// in fp32, rounded once. Routes that were not computed are left out: their rows hold whatever was there. A
// warp takes 128 columns of one token.
#include "kernels/moe/arguments.hpp"
#include "kernels/moe/lanes.cuh"
#include "kernels/moe/packed_io.cuh"
#include "kernels/moe/route.cuh"
#include "planner/moe/kernel_geometry.hpp"

namespace moeplan {
namespace {

constexpr int kThreads = kTopKSumThreads;
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");
constexpr i64 kColumns = 128;  // of a warp

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    route_sum(const __grid_constant__ RouteSumArguments args) {
  const i64 row_blocks = args.hidden / kColumns;
  const i64 item = static_cast<i64>(blockIdx.x) * (kThreads / 32) + warp_id();
  if (item >= args.tokens * row_blocks) return;
  const i64 token = item / row_blocks, column = item % row_blocks * kColumns;

  float sum[4] = {};
  for (i64 slot = 0; slot < args.top_k; ++slot) {
    const i64 route = token * args.top_k + slot;
    const Id id = static_cast<const Id*>(args.topk_ids)[route];
    if (expert_of(id, args.expert_map, args.route_experts, args.experts) < 0) continue;
    float v[4];
    to_io_floats(v, load_quad(args.intermediate_cache13 + route * args.hidden + column));
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] += v[i];
  }
  reinterpret_cast<HalfQuad*>(args.output + token * args.hidden + column)[lane_id()] = io_quad(sum);
}

}  // namespace moeplan
