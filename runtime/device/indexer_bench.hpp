// Times calls of an indexer on the GPU: calls over inputs that rotate, captured into one graph, replayed
// between two events.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/bench/indexer_timing.hpp"
#include "runtime/device/device.hpp"
#include "runtime/jit/compiler.hpp"

namespace moeplan {

enum class TimedFolds {
  one,  // the fold for the call's size
  all,  // the others that there is room for as well, without their logits alone
};

class IndexerBench {
 public:
  virtual ~IndexerBench() = default;
  virtual const GpuProfile& gpu() const = 0;
  virtual const Architecture& architecture() const = 0;
  // Everything that was compiled so far, each once.
  virtual const std::vector<std::pair<KernelVariant, CompiledKernel>>& compiled() const = 0;

  // How fast a device-to-device copy reads and writes, of many times what the L2 cache holds.
  virtual Result<Bandwidth> copy_bandwidth() = 0;

  // Cases that are going to be timed: the cache of keys is made for all of them, while that leaves each
  // its room.
  virtual void expect(std::span<const IndexerCase> cases) = 0;

  // The first is of the fold for the call's size. Inputs are random, the same for equal sequences of cases
  // where the GPU has as much free memory. Error: a kernel that does not compile, `too_large` where the GPU
  // has not that much free memory, a failed call of the CUDA runtime.
  virtual Result<std::vector<IndexerTiming>> time(const IndexerCase& timed, TimedFolds folds) = 0;
};

// For the first GPU of this machine. `compiler` has to outlive it; at most `threads` kernels are compiled at
// a time. Error `no_device` or `unsupported_architecture`.
Result<std::unique_ptr<IndexerBench>> open_indexer_bench(Compiler& compiler, i64 threads);

}  // namespace moeplan
