#include "runtime/environment.hpp"

#include <atomic>
#include <cstdlib>

namespace moeplan {
namespace {

std::atomic<i64> reads = 0;

std::optional<std::string> variable(const char* name) {
  ++reads;
  const char* value = std::getenv(name);
  if (!value || !*value) return {};
  return value;
}

}  // namespace

RuntimeEnvironment read_runtime_environment() {
  return {.nvrtc = variable("MOEPLAN_NVRTC"),
          .kernel_dir = variable("MOEPLAN_KERNEL_DIR"),
          .cache_dir = variable("MOEPLAN_CACHE_DIR"),
          .cuda_home = variable("CUDA_HOME"),
          .path = variable("PATH"),
          .library_path = variable("LD_LIBRARY_PATH"),
          .home = variable("HOME"),
          .xdg_cache_home = variable("XDG_CACHE_HOME")};
}

i64 environment_reads() { return reads; }

}  // namespace moeplan
