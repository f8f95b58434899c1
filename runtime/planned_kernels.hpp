// The kernels of ours that a plan launches, whatever kind of plan it is.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "planner/moe/layout.hpp"
#include "runtime/indexer/indexer_kernels.hpp"
#include "runtime/jit/kernel_catalog.hpp"
#include "runtime/moe/lean_kernels.hpp"
#include "runtime/moe/packed_kernels.hpp"
#include "runtime/moe/trellis_kernels.hpp"

namespace moeplan {

// Which plans this build has kernels for, within the limits that docs/kernels.md lists.
inline constexpr std::string_view kPlansWithKernels = "Trellis, packed NVFP4 and paged indexer plans";

struct PlannedKernels {
  std::vector<KernelVariant> variants;  // all that any live token count can launch; none: see `missing`
  std::string missing;                  // why there are none
  std::string_view remedy = {};         // what of the plan would have some; "": nothing that is known
};

// Of one fused-MoE plan.
PlannedKernels planned_kernels(const MoeRequest& request, const MoeLayout& layout);
// Of an indexer's plan, of an `indexer_paged` request.
PlannedKernels planned_kernels(const IndexerRequest& request, const IndexerLayout& layout);

// A plan that kernels of ours run.
using KernelPlan = std::variant<TrellisPlan, PackedPlan, LeanPlan>;
// Of a request and its layout whose kernels are not missing.
KernelPlan kernel_plan(const MoeRequest& request, const MoeLayout& layout);

const FusedPlan& fused_plan(const KernelPlan& plan);
// Of a plan whose weights are Trellis layers.
const TrellisLayerPlan& trellis_layer_plan(const KernelPlan& plan);
std::vector<KernelVariant> variants_of(const KernelPlan& plan);
CoreElements kernel_need(const KernelPlan& plan, i64 tokens, bool has_map);

}  // namespace moeplan
