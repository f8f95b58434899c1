// What every record of a run on a GPU says of the machine, and of the kernels that were compiled for it.
#pragma once

#include <utility>
#include <vector>

#include "runtime/device/device.hpp"
#include "runtime/evidence.hpp"
#include "runtime/jit/compiler.hpp"

namespace moeplan {

struct EvidenceRun {
  const GpuProfile& gpu;
  const Architecture& architecture;
  const Compiler& compiler;
  const std::vector<std::pair<KernelVariant, CompiledKernel>>& compiled;
};

// Adds it. Error: a text of a kernel is missing.
Status describe_run(Evidence& evidence, const EvidenceRun& run);

}  // namespace moeplan
