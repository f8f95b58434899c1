// A made-up Trellis layer on the device, and what measures launches of its plans.
#pragma once

#include "runtime/device/test_bench.hpp"
#include "runtime/moe/trellis_kernels.hpp"

namespace moeplan {

struct TrellisLayer {
  DeviceMemory memory;
  i64 hidden, intermediate, experts, bits;
  Codebook codebook;
  TrellisWeights weights;
  HalfBits* decoded;  // all of them as halves: the reference's

  bool serves(const TrellisPlan& plan) const;
};

// Any bits are legal Trellis weights. The same for all plans of its shape.
Result<TrellisLayer> make_layer(const TrellisPlan& plan, Launches& launches);

// For launches of up to `tokens`; the plan, the layer and the arenas have to outlive it. `expected`: where
// the reference leaves the output.
Result<TestBench> make_bench(const TrellisPlan& plan, const TrellisLayer& layer, i64 tokens,
                             const BenchArenas& arenas, double* expected, Launches& launches);

}  // namespace moeplan
