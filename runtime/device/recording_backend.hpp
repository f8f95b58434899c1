// A launcher's backend that notes what it compiled, for whoever writes a record.
#pragma once

#include <utility>
#include <vector>

#include "runtime/device/launcher.hpp"

namespace moeplan {

using CompiledKernels = std::vector<std::pair<KernelVariant, CompiledKernel>>;

// `compiler` and `compiled` have to outlive it.
inline LaunchBackend recording_backend(const Launcher& launcher, Compiler& compiler, i64 threads,
                                       CompiledKernels& compiled) {
  LaunchBackend backend = launcher.backend(compiler, threads);
  backend.compile = [&compiled, compile = backend.compile](std::span<const KernelVariant> variants) {
    auto kernels = compile(variants);
    for (std::size_t i = 0; kernels && i < variants.size(); ++i)
      compiled.emplace_back(variants[i], (*kernels)[i]);
    return kernels;
  };
  return backend;
}

}  // namespace moeplan
