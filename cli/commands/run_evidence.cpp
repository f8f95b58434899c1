#include "cli/commands/run_evidence.hpp"

#include <algorithm>

#include "planner/core/text.hpp"
#include "runtime/nvml.hpp"

namespace moeplan {

Status describe_run(Evidence& evidence, const EvidenceRun& run) {
  evidence.device = {.name = run.gpu.name,
                     .compute_capability = run.gpu.compute_capability,
                     .sm_count = run.gpu.sm_count,
                     .driver = concat(driver_version(), ", CUDA up to ", cuda_driver_version()),
                     .cuda_runtime = cuda_runtime_version()};
  const NvrtcVersion version = run.compiler.nvrtc().version();
  evidence.nvrtc = concat(version.major, ".", version.minor);
  for (const auto& [variant, compiled] : run.compiled) {
    auto kernel = evidence_kernel(variant, run.architecture, compiled, read_runtime_environment());
    if (!kernel) return kernel.error();
    if (std::ranges::find(evidence.kernels, *kernel) == evidence.kernels.end())
      evidence.kernels.push_back(std::move(*kernel));
  }
  return Ok{};
}

}  // namespace moeplan
