// What a plan has to know of the device it is made for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/core/integer.hpp"

namespace moeplan {

enum class DeviceType { cuda, cpu };
inline constexpr std::string_view kDeviceTypeNames[] = {"cuda", "cpu"};

// "12.0": digits, a point, digits. Only such texts can be compared.
constexpr bool is_compute_capability(std::string_view text) {
  const std::size_t point = text.find('.');
  const auto all_digits = [](std::string_view part) {
    return !part.empty() && part.size() < 4 && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return point != std::string_view::npos && all_digits(text.substr(0, point)) &&
         all_digits(text.substr(point + 1));
}

struct DeviceProfile {
  std::optional<i64> sm_count;                    // multiprocessors
  std::optional<std::string> compute_capability;  // "12.0"; none: no device is active
  std::optional<DeviceType> type;                 // default cuda
};

}  // namespace moeplan
