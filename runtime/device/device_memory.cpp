#include "runtime/device/device_memory.hpp"

#include "runtime/device/cuda_status.hpp"

namespace moeplan {

Result<DeviceMemory> DeviceMemory::allocate(i64 bytes, std::string_view what) {
  void* memory = nullptr;
  // Nothing to allocate is no reason for an address that equals no address.
  const cudaError_t error = cudaMalloc(&memory, static_cast<std::size_t>(max_of(bytes, 1)));
  if (error == cudaSuccess) return DeviceMemory(static_cast<std::byte*>(memory), bytes);

  const Status failed = check_cuda(error, concat("allocating ", grouped(bytes), " bytes for ", what));
  std::size_t free_bytes = 0;
  std::size_t all_bytes = 0;
  if (const Status known = check_cuda(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo"); !known)
    return failed.error();
  return Error{ErrorCode::cuda_failure, "",
               concat(failed.error().message, "; ", grouped(static_cast<i64>(free_bytes)), " of the GPU's ",
                      grouped(static_cast<i64>(all_bytes)), " bytes are free"),
               "plan fewer tokens, or free memory of the GPU"};
}

void DeviceMemory::Free::operator()(std::byte* memory) const { (void)cudaFree(memory); }

}  // namespace moeplan
