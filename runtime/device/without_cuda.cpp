// What a build without a CUDA toolkit answers: it plans and compiles, and runs nothing.
#include "runtime/device/device.hpp"

namespace moeplan {

std::string cuda_runtime_version() { return ""; }
std::string cuda_driver_version() { return ""; }

Result<std::vector<GpuProfile>> gpu_profiles() {
  return Error{ErrorCode::no_device, "", "this build of moeplan has no CUDA runtime: it runs no kernels",
               "build it where a CUDA toolkit of 12.8 or later is (CUDA_HOME)"};
}

}  // namespace moeplan
