// What the driver says of this machine's GPUs, through libnvidia-ml loaded at run time: no headers, no link.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "planner/core/integer.hpp"

namespace moeplan {

struct GpuMemory {
  std::string name;
  i64 total_bytes = 0;
  i64 free_bytes = 0;
};

// The GPUs in the driver's order, or why there are none.
std::variant<std::vector<GpuMemory>, std::string> probe_gpus();

// The driver's own version, such as "580.159.04"; "" without one.
std::string driver_version();

}  // namespace moeplan
