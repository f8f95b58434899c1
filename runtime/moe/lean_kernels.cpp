#include "runtime/moe/lean_kernels.hpp"

#include <algorithm>

#include "planner/core/check.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// Route packing and items of 128 columns are counted as those of other Trellis plans are.
std::string missing_prefill_kernels(const LeanPlan& plan, i64 slots) {
  const i64 counted = max_of(plan.without_map.experts, plan.with_map.experts);
  if (counted > kRoutePackExperts)
    return concat("this build packs routes for ", kRoutePackExperts, " experts at most, not for ", counted);
  if (slots * ceil_div(max_of(plan.hidden, 2 * plan.intermediate), kHadamardBlock) > kMostItems)
    return concat("this build's kernels count ", kMostItems, " blocks of ", kHadamardBlock,
                  " columns at most");
  return "";
}

LeanPlan made_plan(const MoeRequest& request, const MoeLayout& layout) {
  LeanPlan plan{trellis_layer_plan(request, layout)};
  plan.slice_columns =
      lean_slice_columns(plan.capacity, plan.capacity * plan.top_k, request.weights.hidden_size);
  return plan;
}

}  // namespace

std::string missing_lean_kernels(const MoeRequest& request, const MoeLayout& layout) {
  if (std::string missing = missing_layer_kernels(request, layout); !missing.empty()) return missing;
  const LeanPlan plan = made_plan(request, layout);
  return plan.is_decode() ? missing_lean_decode_kernels(plan)
                          : missing_prefill_kernels(plan, layout.route_slots);
}

LeanPlan lean_plan(const MoeRequest& request, const MoeLayout& layout) {
  MOEPLAN_CHECK(missing_lean_kernels(request, layout).empty(), "a plan without kernels of ours");
  return made_plan(request, layout);
}

CoreElements kernel_need(const LeanPlan& plan, i64 tokens, bool has_map) {
  return live_need(plan.runtime(has_map), plan.planned, tokens).elements;
}

std::vector<KernelVariant> lean_variants(const LeanPlan& plan) {
  return plan.is_decode() ? lean_decode_variants(plan) : lean_prefill_variants(plan);
}

LeanTensors lean_tensors(const std::function<std::byte*(std::string_view)>& address) {
  const auto ints = [&](CoreTensor tensor) { return reinterpret_cast<int*>(address(name_of(tensor))); };
  const auto halves = [&](CoreTensor tensor) {
    return reinterpret_cast<HalfBits*>(address(name_of(tensor)));
  };
  std::byte* const output = address(name_of(CoreTensor::full_rotation_output));
  return {.output = reinterpret_cast<float*>(output),
          .gate_up = reinterpret_cast<HalfBits*>(output),
          .activated = halves(CoreTensor::intermediate_cache2),
          .expert_rows = halves(CoreTensor::expert_rows),
          .packed_route_indices = ints(CoreTensor::packed_route_indices),
          .block_expert_ids = ints(CoreTensor::block_expert_ids),
          .packed_route_count = ints(CoreTensor::packed_route_count),
          .expert_offsets = ints(CoreTensor::expert_offsets),
          .expert_counts = ints(CoreTensor::expert_counts),
          .tickets = ints(CoreTensor::kernel_workspace)};
}

i64 lean_row_pitch(const LeanLaunches& launches) {
  return std::visit([](const auto& of_kind) { return of_kind.slices.front().fc2.arguments.row_pitch; },
                    launches);
}

LeanTensors lean_tensors(const MoeLayout& layout, std::byte* arena) {
  return lean_tensors([&](std::string_view name) -> std::byte* {
    const auto* tensor = std::ranges::find(layout.arena.tensors, name, &TensorSpec::name);
    return tensor == layout.arena.tensors.end() ? nullptr : arena + tensor->offset;
  });
}

LeanLaunches lean_launches(const LeanPlan& plan, i64 tokens, const LeanTensors& tensors,
                           const TrellisWeights& weights, const TrellisInputs& inputs) {
  MOEPLAN_CHECK(tokens == 0 || fits(kernel_need(plan, tokens, inputs.expert_map != nullptr), plan.planned),
                "a launch that the plan has no room for");
  if (plan.is_decode()) return lean_decode_launches(plan, tokens, tensors, weights, inputs);
  return lean_prefill_launches(plan, tokens, tensors, weights, inputs);
}

}  // namespace moeplan
