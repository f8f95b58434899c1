// What the indexer reads of a device.
#pragma once

#include "planner/core/device_profile.hpp"
#include "planner/core/result.hpp"

namespace moeplan {

// The multiprocessors as stated; an error when they are not.
Result<i64> stated_multiprocessors(const DeviceProfile& device);

// S: the multiprocessors of a CUDA device, 1 off CUDA.
Result<i64> indexer_multiprocessors(const DeviceProfile& device);

bool is_cuda(const DeviceProfile& device);

// Compute capability 12.0 or 12.1; false off CUDA.
bool is_sm120_or_121(const DeviceProfile& device);

}  // namespace moeplan
