// The launches that decode and prefill plans of the lean contract share.
#pragma once

#include <vector>

#include "kernels/moe/lean_arguments.hpp"
#include "runtime/moe/kernel_launch.hpp"
#include "runtime/moe/lean_plan.hpp"
#include "runtime/moe/trellis_kernels.hpp"

namespace moeplan {

LeanRouting lean_routing(const LeanPlan& plan, i64 tokens, const TrellisInputs& inputs);

KernelLaunch<LeanActivateArguments> activate_launch(const LeanPlan& plan, const LeanRouting& routing,
                                                    const LeanTensors& tensors,
                                                    const TrellisWeights& weights);

// Columns of the output that are summed together.
struct LeanSlice {
  i64 first;
  i64 columns;
  i64 row_pitch;  // of expert_rows
};
// What a launch of so many tokens is cut into: of few tokens' rows more columns fit expert_rows than the
// plan's.
std::vector<LeanSlice> lean_slices(const LeanPlan& plan, i64 tokens);

// `inputs.output`, where there is one, takes the place of the plan's own.
KernelLaunch<LeanSumArguments> sum_launch(const LeanPlan& plan, const LeanSlice& slice,
                                          const LeanRouting& routing, const LeanTensors& tensors,
                                          const TrellisWeights& weights, const TrellisInputs& inputs);

}  // namespace moeplan
