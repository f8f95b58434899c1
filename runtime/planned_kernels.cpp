#include "runtime/planned_kernels.hpp"

#include "runtime/moe/packed_kernels.hpp"
#include "runtime/moe/trellis_kernels.hpp"

namespace moeplan {

PlannedKernels planned_kernels(const MoeRequest& request, const MoeLayout& layout) {
  if (layout.weight_layout == WeightLayout::packed) {
    if (std::string missing = missing_packed_kernels(request, layout); !missing.empty())
      return {{}, std::move(missing)};
    return {packed_variants(packed_plan(request, layout)), ""};
  }
  if (std::string missing = missing_trellis_kernels(request, layout); !missing.empty())
    return {{}, std::move(missing)};
  return {trellis_variants(trellis_plan(request, layout)), ""};
}

}  // namespace moeplan
