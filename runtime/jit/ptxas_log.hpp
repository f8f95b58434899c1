// What the assembler reports of a kernel, read from a compiler's log.
#pragma once

#include <optional>
#include <string_view>

#include "runtime/jit/compiled_kernel.hpp"

namespace moeplan {

// The resources of the entry point of that name; none where the log does not tell all of them. The log also
// holds times, which differ from run to run: nothing may depend on its text but this.
std::optional<KernelResources> parse_ptxas_log(std::string_view log, std::string_view entry);

}  // namespace moeplan
