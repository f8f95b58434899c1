// NVIDIA's run-time compiler, found on this machine and loaded when it is asked for: nothing of it is linked,
// and a command that only plans never looks for it.
#pragma once

#include <compare>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/result.hpp"
#include "runtime/environment.hpp"
#include "runtime/jit/kernel_sources.hpp"

namespace moeplan {

struct NvrtcVersion {
  int major = 0;
  int minor = 0;
  auto operator<=>(const NvrtcVersion&) const = default;
};

// What the compiler made of a text.
struct NvrtcOutput {
  bool is_compiled = false;
  std::string cubin;
  std::string log;
};

class Nvrtc {
 public:
  // MOEPLAN_NVRTC alone where it is set; else the loader's path, CUDA_HOME, /usr/local/cuda*, and wheels
  // beside the Python of PATH; never the working folder. Error `no_nvrtc` lists where it looked.
  static Result<Nvrtc> load(const RuntimeEnvironment& environment);

  const std::string& path() const;
  NvrtcVersion version() const;
  // Such as 120 for sm_120, rising.
  const std::vector<int>& architectures() const;

  // May be called from several threads at a time.
  NvrtcOutput compile(const KernelSource& source, std::span<const std::string> options) const;

 private:
  struct Library;
  explicit Nvrtc(std::shared_ptr<const Library> library) : library_(std::move(library)) {}
  std::shared_ptr<const Library> library_;
};

// Libraries that `load` would try, in order; the loader's own path is the bare names among them. For messages
// and tests.
std::vector<std::string> nvrtc_candidates(const RuntimeEnvironment& environment);

}  // namespace moeplan
