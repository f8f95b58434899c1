// ScratchBinding: the memory that a plan runs in, the caller's where it is large enough.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "planner/core/result.hpp"
#include "runtime/device/device_memory.hpp"

namespace moeplan {

class ScratchBinding {
 public:
  // Receives what has to be said, once a plan.
  using Warn = std::function<void(const std::string&)>;

  // `plan`: names it in messages. `planned_bytes`: what it needs.
  ScratchBinding(std::string plan, i64 planned_bytes, Warn warn)
      : plan_(std::move(plan)), planned_bytes_(planned_bytes), warn_(std::move(warn)) {}

  // Where a launch into `stream` works: in `provided`, or, when that is too small, in memory of its own that
  // lives as long as the binding. Error `scratch_too_small`: too small while the stream is captured; Error
  // `cuda_failure`: no memory.
  Result<std::byte*> bind(void* provided, i64 provided_bytes, void* stream);

  bool owns_memory() const { return own_.has_value(); }

 private:
  std::string plan_;
  i64 planned_bytes_;
  Warn warn_;
  bool has_warned_ = false;
  std::optional<DeviceMemory> own_;
};

}  // namespace moeplan
