// A made-up layer of packed NVFP4 weights on the device, and what measures launches of its plans.
#pragma once

#include "runtime/device/test_bench.hpp"
#include "runtime/moe/packed_kernels.hpp"

namespace moeplan {

struct PackedLayer {
  DeviceMemory memory;
  DeviceMemory globals, folded_globals;
  i64 hidden, intermediate, experts;
  bool is_bfloat16;
  PackedWeights weights;
  const double* w13_globals;  // without the powers of two that the kernels' have in them
  const double* w2_globals;
  HalfBits* decoded;  // all of them as halves: the reference's

  bool serves(const PackedPlan& plan) const;
};

// Any four bits are a legal weight; scales are bytes of numbers that are finite and not lost. The same for
// all plans of its shape and type.
Result<PackedLayer> make_layer(const PackedPlan& plan, Launches& launches);

// As of a Trellis plan; the caller's arena holds the output and the workspace.
Result<TestBench> make_bench(const PackedPlan& plan, const PackedLayer& layer, i64 tokens,
                             const BenchArenas& arenas, double* expected, Launches& launches);

}  // namespace moeplan
