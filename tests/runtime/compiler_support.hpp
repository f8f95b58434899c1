// The compiler of this machine, for tests that need one.
#pragma once

#include <optional>

#include "runtime/jit/compiler.hpp"
#include "tests/catch.hpp"

namespace moeplan {

// None, said aloud, where there is no NVRTC.
inline std::optional<Compiler> compiler_of_this_machine(RuntimeEnvironment texts = {},
                                                        std::optional<CubinCache> cache = std::nullopt) {
  auto nvrtc = Nvrtc::load(read_runtime_environment());
  if (!nvrtc) {
    WARN("SKIPPED: " << nvrtc.error().message);
    return std::nullopt;
  }
  return Compiler(std::move(*nvrtc), std::move(texts), std::move(cache));
}

// The first variant that the kernel is shipped in.
inline KernelVariant some_variant_of(const KernelRow& row) { return row.variants().front(); }

}  // namespace moeplan
