// What it takes to measure the launches of a plan, whatever its kind: a made-up layer and tokens, launches,
// and a reference. trellis_bench and packed_bench make it; launch_measurer runs it.
#pragma once

#include <functional>
#include <vector>

#include "kernels/oracle/arguments.hpp"
#include "runtime/device/device_arena.hpp"
#include "runtime/device/device_values.hpp"
#include "runtime/moe/kernel_launch.hpp"
#include "runtime/validate/routings.hpp"

namespace moeplan {

// Launches kernels that are resolved into one stream.
class Launches {
 public:
  Launches(const Launcher& launcher, LaunchResolver& resolver, cudaStream_t stream)
      : launcher_(launcher), resolver_(resolver), stream_(stream) {}

  cudaStream_t stream() const { return stream_; }

  template <class Arguments>
  Status run(const KernelLaunch<Arguments>& launch, LaunchSite site) {
    site.stream = stream_;
    const auto kernel = resolver_.find(launch.variant, site);
    if (!kernel) return kernel.error();
    return launcher_.launch(**kernel, launcher_.grid_of(**kernel, launch), launch.arguments, stream_);
  }

  Status fill(const RandomFillArguments& arguments) {
    return run_oracle(kRandomFill, arguments.count, arguments);
  }
  // One step of a reference, or of comparing.
  template <class Arguments>
  Status step(const KernelVariant& variant, const Arguments& arguments) {
    return run_oracle(variant, elements_of(arguments), arguments);
  }

 private:
  // Each element is a thread's while there are not too many.
  template <class Arguments>
  Status run_oracle(const KernelVariant& variant, i64 elements, const Arguments& arguments) {
    const i64 blocks = max_of(min_of(ceil_div(elements, kOracleThreads), i64{1} << 16), 1);
    return run(KernelLaunch<Arguments>{variant, blocks, arguments}, {});
  }

  const Launcher& launcher_;
  LaunchResolver& resolver_;
  cudaStream_t stream_;
};

// Each with a seed of its own: what lies elsewhere differs, and is the same in every run.
inline Status fill_all(std::vector<RandomFillArguments> fills, Launches& launches) {
  i64 seed = 1;
  for (RandomFillArguments& fill : fills) {
    fill.seed = seed++;
    if (Status done = launches.fill(fill); !done) return done;
  }
  return Ok{};
}

// Rows of tokens, all values of a size that counts.
inline RandomFillArguments fill_of_tokens(HalfBits* x, i64 elements, bool is_bfloat16) {
  constexpr i64 kTokenSeed = 100;
  return {.out = x,
          .count = elements,
          .width = elements,
          .seed = kTokenSeed,
          .kind = is_bfloat16 ? RandomKind::bfloat16 : RandomKind::half,
          .low = 0.01,
          .high = 2};
}

// Where the routes of a launch go, on the device.
struct DeviceRoutes {
  i64 tokens;
  i64 id_bytes;
  const void* ids;
  const float* weights;
  const int* map;  // null: none
  const int* experts;
};

// Of a tensor of halves: rows of so many columns, and those of the phase that has rows of its own there.
inline RouteRows rows_of_halves(const HalfBits* tensor, i64 columns, i64 other_columns) {
  return {reinterpret_cast<const unsigned char*>(tensor), 2 * columns, 2 * other_columns};
}

// One launch with its inputs, ready to run.
struct PreparedLaunch {
  i64 block = 0;                      // rows of a route block
  std::function<Status()> run;        // its kernels, in order
  std::function<Status()> reference;  // leaves what the output has to come to
  NumberType output_type{};
  const void* output = nullptr;
  std::vector<RouteRows> route_rows;  // tensors with a row a route
  // Words that have to be zero before the first launch in an arena, and are behind every one.
  int* workspace = nullptr;
  i64 workspace_words = 0;
};

struct TestBench {
  DeviceMemory memory;
  std::function<PreparedLaunch(const DeviceRoutes& routes)> prepare;
};

// Where the kernels of a plan work. `caller`: buffers that launches bring beside the arena.
struct BenchArenas {
  const DeviceArena& arena;
  const DeviceArena* caller;
};

}  // namespace moeplan
