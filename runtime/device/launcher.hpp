// Launcher: puts compiled kernels on a GPU and launches them. A launch asks the device nothing and allocates
// nothing, so that it can be captured into a graph.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "planner/core/result.hpp"
#include "runtime/device/device.hpp"
#include "runtime/jit/architecture.hpp"
#include "runtime/jit/compiler.hpp"
#include "runtime/jit/launch_resolver.hpp"

namespace moeplan {

// Blocks along each dimension, and how many of the first make a cluster: they read each other's shared memory
// where the architecture has clusters, and are launched alone elsewhere.
struct Grid {
  i64 x = 1;
  i64 y = 1;
  i64 z = 1;
  i64 cluster = 1;
};

// A cubin with how its entry point is launched: what the catalog says of its own kernels.
struct KernelImage {
  std::string_view name;  // entry point; static
  std::string_view cubin;
  i64 threads = 0;       // a block
  i64 shared_bytes = 0;  // dynamic, a block
  bool has_grid_barrier = false;
  bool overlaps_last = false;
  KernelResources resources;
};

// What a kernel can be handed by value.
template <class T>
concept TrivialStruct = std::is_class_v<T> && std::is_trivially_copyable_v<T>;

// A handle: copies share the loaded kernels, which stay loaded while one of the copies, or a backend made of
// one, lives. For threads whose current device is the launcher's.
class Launcher {
 public:
  // For a GPU by the number that the CUDA runtime gives it, which becomes the current one. Error `no_device`:
  // it cannot be used. Error `unsupported_architecture`: kernels cannot be compiled for it.
  static Result<Launcher> create(int device = 0);

  const GpuProfile& gpu() const;
  const Architecture& architecture() const;

  Result<ReadyKernel> load(const KernelVariant& variant, const CompiledKernel& compiled);
  Result<ReadyKernel> load(const KernelImage& image);

  // Whether work of the stream is being captured, or must be taken to be.
  static bool is_capturing(void* stream);

  // Compiles with `compiler`, which has to outlive it, for this GPU, on at most `threads` threads.
  LaunchBackend backend(Compiler& compiler, i64 threads, Progress progress = nullptr) const;

  // Of `blocks` blocks of a kernel with a grid barrier, as many as can be resident: work that any number of
  // blocks can share.
  Grid resident_grid(const ReadyKernel& kernel, i64 blocks) const;
  // Of a launch: a resident grid where the kernel has a grid barrier, else all of its blocks.
  template <class Launch>
  Grid grid_of(const ReadyKernel& kernel, const Launch& launch) const {
    if (kernel.has_grid_barrier) return resident_grid(kernel, launch.grid);
    return {.x = launch.grid, .cluster = launch.cluster};
  }

  // `arguments`: the address of each argument of the kernel. Error `grid_not_resident`: the kernel has a grid
  // barrier and more blocks than can be resident at once.
  Status launch(const ReadyKernel& kernel, Grid grid, void** arguments, void* stream) const;
  // Of a kernel whose one argument is a struct.
  template <TrivialStruct Arguments>
  Status launch(const ReadyKernel& kernel, Grid grid, const Arguments& arguments, void* stream) const {
    Arguments copy = arguments;
    void* addresses[] = {&copy};
    return launch(kernel, grid, static_cast<void**>(addresses), stream);
  }

 private:
  struct State;
  explicit Launcher(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace moeplan
