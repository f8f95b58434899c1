#include "runtime/device/device_arena.hpp"

#include <utility>

#include "runtime/device/cuda_status.hpp"

namespace moeplan {
namespace {

template <class T>
i64 bytes_of(const std::vector<T>& items) {
  return static_cast<i64>(items.size() * sizeof(T));
}

}  // namespace

Result<DeviceArena> DeviceArena::create(Placement placement, LaunchResolver& resolver,
                                        const Launcher& launcher) {
  const auto fill = resolver.find(kArenaFill, {});
  if (!fill) return fill.error();
  const auto scan = resolver.find(kArenaScan, {});
  if (!scan) return scan.error();

  auto memory = DeviceMemory::allocate(placement.allocation_bytes, "an arena with its guards");
  if (!memory) return memory.error();
  MOEPLAN_CHECK(reinterpret_cast<std::uintptr_t>(memory->data()) % kAddressAlignment == 0,
                "device memory is less aligned than CUDA says");

  std::vector<ArenaRange> ranges = ranges_of(placement);
  auto device_ranges = DeviceMemory::allocate(bytes_of(ranges), "the ranges of an arena");
  if (!device_ranges) return device_ranges.error();
  auto differences = DeviceMemory::allocate(static_cast<i64>(ranges.size() * sizeof(ArenaDifference)),
                                            "what a scan of an arena sees");
  if (!differences) return differences.error();
  cudaError_t error = cudaMemcpy(device_ranges->data(), ranges.data(),
                                 static_cast<std::size_t>(bytes_of(ranges)), cudaMemcpyHostToDevice);
  // The copy returns when its bytes are staged; streams that do not wait for it read them too.
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (const Status copied = check_cuda(error, "copying the ranges of an arena"); !copied)
    return copied.error();
  return DeviceArena(std::move(placement), std::move(ranges), std::move(*memory), std::move(*device_ranges),
                     std::move(*differences), launcher, *fill, *scan);
}

DeviceArena::DeviceArena(Placement placement, std::vector<ArenaRange> ranges, DeviceMemory memory,
                         DeviceMemory device_ranges, DeviceMemory differences, const Launcher& launcher,
                         const ReadyKernel* fill, const ReadyKernel* scan)
    : placement_(std::move(placement)),
      ranges_(std::move(ranges)),
      memory_(std::move(memory)),
      range_memory_(std::move(device_ranges)),
      difference_memory_(std::move(differences)),
      launcher_(launcher),
      fill_(fill),
      scan_(scan) {}

std::byte* DeviceArena::address(std::string_view tensor) const {
  const int index = find_tensor(placement_, tensor);
  if (index == kNoTensor) return nullptr;
  return allocation() + placement_.tensors[static_cast<std::size_t>(index)].begin;
}

std::byte* DeviceArena::arena() const {
  MOEPLAN_CHECK(placement_.mode == GuardMode::packed, "tensors apart from each other have no arena");
  return allocation() + placement_.arena_begin;
}

// Every block that can be resident: ranges are walked by all of them.
Grid DeviceArena::grid_of(const ReadyKernel& kernel) const {
  return {.x = max_of(kernel.resident_blocks_per_sm, 1) * launcher_.gpu().sm_count};
}

const ArenaRange* DeviceArena::device_ranges() const {
  return reinterpret_cast<const ArenaRange*>(range_memory_.data());
}

ArenaDifference* DeviceArena::device_differences() const {
  return reinterpret_cast<ArenaDifference*>(difference_memory_.data());
}

Status DeviceArena::launch_fill(const ArenaPattern& pattern, void* stream) const {
  return launcher_.launch(*fill_, grid_of(*fill_),
                          ArenaFillArguments{.allocation = allocation(),
                                             .ranges = device_ranges(),
                                             .range_count = static_cast<i64>(ranges_.size()),
                                             .pattern = pattern},
                          stream);
}

Status DeviceArena::launch_scan(const ArenaPattern& pattern, void* stream) const {
  return launcher_.launch(*scan_, grid_of(*scan_),
                          ArenaScanArguments{.allocation = allocation(),
                                             .ranges = device_ranges(),
                                             .range_count = static_cast<i64>(ranges_.size()),
                                             .pattern = pattern,
                                             .differences = device_differences()},
                          stream);
}

Status DeviceArena::fill(const ArenaPattern& pattern, void* stream) {
  pattern_ = pattern;
  is_filled_ = true;
  return launch_fill(pattern, stream);
}

Result<ArenaFindings> DeviceArena::scan(void* stream) {
  MOEPLAN_CHECK(is_filled_, "an arena is scanned that was never filled");
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  std::vector<ArenaDifference> differences(ranges_.size());
  const auto bytes = static_cast<std::size_t>(bytes_of(differences));
  // Host memory that is not pinned is staged before the call returns.
  const cudaError_t cleared =
      cudaMemcpyAsync(device_differences(), differences.data(), bytes, cudaMemcpyHostToDevice, cuda_stream);
  if (const Status done = check_cuda(cleared, "clearing what a scan sees"); !done) return done.error();
  if (const Status launched = launch_scan(pattern_, stream); !launched) return launched.error();
  const cudaError_t copied =
      cudaMemcpyAsync(differences.data(), device_differences(), bytes, cudaMemcpyDeviceToHost, cuda_stream);
  if (const Status done = check_cuda(copied, "copying what a scan saw"); !done) return done.error();
  if (const Status done = check_cuda(cudaStreamSynchronize(cuda_stream), "scanning an arena"); !done)
    return done.error();
  return findings_of(placement_, differences);
}

}  // namespace moeplan
