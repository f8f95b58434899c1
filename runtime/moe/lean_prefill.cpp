#include "runtime/moe/lean_prefill.hpp"

#include "planner/core/check.hpp"
#include "planner/moe/geometry.hpp"
#include "planner/moe/lean_prefill_geometry.hpp"
#include "runtime/moe/lean_shared.hpp"

namespace moeplan {
namespace {

enum Ticket { kFc1Ticket, kFc2Ticket };

// Groups of rows that a block of threads multiplies at a time. Where experts have few rows a full block's
// registers are better spent on more warps, which decode while others wait. A row's sums are the
// same either way.
i64 groups_of(const LeanPlan& plan, i64 tokens) {
  const i64 few_rows = 16 * kLeanPrefillFewGroups;
  return 4 * tokens * plan.top_k <= 3 * few_rows * plan.experts ? kLeanPrefillFewGroups : kLeanPrefillGroups;
}

// Of no routes nothing is packed, into buffers as large as one's.
RouteRoom room_of(const LeanRouting& routing) {
  const i64 slots = route_slots(max_of(routing.routes, 1), kLeanBlock, routing.route_experts);
  return {kLeanBlock, routing.route_experts, slots, ceil_div(slots, kLeanBlock)};
}

LeanPrefillSlice slice_launches(const LeanPlan& plan, const LeanSlice& slice, const LeanRouting& routing,
                                const LeanTensors& tensors, const TrellisWeights& weights,
                                const TrellisInputs& inputs) {
  return {.fc2 = {.variant = lean_prefill_fc2_variant(plan.bits, plan.codebook),
                  .grid = plan.multiprocessors * lean_prefill_fc2_tile(plan.bits).blocks_per_sm,
                  .arguments = {.activated = tensors.activated,
                                .w2 = weights.w2 + slice.first / 16 * trellis_tile_bytes(plan.bits),
                                .packed_route_indices = tensors.packed_route_indices,
                                .block_expert_ids = tensors.block_expert_ids,
                                .packed_route_count = tensors.packed_route_count,
                                .expert_rows = tensors.expert_rows,
                                .ticket = tensors.tickets + kFc2Ticket,
                                .routes = routing.routes,
                                .hidden = plan.hidden,
                                .intermediate = plan.intermediate,
                                .experts = plan.experts,
                                .columns = slice.columns,
                                .row_pitch = slice.row_pitch}},
          .sum = sum_launch(plan, slice, routing, tensors, weights, inputs)};
}

}  // namespace

std::vector<KernelVariant> lean_prefill_variants(const LeanPlan& plan) {
  std::vector<KernelVariant> variants{kLeanActivate, lean_prefill_fc2_variant(plan.bits, plan.codebook),
                                      kLeanSum};
  for (i64 groups : {kLeanPrefillFewGroups, kLeanPrefillGroups}) {
    if (groups > groups_of(plan, plan.capacity)) continue;
    variants.push_back(lean_prefill_fc1_variant(plan.bits, groups, plan.codebook, plan.is_bfloat16));
  }
  for (i64 id_bytes : {4, 8}) variants.push_back(route_pack_variant(kLeanBlock, id_bytes));
  return variants;
}

LeanPrefillLaunches lean_prefill_launches(const LeanPlan& plan, i64 tokens, const LeanTensors& tensors,
                                          const TrellisWeights& weights, const TrellisInputs& inputs) {
  MOEPLAN_CHECK(!plan.is_decode(), "a plan for the decoding executor");
  const LeanRouting routing = lean_routing(plan, tokens, inputs);
  const auto stride = [&](bool is_shared) { return is_shared ? 0 : plan.hidden; };

  LeanPrefillLaunches launches;
  launches.route_pack = route_pack_launch(tensors, inputs, routing.routes, room_of(routing));
  const i64 groups = groups_of(plan, tokens);
  launches.fc1 = {.variant = lean_prefill_fc1_variant(plan.bits, groups, plan.codebook, plan.is_bfloat16),
                  .grid = plan.multiprocessors,
                  .arguments = {.x = inputs.x,
                                .w13 = weights.w13,
                                .gate_suh = weights.gate_suh,
                                .up_suh = weights.up_suh,
                                .packed_route_indices = tensors.packed_route_indices,
                                .block_expert_ids = tensors.block_expert_ids,
                                .packed_route_count = tensors.packed_route_count,
                                .gate_up = tensors.gate_up,
                                .ticket = tensors.tickets + kFc1Ticket,
                                .routes = routing.routes,
                                .top_k = plan.top_k,
                                .hidden = plan.hidden,
                                .intermediate = plan.intermediate,
                                .experts = plan.experts,
                                .gate_suh_stride = stride(weights.shares_gate_suh),
                                .up_suh_stride = stride(weights.shares_up_suh)}};
  launches.activate = activate_launch(plan, routing, tensors, weights);
  for (const LeanSlice& slice : lean_slices(plan, tokens))
    launches.slices.push_back(slice_launches(plan, slice, routing, tensors, weights, inputs));
  return launches;
}

}  // namespace moeplan
