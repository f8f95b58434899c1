// What a call of the CUDA runtime answered, as a Status.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "planner/core/result.hpp"
#include "planner/core/text.hpp"

namespace moeplan {

// Error `cuda_failure`, which names the call. The runtime forgets the error, so that no later call is blamed
// for it; one that broke the device stays, and every later call answers it again.
inline Status check_cuda(cudaError_t error, std::string_view call) {
  if (error == cudaSuccess) return Ok{};
  (void)cudaGetLastError();
  return Error{ErrorCode::cuda_failure, "",
               concat(call, " failed: ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")"), ""};
}

}  // namespace moeplan
