// The kernels of ours that a plan launches.
#pragma once

#include <string>
#include <vector>

#include "planner/moe/layout.hpp"
#include "runtime/jit/kernel_catalog.hpp"

namespace moeplan {

struct PlannedKernels {
  std::vector<KernelVariant> variants;  // all that any live token count can launch; none: see `missing`
  std::string missing;                  // why there are none
};

// Of one fused-MoE plan.
PlannedKernels planned_kernels(const MoeRequest& request, const MoeLayout& layout);

}  // namespace moeplan
