// Which kernels a prefill plan of the lean contract launches, and each launch's grid and arguments. Pure
// functions: addresses go in and come out as numbers, nothing is asked of a device.
#pragma once

#include <vector>

#include "kernels/moe/lean_prefill_arguments.hpp"
#include "runtime/moe/kernel_launch.hpp"
#include "runtime/moe/lean_plan.hpp"
#include "runtime/moe/trellis_kernels.hpp"

namespace moeplan {

// Every kernel that a launch of any live token count can need: both types of ids.
std::vector<KernelVariant> lean_prefill_variants(const LeanPlan& plan);

// FC2 for one slice of the hidden columns, and the sum over every token's routes.
struct LeanPrefillSlice {
  KernelLaunch<LeanPrefillFc2Arguments> fc2;
  KernelLaunch<LeanSumArguments> sum;
};

// In the order in which they are launched.
struct LeanPrefillLaunches {
  KernelLaunch<RoutePackArguments> route_pack;
  KernelLaunch<LeanPrefillFc1Arguments> fc1;
  KernelLaunch<LeanActivateArguments> activate;
  std::vector<LeanPrefillSlice> slices;
};

// The launches of `tokens` live tokens, 0 to the capacity. The workspace has to be zero before the first
// launch in an arena; every launch leaves it so. `inputs.output`, where there is one, is summed into in place
// of the plan's own, which gate and up lie in all the same.
LeanPrefillLaunches lean_prefill_launches(const LeanPlan& plan, i64 tokens, const LeanTensors& tensors,
                                          const TrellisWeights& weights, const TrellisInputs& inputs);

}  // namespace moeplan
