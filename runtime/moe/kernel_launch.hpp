// One launch of a kernel of the catalog, and the one that all fused MoE plans share.
#pragma once

#include <limits>

#include "kernels/moe/arguments.hpp"
#include "planner/moe/live_need.hpp"
#include "planner/moe/w4a16.hpp"
#include "runtime/jit/kernel_catalog.hpp"
#include "runtime/moe/fused_plan.hpp"

namespace moeplan {

template <class Arguments>
struct KernelLaunch {
  KernelVariant variant;
  i64 grid = 1;  // blocks; of fused_trellis at most, fewer do as well
  Arguments arguments;
  i64 cluster = 1;  // following blocks that read each other's shared memory, where a device can do that
};

// What a launch's routes are packed into: blocks of so many slots, and how many of each its tensors take.
struct RouteRoom {
  i64 block_size;
  i64 experts;
  i64 slots;
  i64 blocks;
};
inline RouteRoom route_room(const LiveRuntime& runtime, const LiveNeed& need) {
  return {need.block_size, runtime.experts, element(need.elements, CoreTensor::packed_route_indices),
          element(need.elements, CoreTensor::block_expert_ids)};
}

// Packing the routes of a launch into its plan's tensors.
template <class Tensors, class Inputs>
KernelLaunch<RoutePackArguments> route_pack_launch(const Tensors& tensors, const Inputs& inputs, i64 routes,
                                                   const RouteRoom& room) {
  return {.variant = route_pack_variant(room.block_size, inputs.id_bytes),
          .grid = 1,
          .arguments = {.topk_ids = inputs.topk_ids,
                        .expert_map = inputs.expert_map,
                        .packed_route_indices = tensors.packed_route_indices,
                        .block_expert_ids = tensors.block_expert_ids,
                        .packed_route_count = tensors.packed_route_count,
                        .expert_offsets = tensors.expert_offsets,
                        .expert_counts = tensors.expert_counts,
                        .routes = routes,
                        .experts = room.experts,
                        .slots = room.slots,
                        .blocks = room.blocks}};
}

// Kernels count items of one phase (slots by blocks of 128 columns at most) in 32 bits, and step past the
// last one by a grid's warps at most.
inline constexpr i64 kMostItems = std::numeric_limits<int>::max() - (1 << 20);

}  // namespace moeplan
