// What benches of calls share: the times of work that is queued again and again, and how fast bytes move.
#pragma once

#include <vector>

#include "runtime/bench/quantile.hpp"
#include "runtime/bench/rates.hpp"
#include "runtime/device/cuda_status.hpp"
#include "runtime/device/device_memory.hpp"
#include "runtime/device/stream.hpp"

namespace moeplan {

inline constexpr int kReplays = 21;
inline constexpr int kWarmUps = 2;

// Nanoseconds of what `queue` puts into the stream.
template <class Queue>
Result<i64> time_once(StreamTimer& timer, const Queue& queue) {
  if (const Status started = timer.start(); !started) return started.error();
  if (const Status queued = queue(); !queued) return queued.error();
  return timer.stop();
}

// Nanoseconds of each run of `queue`, behind some that warm up.
template <class Queue>
Result<std::vector<i64>> time_each(cudaStream_t stream, const Queue& queue) {
  std::vector<i64> samples;
  auto timer = StreamTimer::create(stream);
  if (!timer) return timer.error();
  for (int i = -kWarmUps; i < kReplays; ++i) {
    const auto nanoseconds = time_once(*timer, queue);
    if (!nanoseconds) return nanoseconds.error();
    if (i >= 0) samples.push_back(*nanoseconds);
  }
  return samples;
}

// How fast a device-to-device copy reads and writes, of many times what the L2 cache holds.
inline Result<Bandwidth> measured_copy(cudaStream_t stream, i64 memory_bytes) {
  constexpr i64 kCopiedBytes = i64{1} << 29;
  const i64 bytes = min_of(kCopiedBytes, memory_bytes / 8);
  const auto from = DeviceMemory::allocate(bytes, "what is copied");
  if (!from) return from.error();
  const auto to = DeviceMemory::allocate(bytes, "a copy");
  if (!to) return to.error();
  const auto samples = time_each(stream, [&] {
    return check_cuda(cudaMemcpyAsync(to->data(), from->data(), static_cast<std::size_t>(bytes),
                                      cudaMemcpyDeviceToDevice, stream),
                      "copying on the device");
  });
  if (!samples) return samples.error();
  return Bandwidth{max_of(2 * bytes / max_of(median(*samples), 1), 1), true};
}

// Bytes of the GPU's memory that nobody has taken.
inline Result<i64> free_memory() {
  std::size_t free = 0, all = 0;
  if (const Status asked = check_cuda(cudaMemGetInfo(&free, &all), "asking for the free memory"); !asked)
    return asked.error();
  return static_cast<i64>(free);
}

}  // namespace moeplan
