// Values of the host on the device and back, and several of them in one allocation.
#pragma once

#include <string_view>
#include <vector>

#include "planner/core/text.hpp"
#include "runtime/arena/guards.hpp"
#include "runtime/device/cuda_status.hpp"
#include "runtime/device/device_memory.hpp"

namespace moeplan {

template <class T>
T* pointer(const DeviceMemory& memory) {
  return reinterpret_cast<T*>(memory.data());
}

// Memory of their own, with an address even where there are none.
template <class T>
Result<DeviceMemory> uploaded(const std::vector<T>& values, std::string_view what) {
  const auto bytes = values.size() * sizeof(T);
  auto memory = DeviceMemory::allocate(max_of(static_cast<i64>(bytes), 16), what);
  if (!memory || values.empty()) return memory;
  if (const Status copied = check_cuda(
          cudaMemcpy(memory->data(), values.data(), bytes, cudaMemcpyHostToDevice), concat("copying ", what));
      !copied)
    return copied.error();
  return memory;
}

// Waits for the stream.
template <class T>
Result<std::vector<T>> downloaded(const void* from, i64 count, cudaStream_t stream) {
  std::vector<T> values(static_cast<std::size_t>(count));
  const cudaError_t error =
      cudaMemcpyAsync(values.data(), from, values.size() * sizeof(T), cudaMemcpyDeviceToHost, stream);
  if (const Status copied = check_cuda(error, "copying what a launch left"); !copied) return copied.error();
  if (const Status waited = check_cuda(cudaStreamSynchronize(stream), "waiting for a launch"); !waited)
    return waited.error();
  return values;
}

// Offsets of allocations that are one: each is at a multiple of what engines' allocators give.
class Places {
 public:
  i64 take(i64 bytes) {
    const i64 at = end_;
    end_ = align_up(end_ + bytes, kAddressAlignment);
    return at;
  }
  i64 end() const { return end_; }

 private:
  i64 end_ = 0;
};

// An address in an allocation as what lies there.
class At {
 public:
  explicit At(std::byte* address) : address_(address) {}
  template <class T>
  operator T*() const {
    return reinterpret_cast<T*>(address_);
  }

 private:
  std::byte* address_;
};

}  // namespace moeplan
