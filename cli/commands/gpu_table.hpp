// The table of this machine's GPUs.
#pragma once

#include <span>
#include <string>

#include "planner/core/report.hpp"
#include "runtime/nvml.hpp"

namespace moeplan {

// One row a GPU: its name, total and free bytes, as the driver says.
Table gpu_table(std::string key, std::string title, std::span<const GpuMemory> gpus);

}  // namespace moeplan
