#include "runtime/device/device.hpp"

#include <cuda_runtime_api.h>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// 13000 is "13.0".
std::string version_text(int version) {
  return version == 0 ? "" : concat(version / 1000, ".", version % 1000 / 10);
}

Error no_device(cudaError_t error) {
  return {ErrorCode::no_device, "",
          cuda_driver_version().empty() ? std::string("no NVIDIA driver here")
                                        : concat("no usable GPU: ", cudaGetErrorString(error)),
          "run it where nvidia-smi lists a GPU"};
}

i64 attribute(cudaDeviceAttr name, int device) {
  int value = 0;
  cudaDeviceGetAttribute(&value, name, device);
  return value;
}

}  // namespace

std::string cuda_runtime_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version_text(version) : "";
}

std::string cuda_driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version_text(version) : "";
}

Result<std::vector<GpuProfile>> gpu_profiles() {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) return no_device(error);
  if (count == 0) return no_device(cudaErrorNoDevice);
  std::vector<GpuProfile> profiles;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties;
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess)
      return no_device(error);
    profiles.push_back({.name = properties.name,
                        .compute_capability = concat(properties.major, ".", properties.minor),
                        .sm_count = properties.multiProcessorCount,
                        .shared_bytes_per_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                        .shared_bytes_per_sm = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, device),
                        .l2_bytes = properties.l2CacheSize,
                        .memory_bytes = static_cast<i64>(properties.totalGlobalMem)});
  }
  return profiles;
}

}  // namespace moeplan
