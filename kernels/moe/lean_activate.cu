// lean_activate: what a lean launch's second product multiplies. For every valid route r, with its expert e
// and H the 128-point Hadamard transform of each block of 128:
//
//   activated[r] = fp16(H (silu(g) * u * down_suh[e]) / sqrt 128)
//                  with g = H gate[r] / sqrt 128 * gate_svh[e], and u likewise of up
//
// A warp takes kHadamardColumns columns of a route.
#include "kernels/moe/activation.cuh"
#include "kernels/moe/instructions.cuh"
#include "kernels/moe/lanes.cuh"
#include "kernels/moe/lean_routing.cuh"
#include "planner/moe/lean_geometry.hpp"

namespace moeplan {
namespace {

constexpr int kThreads = kLeanActivateThreads;
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    lean_activate(const __grid_constant__ LeanActivateArguments args) {
  ptx::release_next_launch();
  const i64 row_items = ceil_div(args.intermediate, kHadamardColumns);
  const i64 item = i64{blockIdx.x} * (kThreads / 32) + warp_id();
  if (item >= args.routing.routes * row_items) {
    // Without routes too: a launch that ended ahead of the one before would let those behind it overtake.
    ptx::wait_for_last_launch();
    return;
  }
  const int route = static_cast<int>(item / row_items);
  const i64 expert = routed_expert(args.routing, route);
  ptx::wait_for_last_launch();
  if (expert < 0) return;
  // Lanes behind the last column take part in the first one's, and do not store.
  const i64 own = item % row_items * kHadamardColumns + lane_column();
  const bool is_inside = own < args.intermediate;
  const i64 column = is_inside ? own : 0;
  const LaneHalves activated = activated_part(
      args.gate_up + route * (2 * args.intermediate) + column,
      args.intermediate_rotations + expert * (3 * args.intermediate) + column, args.intermediate);
  if (is_inside) store_lane(args.activated + route * args.intermediate + column, activated);
}

}  // namespace moeplan
