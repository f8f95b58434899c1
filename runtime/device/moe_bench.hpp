// Times fused MoE layers on the GPU: calls over layers that rotate, captured into one graph a case, whose
// replays take turns.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/bench/moe_timing.hpp"
#include "runtime/device/device.hpp"
#include "runtime/jit/compiler.hpp"

namespace moeplan {

class MoeBench {
 public:
  virtual ~MoeBench() = default;
  virtual const GpuProfile& gpu() const = 0;
  virtual const Architecture& architecture() const = 0;
  // Everything that was compiled so far, each once.
  virtual const std::vector<std::pair<KernelVariant, CompiledKernel>>& compiled() const = 0;

  // How fast a device-to-device copy reads and writes, of many times what the L2 cache holds.
  virtual Result<Bandwidth> copy_bandwidth() = 0;
  // How fast tensor cores multiply halves and add floats by mma.sync, out of registers.
  virtual Result<FlopRate> flop_rate() = 0;
  // Why timings say no clock; "": they do.
  virtual const std::string& clock_trouble() const = 0;

  // Calls of `tokens` in each case, in their order: of one layer's shape, on the same weights, inputs and
  // routes. A call of more tokens than a case's plan holds is several launches. Weights, inputs and routes
  // are random, the same in every run. Error: a kernel that does not compile, too little free memory, a
  // failed call of the CUDA runtime.
  virtual Result<std::vector<MoeTiming>> time(std::span<const MoeCase> cases, i64 tokens) = 0;
};

// For the first GPU of this machine. `compiler` has to outlive it; at most `threads` kernels are compiled at
// a time. Error `no_device` or `unsupported_architecture`.
Result<std::unique_ptr<MoeBench>> open_moe_bench(Compiler& compiler, i64 threads);

}  // namespace moeplan
