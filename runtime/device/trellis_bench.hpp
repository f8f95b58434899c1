// A Trellis layer on the device, made up or of a file, and what measures launches of its plans.
#pragma once

#include "runtime/device/test_bench.hpp"
#include "runtime/moe/lean_kernels.hpp"
#include "runtime/moe/trellis_kernels.hpp"
#include "runtime/weights/layer_weights.hpp"

namespace moeplan {

// What a layer is made for.
enum class LayerUse {
  judged,  // a reference reads its weights as halves
  timed,   // they are not decoded, which would take two bytes a weight more
};

struct TrellisLayer {
  DeviceMemory memory;
  i64 hidden, intermediate, experts, bits;
  Codebook codebook;
  const LayerWeights* source;  // null: made up
  TrellisWeights weights;
  HalfBits* decoded;  // all of them as halves, the reference's; null: none

  bool serves(const TrellisLayerPlan& plan, const LayerWeights* wanted) const;
};

// Any bits are legal Trellis weights. The same for all plans of its shape. `source`: weights of that shape,
// in place of those that are made up; null: none.
// Error: too little free memory, a failed launch, weights of `source` that cannot be read.
Result<TrellisLayer> make_layer(const TrellisLayerPlan& plan, const LayerWeights* source, Launches& launches,
                                LayerUse use = LayerUse::judged);

// The kernels of a launch, in order.
Status run_launches(const TrellisLaunches& planned, const LaunchSite& site, Launches& launches);
Status run_launches(const LeanLaunches& planned, const LaunchSite& site, Launches& launches);

// For launches of up to `tokens`; the plan, the layer and the arenas have to outlive it. `expected`: where
// the reference leaves the output.
Result<TestBench> make_bench(const TrellisPlan& plan, const TrellisLayer& layer, i64 tokens,
                             const BenchArenas& arenas, double* expected, Launches& launches);
Result<TestBench> make_bench(const LeanPlan& plan, const TrellisLayer& layer, i64 tokens,
                             const BenchArenas& arenas, double* expected, Launches& launches);

}  // namespace moeplan
