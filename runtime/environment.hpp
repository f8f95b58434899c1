// What the runtime takes from the process environment, read once and handed on as values: nothing below reads
// a variable by itself.
#pragma once

#include <optional>
#include <string>

#include "planner/core/integer.hpp"

namespace moeplan {

struct RuntimeEnvironment {
  std::optional<std::string> nvrtc;           // MOEPLAN_NVRTC: this library and no other
  std::optional<std::string> kernel_dir;      // MOEPLAN_KERNEL_DIR: kernel texts from disk
  std::optional<std::string> cache_dir;       // MOEPLAN_CACHE_DIR
  std::optional<std::string> cuda_home;       // CUDA_HOME
  std::optional<std::string> path;            // PATH: where Python is
  std::optional<std::string> library_path;    // LD_LIBRARY_PATH: whether the loader may look here
  std::optional<std::string> home;            // HOME
  std::optional<std::string> xdg_cache_home;  // XDG_CACHE_HOME
};

// The one place of runtime/ that reads the environment. Empty variables count as unset.
RuntimeEnvironment read_runtime_environment();

// How many variables were read there so far.
i64 environment_reads();

}  // namespace moeplan
