#include "planner/indexer/device.hpp"

#include "planner/core/text.hpp"

namespace moeplan {

bool is_cuda(const DeviceProfile& device) {
  return device.type.value_or(DeviceType::cuda) == DeviceType::cuda;
}

Result<i64> stated_multiprocessors(const DeviceProfile& device) {
  if (!device.sm_count)
    return Error{ErrorCode::missing_field, "/device/sm_count", "sm_count is missing",
                 "add the multiprocessor count of the device, for example 188"};
  if (*device.sm_count < 1)
    return Error{ErrorCode::not_positive, "/device/sm_count",
                 concat("sm_count must be positive, got ", *device.sm_count), ""};
  return *device.sm_count;
}

Result<i64> indexer_multiprocessors(const DeviceProfile& device) {
  if (!is_cuda(device)) return i64{1};
  return stated_multiprocessors(device);
}

bool is_sm120_or_121(const DeviceProfile& device) {
  return is_cuda(device) && (device.compute_capability == "12.0" || device.compute_capability == "12.1");
}

}  // namespace moeplan
