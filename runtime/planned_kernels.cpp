#include "runtime/planned_kernels.hpp"

#include "planner/core/text.hpp"
#include "planner/moe/weight_plan.hpp"

namespace moeplan {
namespace {

std::string missing_kernels(const MoeRequest& request, const MoeLayout& layout) {
  if (request.contract->lean_executor) return missing_lean_kernels(request, layout);
  if (layout.weight_layout == WeightLayout::packed) return missing_packed_kernels(request, layout);
  if (layout.weight_layout == WeightLayout::trellis) return missing_trellis_kernels(request, layout);
  return concat("this build's kernels run ", kPlansWithKernels, "; this one has ",
                layout.weight_layout
                    ? concat("the layout ", layout_name(*layout.contract, *layout.weight_layout))
                    : concat("the kernels ", name_of(layout.implementation)));
}

}  // namespace

PlannedKernels planned_kernels(const MoeRequest& request, const MoeLayout& layout) {
  if (std::string missing = missing_kernels(request, layout); !missing.empty()) {
    const bool may_pack =
        layout.weight_layout == WeightLayout::native && layout.scale_format == ScaleFormat::e4m3_k16;
    return {{},
            std::move(missing),
            may_pack ? "weights.weight_layout mma_packed, if the engine packs these weights" : ""};
  }
  return {variants_of(kernel_plan(request, layout)), ""};
}

PlannedKernels planned_kernels(const IndexerRequest& request, const IndexerLayout& layout) {
  if (std::string missing = missing_indexer_kernels(request, layout); !missing.empty())
    return {{}, std::move(missing)};
  // Which kernels there are does not depend on the device.
  constexpr i64 kAnyMultiprocessors = 1;
  return {indexer_variants(indexer_plan(request, layout, kAnyMultiprocessors)), ""};
}

KernelPlan kernel_plan(const MoeRequest& request, const MoeLayout& layout) {
  if (request.contract->lean_executor) return lean_plan(request, layout);
  if (layout.weight_layout == WeightLayout::packed) return packed_plan(request, layout);
  return trellis_plan(request, layout);
}

const FusedPlan& fused_plan(const KernelPlan& plan) {
  return std::visit([](const auto& of_kind) -> const FusedPlan& { return of_kind; }, plan);
}

const TrellisLayerPlan& trellis_layer_plan(const KernelPlan& plan) {
  if (const auto* lean = std::get_if<LeanPlan>(&plan)) return *lean;
  return std::get<TrellisPlan>(plan);
}

std::vector<KernelVariant> variants_of(const KernelPlan& plan) {
  if (const auto* packed = std::get_if<PackedPlan>(&plan)) return packed_variants(*packed);
  if (const auto* lean = std::get_if<LeanPlan>(&plan)) return lean_variants(*lean);
  return trellis_variants(std::get<TrellisPlan>(plan));
}

CoreElements kernel_need(const KernelPlan& plan, i64 tokens, bool has_map) {
  return std::visit([&](const auto& of_kind) { return kernel_need(of_kind, tokens, has_map); }, plan);
}

}  // namespace moeplan
