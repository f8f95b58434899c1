// Runs the kernels of a plan in an arena of exactly its bytes and measures what they did there. Says nothing
// about whether that is right: runtime/validate/ judges.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/arena/guards.hpp"
#include "runtime/device/device.hpp"
#include "runtime/jit/compiler.hpp"
#include "runtime/planned_kernels.hpp"
#include "runtime/validate/indexer_calls.hpp"
#include "runtime/validate/measurement.hpp"
#include "runtime/validate/room.hpp"
#include "runtime/validate/routings.hpp"
#include "runtime/weights/layer_weights.hpp"

namespace moeplan {

class Validator {
 public:
  virtual ~Validator() = default;
  virtual const GpuProfile& gpu() const = 0;
  virtual const Architecture& architecture() const = 0;

  // One measurement a launch, in their order. `placement`: where the plan's tensors lie. The layer is made
  // up, and the same for all plans of its shape, unless use_layer gives one. Everything is compiled before
  // the first launch, and nothing behind it. Error: no memory, a kernel that does not compile or whose grid
  // is not resident, a failed call of the CUDA runtime; with the room check on `scratch_too_small` too,
  // before anything is launched.
  virtual Result<std::vector<Measurement>> measure(const KernelPlan& plan, const Placement& placement,
                                                   std::span<const TestLaunch> launches, RoomCheck room_check,
                                                   const Progress& progress) = 0;

  // The same of calls of an indexer's plan. Inputs are made up, the same for equal calls.
  virtual Result<std::vector<Measurement>> measure(const IndexerPlan& plan, const Placement& placement,
                                                   std::span<const IndexerTestCall> calls,
                                                   RoomCheck room_check, const Progress& progress) = 0;

  // Trellis plans of its shape run this layer from now on, plans of other shapes one that is made up; null:
  // all of them. It has to outlive the measurements.
  virtual void use_layer(const LayerWeights* weights) = 0;

  // Everything that was compiled so far, each once.
  virtual const std::vector<std::pair<KernelVariant, CompiledKernel>>& compiled() const = 0;
};

// For the first GPU of this machine. `compiler` has to outlive it; at most `threads` kernels are compiled at
// a time. Error `no_device` or `unsupported_architecture`.
Result<std::unique_ptr<Validator>> open_validator(Compiler& compiler, i64 threads);

}  // namespace moeplan
