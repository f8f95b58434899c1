// What a plan has to know of the device it is made for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/core/integer.hpp"

namespace moeplan {

enum class DeviceType { cuda, cpu };
inline constexpr std::string_view kDeviceTypeNames[] = {"cuda", "cpu"};

struct DeviceProfile {
  std::optional<i64> sm_count;                    // multiprocessors
  std::optional<std::string> compute_capability;  // "12.0"; none: no device is active
  std::optional<DeviceType> type;                 // default cuda
};

}  // namespace moeplan
