// DeviceArena: the scratch memory of a plan on a GPU, between guards. Fill it, run kernels in it, scan it:
// every byte they wrote outside their tensors is named, and how much of each tensor they used.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "planner/core/result.hpp"
#include "runtime/arena/guards.hpp"
#include "runtime/device/device_memory.hpp"
#include "runtime/device/launcher.hpp"

namespace moeplan {

class DeviceArena {
 public:
  // Resolves kArenaKernels if they are not yet; the resolver has to outlive the arena. Error: out of memory,
  // or a kernel cannot be had.
  static Result<DeviceArena> create(Placement placement, LaunchResolver& resolver, const Launcher& launcher);

  const Placement& placement() const { return placement_; }
  std::byte* allocation() const { return memory_.data(); }
  // Of a tensor of the plan. Null: it lies in no arena.
  std::byte* address(std::string_view tensor) const;
  // Of the planned offset 0; packed placements only.
  std::byte* arena() const;

  // Fills everything, tensors with poison and guards with their pattern. Not for a stream that is captured,
  // and neither is scan.
  Status fill(const ArenaPattern& pattern, void* stream);
  // What changed since the last fill. Waits for the stream.
  Result<ArenaFindings> scan(void* stream);

  // The two launches alone, to be timed: nothing is waited for, and what the scan sees stays on the device.
  Status launch_fill(const ArenaPattern& pattern, void* stream) const;
  Status launch_scan(const ArenaPattern& pattern, void* stream) const;

 private:
  DeviceArena(Placement placement, std::vector<ArenaRange> ranges, DeviceMemory memory,
              DeviceMemory device_ranges, DeviceMemory differences, const Launcher& launcher,
              const ReadyKernel* fill, const ReadyKernel* scan);

  Grid grid_of(const ReadyKernel& kernel) const;
  const ArenaRange* device_ranges() const;
  ArenaDifference* device_differences() const;

  Placement placement_;
  std::vector<ArenaRange> ranges_;
  DeviceMemory memory_;
  DeviceMemory range_memory_;
  DeviceMemory difference_memory_;
  Launcher launcher_;
  const ReadyKernel* fill_;
  const ReadyKernel* scan_;
  ArenaPattern pattern_{};
  bool is_filled_ = false;
};

}  // namespace moeplan
