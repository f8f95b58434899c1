// The shared memory that a block of a kernel may have, and what is said of kernels that take more.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/core/report.hpp"
#include "runtime/jit/kernel_catalog.hpp"

namespace moeplan {

struct SharedLimit {
  i64 bytes;
  std::string source;   // as texts name it
  std::string pointer;  // into the config, where it is stated there; ""
};

// The smaller one of a machine's and, where it is stated, of the config's device.
SharedLimit shared_limit(i64 machine_bytes, std::string_view machine, std::optional<i64> of_config);

// Of a kernel that takes `bytes` a block. `name` names it; `pointer` is where it comes from in the config.
Finding shared_memory_finding(std::string_view name, KernelId kernel, i64 bytes, const SharedLimit& limit,
                              const std::string& pointer);

}  // namespace moeplan
