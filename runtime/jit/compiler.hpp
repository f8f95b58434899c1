// Compiles kernels with NVRTC: one variant, or all of a plan in parallel with a cache in front.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/core/result.hpp"
#include "runtime/jit/architecture.hpp"
#include "runtime/jit/compiled_kernel.hpp"
#include "runtime/jit/cubin_cache.hpp"
#include "runtime/jit/kernel_catalog.hpp"
#include "runtime/jit/nvrtc.hpp"

namespace moeplan {

// Every fact the machine code of a variant depends on, a line each: kernel, defines, architecture, options,
// version of the compiler, digest of the sources. Nothing else: live tokens, capacity and route counts do not
// change code.
std::string kernel_key(const KernelVariant& variant, const Architecture& architecture, NvrtcVersion version,
                       std::string_view source_digest);

// What people tell an entry of the cache by, read back from its key.
struct KeySummary {
  std::string kernel;
  std::string defines;  // "BLOCK=8 BITS=3"
  std::string architecture;
  std::string nvrtc;
};
KeySummary summary_of_key(std::string_view key);

// Said while a plan compiles: how many of how many kernels are done.
using Progress = std::function<void(std::size_t done, std::size_t all)>;

struct CompiledVariant {
  CompiledKernel kernel;
  std::string source_digest;
  bool is_from_cache = false;
};

class Compiler {
 public:
  // `cache`: none compiles everything anew.
  Compiler(Nvrtc nvrtc, RuntimeEnvironment environment, std::optional<CubinCache> cache);

  const Nvrtc& nvrtc() const { return nvrtc_; }
  // Where texts of kernels come from in place of this binary.
  const std::optional<std::string>& kernel_dir() const { return environment_.kernel_dir; }

  // One entry a variant, in their order; equal variants are compiled once. `threads`: at most so many at a
  // time. An entry's error is a kernel that does not compile, with the compiler's log; the error of the whole
  // is an architecture that this NVRTC does not know, or a text that is missing.
  Result<std::vector<Result<CompiledVariant>>> compile(std::span<const KernelVariant> variants,
                                                       const Architecture& architecture, i64 threads,
                                                       const Progress& progress = nullptr);

 private:
  Result<CompiledVariant> compile_one(const KernelVariant& variant, const KernelSource& source,
                                      const Architecture& architecture);

  Nvrtc nvrtc_;
  RuntimeEnvironment environment_;
  std::optional<CubinCache> cache_;
};

}  // namespace moeplan
