// From the arguments of a launch to a kernel that is ready to run, without building anything on the way: one
// look into a table of plain bits. Kernels are resolved with their plan; behind `freeze`, and while a stream
// is captured, what was not resolved is an error and nothing compiles.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "planner/core/result.hpp"
#include "runtime/jit/compiled_kernel.hpp"
#include "runtime/jit/kernel_catalog.hpp"

namespace moeplan {

// What a launch needs of a kernel. `function` is the device's handle. Everything is found when the kernel is
// loaded, so that a launch asks the device nothing.
struct ReadyKernel {
  std::string_view name;  // static
  const void* function = nullptr;
  i64 threads = 0;       // a block
  i64 shared_bytes = 0;  // dynamic, a block
  bool has_grid_barrier = false;
  bool overlaps_last = false;
  KernelResources resources;
  i64 resident_blocks_per_sm = 0;
  std::string_view residency_limit;  // what keeps one more block off a multiprocessor
};

// Who launches: named when the kernel is not there.
struct LaunchSite {
  i64 live_tokens = 0;  // m
  i64 block = 0;        // rows of a route block; 0: the kernel has none
  void* stream = nullptr;
};

// What stands behind the memo: compiling (or finding in a cache), loading, and knowing of captures.
struct LaunchBackend {
  // Compiles the variants, in their order. Error: the first that fails.
  std::function<Result<std::vector<CompiledKernel>>(std::span<const KernelVariant>)> compile;
  // Puts a compiled kernel on the device.
  std::function<Result<ReadyKernel>(const KernelVariant&, const CompiledKernel&)> load;
  // Whether work of the stream is being captured into a graph.
  std::function<bool(void* stream)> is_capturing;
};

class LaunchResolver {
 public:
  explicit LaunchResolver(LaunchBackend backend) : backend_(std::move(backend)) {}

  // Makes every variant ready: plan time. Error: one cannot be compiled or loaded, or the resolver is frozen.
  Status resolve(std::span<const KernelVariant> variants);
  // From here on nothing compiles.
  void freeze() { is_frozen_ = true; }
  // The kernel of a launch. A miss compiles it, once; behind freeze() or under capture it is the error
  // `launch_not_resolved`, which names m, the block and the key.
  Result<const ReadyKernel*> find(const KernelVariant& variant, const LaunchSite& site) {
    const auto found = memo_.find(variant);
    return found == memo_.end() ? find_missing(variant, site) : &found->second;
  }

 private:
  Result<const ReadyKernel*> find_missing(const KernelVariant& variant, const LaunchSite& site);

  struct Hash {
    std::size_t operator()(const KernelVariant& variant) const noexcept;
  };

  LaunchBackend backend_;
  // A look allocates nothing, and kernels keep their address whatever is added.
  std::unordered_map<KernelVariant, ReadyKernel, Hash> memo_;
  bool is_frozen_ = false;
};

}  // namespace moeplan
