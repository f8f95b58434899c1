// The GPU of this machine as the CUDA runtime sees it.
#pragma once

#include <string>
#include <vector>

#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"

namespace moeplan {

struct GpuProfile {
  std::string name;
  std::string compute_capability;  // "9.0"
  i64 sm_count = 0;
  i64 shared_bytes_per_block = 0;  // that a block may opt in to
  i64 shared_bytes_per_sm = 0;
  i64 l2_bytes = 0;
  i64 memory_bytes = 0;
};

// "13.0", or "" where this build has no CUDA runtime.
std::string cuda_runtime_version();
// "13.0": the newest CUDA the driver takes; "" without a driver.
std::string cuda_driver_version();

// The GPUs of this machine. Error `no_device`: no driver, no GPU, or a build without a CUDA runtime; says
// which.
Result<std::vector<GpuProfile>> gpu_profiles();

}  // namespace moeplan
