#include "runtime/moe/lean_shared.hpp"

#include "planner/core/check.hpp"

namespace moeplan {

LeanRouting lean_routing(const LeanPlan& plan, i64 tokens, const TrellisInputs& inputs) {
  MOEPLAN_CHECK(tokens >= 0 && tokens <= plan.capacity, "live tokens outside of the plan's capacity");
  MOEPLAN_CHECK(inputs.id_bytes == 4 || inputs.id_bytes == 8, "ids of 4 or 8 bytes");
  MOEPLAN_CHECK(!inputs.output_expert_map, "the lean kernels sum the routes that they compute");
  return {.topk_ids = inputs.topk_ids,
          .expert_map = inputs.expert_map,
          .routes = tokens * plan.top_k,
          .id_bytes = inputs.id_bytes,
          .route_experts = plan.runtime(inputs.expert_map != nullptr).experts,
          .experts = plan.experts};
}

KernelLaunch<LeanActivateArguments> activate_launch(const LeanPlan& plan, const LeanRouting& routing,
                                                    const LeanTensors& tensors,
                                                    const TrellisWeights& weights) {
  const i64 parts = routing.routes * ceil_div(plan.intermediate, kHadamardColumns);  // a warp each
  return {.variant = kLeanActivate,
          .grid = max_of(ceil_div(parts, kLeanActivateThreads / 32), 1),
          .arguments = {.routing = routing,
                        .gate_up = tensors.gate_up,
                        .intermediate_rotations = weights.intermediate_rotations,
                        .activated = tensors.activated,
                        .intermediate = plan.intermediate}};
}

std::vector<LeanSlice> lean_slices(const LeanPlan& plan, i64 tokens) {
  const i64 room = plan.slice_columns * plan.capacity / max_of(tokens, 1);
  const i64 pitch = min_of(plan.hidden, room / kHadamardBlock * kHadamardBlock);
  std::vector<LeanSlice> slices;
  for (i64 first = 0; first < plan.hidden; first += pitch)
    slices.push_back({first, min_of(pitch, plan.hidden - first), pitch});
  return slices;
}

KernelLaunch<LeanSumArguments> sum_launch(const LeanPlan& plan, const LeanSlice& slice,
                                          const LeanRouting& routing, const LeanTensors& tensors,
                                          const TrellisWeights& weights, const TrellisInputs& inputs) {
  const i64 tokens = routing.routes / plan.top_k;
  const i64 sums = tokens * (slice.columns / kHadamardBlock);  // a warp each
  return {.variant = kLeanSum,
          .grid = max_of(ceil_div(sums, kLeanSumThreads / 32), 1),
          .arguments = {.routing = routing,
                        .rows = tensors.expert_rows,
                        .topk_weights = inputs.topk_weights,
                        .down_svh = weights.down_svh + slice.first,
                        .output = (inputs.output ? inputs.output : tensors.output) + slice.first,
                        .tokens = tokens,
                        .top_k = plan.top_k,
                        .hidden = plan.hidden,
                        .columns = slice.columns,
                        .row_pitch = slice.row_pitch,
                        .down_svh_stride = weights.shares_down_svh ? 0 : plan.hidden}};
}

}  // namespace moeplan
