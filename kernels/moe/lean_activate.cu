// lean_activate: what a lean prefill launch's second product multiplies. For every valid route r, with its
// expert e and H the 128-point Hadamard transform of each block of 128:
//
//   activated[r] = fp16(H (silu(g) * u * down_suh[e]) / sqrt 128)
//                  with g = H gate[r] / sqrt 128 * gate_svh[e], and u likewise of up
//
// A warp takes kHadamardColumns columns of a route at a time.
#include "kernels/moe/activation.cuh"
#include "kernels/moe/lanes.cuh"
#include "kernels/moe/lean_prefill_arguments.hpp"
#include "planner/moe/lean_prefill_geometry.hpp"

namespace moeplan {
namespace {

constexpr int kThreads = kLeanActivateThreads;
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    lean_activate(const __grid_constant__ LeanActivateArguments args) {
  const int row_items = static_cast<int>(ceil_div(args.intermediate, kHadamardColumns));
  const int items = *args.packed_route_count * row_items;
  const int stride = static_cast<int>(gridDim.x) * (kThreads / 32);
  for (int item = static_cast<int>(blockIdx.x) * (kThreads / 32) + warp_id(); item < items; item += stride) {
    const int slot = item / row_items;
    const i64 route = args.packed_route_indices[slot];
    const i64 expert = args.block_expert_ids[slot / kLeanBlock];
    if (route >= args.routes || expert < 0 || expert >= args.experts) continue;
    // Lanes behind the last column take part in the first one's, and do not store.
    const i64 own = item % row_items * kHadamardColumns + lane_column();
    const bool is_inside = own < args.intermediate;
    const i64 column = is_inside ? own : 0;
    const LaneHalves activated = activated_part(
        args.gate_up + route * (2 * args.intermediate) + column,
        args.intermediate_rotations + expert * (3 * args.intermediate) + column, args.intermediate);
    if (is_inside) store_lane(args.activated + route * args.intermediate + column, activated);
  }
}

}  // namespace moeplan
