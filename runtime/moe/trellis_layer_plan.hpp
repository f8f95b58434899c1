// What all plans of Trellis layers have in common, whichever kernels run them.
#pragma once

#include <string>

#include "planner/moe/kernel_geometry.hpp"
#include "planner/moe/layout.hpp"
#include "runtime/moe/fused_plan.hpp"

namespace moeplan {

struct TrellisLayerPlan : FusedPlan {
  i64 bits = 0;
  Codebook codebook = Codebook::mcg;
};

// Why our kernels run no layer of such weights; "": they do.
std::string missing_layer_kernels(const MoeRequest& request, const MoeLayout& layout);

// Of a request and its layout whose kernels are not missing.
TrellisLayerPlan trellis_layer_plan(const MoeRequest& request, const MoeLayout& layout);

}  // namespace moeplan
