#include "runtime/moe/lean_prefill.hpp"

#include "planner/core/check.hpp"
#include "planner/moe/geometry.hpp"
#include "planner/moe/lean_prefill_geometry.hpp"
#include "runtime/moe/lean_shared.hpp"

namespace moeplan {
namespace {

enum Ticket { kFc1Ticket, kFc2Ticket };

KernelLaunch<RoutePackArguments> pack_launch(const LeanPlan& plan, i64 routes, const LeanTensors& tensors,
                                             const TrellisInputs& inputs) {
  const i64 experts = plan.runtime(inputs.expert_map != nullptr).experts;
  // Of no routes nothing is packed, into buffers as large as one's.
  const i64 slots = route_slots(max_of(routes, 1), kLeanBlock, experts);
  return {.variant = route_pack_variant(kLeanBlock, inputs.id_bytes),
          .grid = 1,
          .arguments = {.topk_ids = inputs.topk_ids,
                        .expert_map = inputs.expert_map,
                        .packed_route_indices = tensors.packed_route_indices,
                        .block_expert_ids = tensors.block_expert_ids,
                        .packed_route_count = tensors.packed_route_count,
                        .expert_offsets = tensors.expert_offsets,
                        .expert_counts = tensors.expert_counts,
                        .routes = routes,
                        .experts = experts,
                        .slots = slots,
                        .blocks = ceil_div(slots, kLeanBlock)}};
}

LeanPrefillSlice slice_launches(const LeanPlan& plan, i64 tokens, i64 column, const LeanTensors& tensors,
                                const TrellisWeights& weights, const TrellisInputs& inputs) {
  const i64 columns = min_of(plan.slice_columns, plan.hidden - column);
  return {.fc2 = {.variant = lean_prefill_fc2_variant(plan.bits, plan.codebook),
                  .grid = plan.multiprocessors,
                  .arguments = {.activated = tensors.activated,
                                .w2 = weights.w2 + column / 16 * trellis_tile_bytes(plan.bits),
                                .packed_route_indices = tensors.packed_route_indices,
                                .block_expert_ids = tensors.block_expert_ids,
                                .packed_route_count = tensors.packed_route_count,
                                .expert_rows = tensors.expert_rows,
                                .ticket = tensors.tickets + kFc2Ticket,
                                .routes = tokens * plan.top_k,
                                .hidden = plan.hidden,
                                .intermediate = plan.intermediate,
                                .experts = plan.experts,
                                .columns = columns,
                                .row_pitch = plan.slice_columns}},
          .sum = sum_launch(plan, {column, columns, plan.slice_columns}, lean_routing(plan, tokens, inputs),
                            tensors, weights, inputs)};
}

}  // namespace

std::vector<KernelVariant> lean_prefill_variants(const LeanPlan& plan) {
  std::vector<KernelVariant> variants{lean_prefill_fc1_variant(plan.bits, plan.codebook, plan.is_bfloat16),
                                      kLeanActivate, lean_prefill_fc2_variant(plan.bits, plan.codebook),
                                      kLeanSum};
  for (i64 id_bytes : {4, 8}) variants.push_back(route_pack_variant(kLeanBlock, id_bytes));
  return variants;
}

LeanPrefillLaunches lean_prefill_launches(const LeanPlan& plan, i64 tokens, const LeanTensors& tensors,
                                          const TrellisWeights& weights, const TrellisInputs& inputs) {
  MOEPLAN_CHECK(!plan.is_decode(), "a plan for the decoding executor");
  MOEPLAN_CHECK(tokens >= 0 && tokens <= plan.capacity, "live tokens outside of the plan's capacity");
  MOEPLAN_CHECK(inputs.id_bytes == 4 || inputs.id_bytes == 8, "ids of 4 or 8 bytes");
  const i64 routes = tokens * plan.top_k;
  const auto stride = [&](bool is_shared) { return is_shared ? 0 : plan.hidden; };

  LeanPrefillLaunches launches;
  launches.route_pack = pack_launch(plan, routes, tensors, inputs);
  launches.fc1 = {.variant = lean_prefill_fc1_variant(plan.bits, plan.codebook, plan.is_bfloat16),
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
                                .routes = routes,
                                .top_k = plan.top_k,
                                .hidden = plan.hidden,
                                .intermediate = plan.intermediate,
                                .experts = plan.experts,
                                .gate_suh_stride = stride(weights.shares_gate_suh),
                                .up_suh_stride = stride(weights.shares_up_suh)}};
  const LeanRouting routing = lean_routing(plan, tokens, inputs);
  launches.activate = activate_launch(plan, routing, tensors, weights);
  for (i64 column = 0; column < plan.hidden; column += plan.slice_columns)
    launches.slices.push_back(slice_launches(plan, tokens, column, tensors, weights, inputs));
  return launches;
}

}  // namespace moeplan
