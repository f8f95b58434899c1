#include "runtime/moe/lean_decode.hpp"

#include "planner/core/check.hpp"
#include "planner/core/text.hpp"
#include "planner/moe/lean_decode_geometry.hpp"
#include "runtime/moe/lean_shared.hpp"

namespace moeplan {
namespace {

// Tiles side by side that a warp of FC2 multiplies. Few routes are few columns of tiles to deal out, so that
// they are dealt out singly.
i64 side_of(i64 routes) {
  constexpr i64 kFewRoutes = 16;
  return routes <= kFewRoutes ? 1 : kLeanMostSide;
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
  for (i64 side = 1; side <= side_of(plan.capacity * plan.top_k); ++side)
    variants.push_back(lean_decode_fc2_variant(plan.bits, plan.codebook, plan.intermediate, side));
  variants.push_back(kLeanSum);
  return variants;
}

LeanDecodeLaunches lean_decode_launches(const LeanPlan& plan, i64 tokens, const LeanTensors& tensors,
                                        const TrellisWeights& weights, const TrellisInputs& inputs) {
  MOEPLAN_CHECK(plan.is_decode(), "a plan for the prefill executor");
  const LeanRouting routing = lean_routing(plan, tokens, inputs);
  const auto stride = [&](bool is_shared) { return is_shared ? 0 : plan.hidden; };

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
  launches.activate = activate_launch(plan, routing, tensors, weights);
  for (const LeanSlice& slice : lean_slices(plan, tokens)) {
    launches.slices.push_back(
        {.fc2 = {.variant = lean_decode_fc2_variant(plan.bits, plan.codebook, plan.intermediate,
                                                    side_of(routing.routes)),
                 .grid = plan.multiprocessors,
                 .arguments = {.routing = routing,
                               .activated = tensors.activated,
                               .w2 = weights.w2 + slice.first / 16 * trellis_tile_bytes(plan.bits),
                               .expert_rows = tensors.expert_rows,
                               .hidden = plan.hidden,
                               .columns = slice.columns,
                               .row_pitch = slice.row_pitch}},
         .sum = sum_launch(plan, slice, routing, tensors, weights, inputs)});
  }
  return launches;
}

}  // namespace moeplan
