// DeviceMemory: memory of the current GPU, freed with its owner.
#pragma once

#include <memory>
#include <string_view>

#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"

namespace moeplan {

class DeviceMemory {
 public:
  // At an address aligned to 256 bytes. Error `cuda_failure`: names `what` it is for, the bytes asked for and
  // the bytes that are free.
  static Result<DeviceMemory> allocate(i64 bytes, std::string_view what);

  std::byte* data() const { return memory_.get(); }
  i64 bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  DeviceMemory(std::byte* memory, i64 bytes) : memory_(memory), bytes_(bytes) {}

  std::unique_ptr<std::byte, Free> memory_;
  i64 bytes_ = 0;
};

}  // namespace moeplan
