// Which kernels a decode plan of the lean contract launches, and each launch's grid and arguments. Pure
// functions: addresses go in and come out as numbers, nothing is asked of a device.
#pragma once

#include <string>
#include <vector>

#include "kernels/moe/lean_decode_arguments.hpp"
#include "runtime/moe/kernel_launch.hpp"
#include "runtime/moe/lean_plan.hpp"
#include "runtime/moe/trellis_kernels.hpp"

namespace moeplan {

// Why the decoding kernels do not run the plan; "": they do.
std::string missing_lean_decode_kernels(const LeanPlan& plan);

// Every kernel that a launch of any live token count can need.
std::vector<KernelVariant> lean_decode_variants(const LeanPlan& plan);

// FC2 for one slice of the hidden columns, and the sum over every token's routes.
struct LeanDecodeSlice {
  KernelLaunch<LeanDecodeFc2Arguments> fc2;
  KernelLaunch<LeanSumArguments> sum;
};

// In the order in which they are launched.
struct LeanDecodeLaunches {
  KernelLaunch<LeanDecodeFc1Arguments> fc1;
  KernelLaunch<LeanActivateArguments> activate;
  std::vector<LeanDecodeSlice> slices;
};

// The launches of `tokens` live tokens, 0 to the capacity. `inputs.output`, where there is one, is summed
// into in place of the plan's own, which gate and up lie in all the same.
LeanDecodeLaunches lean_decode_launches(const LeanPlan& plan, i64 tokens, const LeanTensors& tensors,
                                        const TrellisWeights& weights, const TrellisInputs& inputs);

}  // namespace moeplan
