#include "runtime/moe/lean_decode.hpp"

#include "planner/core/check.hpp"
#include "planner/core/text.hpp"
#include "planner/moe/lean_decode_geometry.hpp"

namespace moeplan {
namespace {

// Tiles side by side that a warp of FC2 multiplies. Few routes are few columns of tiles to deal out, so that
// they are dealt out singly.
i64 side_of(i64 routes) {
  constexpr i64 kFewRoutes = 16;
  return routes <= kFewRoutes ? 1 : kLeanMostSide;
}

// Of a slice of a launch of so many routes: as many as have room, of slices that are all as wide.
i64 slice_columns(const LeanPlan& plan, i64 routes) {
  const i64 room = element(plan.planned, CoreTensor::expert_rows) / max_of(routes, 1);
  const i64 most = min_of(max_of(room / kHadamardBlock, 1) * kHadamardBlock, plan.hidden);
  const i64 slices = ceil_div(plan.hidden, most);
  return align_up(ceil_div(plan.hidden, slices), kHadamardBlock);
}

}  // namespace

std::string missing_lean_decode_kernels(const LeanPlan& plan) {
  if (plan.capacity * plan.top_k > kLeanRoutes)
    return concat("this build's lean kernels decode ", kLeanRoutes, " routes at most, not ",
                  plan.capacity * plan.top_k);
  if (plan.experts > kLeanExperts)
    return concat("this build's lean kernels sort routes for ", kLeanExperts, " experts at most, not for ",
                  plan.experts);
  if (lean_decode_fc2_shared(plan.bits, plan.intermediate).stages < kLeanFewestStages)
    return concat("this build's lean kernels have no room in shared memory for rows of ", plan.intermediate,
                  " columns of intermediate_size at ", plan.bits, " bits");
  return "";
}

std::vector<KernelVariant> lean_decode_variants(const LeanPlan& plan) {
  std::vector<KernelVariant> variants{lean_decode_fc1_variant(plan.bits, plan.codebook, plan.is_bfloat16),
                                      kLeanActivate};
  for (i64 side = 1; side <= kLeanMostSide; ++side)
    variants.push_back(lean_decode_fc2_variant(plan.bits, plan.codebook, plan.intermediate, side));
  variants.push_back(kLeanSum);
  return variants;
}

LeanDecodeLaunches lean_decode_launches(const LeanPlan& plan, i64 tokens, const LeanTensors& tensors,
                                        const TrellisWeights& weights, const TrellisInputs& inputs) {
  MOEPLAN_CHECK(plan.is_decode(), "a plan for the prefill executor");
  MOEPLAN_CHECK(tokens >= 0 && tokens <= plan.capacity, "live tokens outside of the plan's capacity");
  MOEPLAN_CHECK(inputs.id_bytes == 4 || inputs.id_bytes == 8, "ids of 4 or 8 bytes");
  MOEPLAN_CHECK(!inputs.output_expert_map, "the lean kernels sum the routes that they compute");
  const i64 routes = tokens * plan.top_k;
  const auto stride = [&](bool is_shared) { return is_shared ? 0 : plan.hidden; };
  const LeanRouting routing{.topk_ids = inputs.topk_ids,
                            .expert_map = inputs.expert_map,
                            .routes = routes,
                            .id_bytes = inputs.id_bytes,
                            .route_experts = plan.runtime(inputs.expert_map != nullptr).experts,
                            .experts = plan.experts};

  LeanDecodeLaunches launches;
  launches.fc1 = {.variant = lean_decode_fc1_variant(plan.bits, plan.codebook, plan.is_bfloat16),
                  .grid = plan.multiprocessors,
                  .arguments = {.routing = routing,
                                .x = inputs.x,
                                .w13 = weights.w13,
                                .gate_suh = weights.gate_suh,
                                .up_suh = weights.up_suh,
                                .gate_up = tensors.gate_up,
                                .top_k = plan.top_k,
                                .hidden = plan.hidden,
                                .intermediate = plan.intermediate,
                                .gate_suh_stride = stride(weights.shares_gate_suh),
                                .up_suh_stride = stride(weights.shares_up_suh)}};
  const i64 activated_parts = routes * ceil_div(plan.intermediate, kHadamardColumns);  // a warp each
  launches.activate = {.variant = kLeanActivate,
                       .grid = max_of(ceil_div(activated_parts, kLeanActivateThreads / 32), 1),
                       .arguments = {.routing = routing,
                                     .gate_up = tensors.gate_up,
                                     .intermediate_rotations = weights.intermediate_rotations,
                                     .activated = tensors.activated,
                                     .intermediate = plan.intermediate}};
  const i64 pitch = slice_columns(plan, routes);
  float* const output = inputs.output ? inputs.output : tensors.output;
  for (i64 column = 0; column < plan.hidden; column += pitch) {
    const i64 columns = min_of(pitch, plan.hidden - column);
    const i64 sums = tokens * (columns / kHadamardBlock);  // a warp each
    launches.slices.push_back(
        {.fc2 = {.variant = lean_decode_fc2_variant(plan.bits, plan.codebook, plan.intermediate,
                                                    side_of(routes)),
                 .grid = plan.multiprocessors,
                 .arguments = {.routing = routing,
                               .activated = tensors.activated,
                               .w2 = weights.w2 + column / 16 * trellis_tile_bytes(plan.bits),
                               .expert_rows = tensors.expert_rows,
                               .hidden = plan.hidden,
                               .intermediate = plan.intermediate,
                               .columns = columns,
                               .row_pitch = pitch}},
         .sum = {.variant = kLeanSum,
                 .grid = max_of(ceil_div(sums, kLeanSumThreads / 32), 1),
                 .arguments = {.routing = routing,
                               .rows = tensors.expert_rows,
                               .topk_weights = inputs.topk_weights,
                               .down_svh = weights.down_svh + column,
                               .output = output + column,
                               .tokens = tokens,
                               .top_k = plan.top_k,
                               .hidden = plan.hidden,
                               .columns = columns,
                               .row_pitch = pitch,
                               .down_svh_stride = stride(weights.shares_down_svh)}}});
  }
  return launches;
}

}  // namespace moeplan
