// The compiler with its cache, as commands use it: what is wrong with the cache is said, and costs no more
// than time.
#pragma once

#include "planner/core/report.hpp"
#include "planner/core/result.hpp"
#include "runtime/jit/compiler.hpp"

namespace moeplan {

// Reads the environment, finds NVRTC, opens the cache. Error: no NVRTC.
Result<Compiler> kernel_compiler(bool uses_cache);

// A note where kernels are not compiled from the binary's own texts.
void note_kernel_dir(Report& report, const Compiler& compiler);

}  // namespace moeplan
