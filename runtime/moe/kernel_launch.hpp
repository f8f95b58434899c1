// One launch of a kernel of the catalog.
#pragma once

#include <limits>

#include "runtime/jit/kernel_catalog.hpp"

namespace moeplan {

template <class Arguments>
struct KernelLaunch {
  KernelVariant variant;
  i64 grid = 1;  // blocks; of fused_trellis at most, fewer do as well
  Arguments arguments;
};

// Kernels count items of one phase (slots by blocks of 128 columns at most) in 32 bits, and step past the
// last one by a grid's warps at most.
inline constexpr i64 kMostItems = std::numeric_limits<int>::max() - (1 << 20);

}  // namespace moeplan
