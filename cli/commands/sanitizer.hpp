// Running this command line again under compute-sanitizer.
#pragma once

#include <string>

#include "planner/core/result.hpp"

namespace moeplan {

// Runs compute-sanitizer with `tool` on this command line, less its --sanitizer, and exits as that does: 1
// when it finds something, else as the command. Its report goes to stderr. Returns only when it cannot be
// started. Error `no_sanitizer`: where it was looked for.
Error run_sanitized(const std::string& tool);

}  // namespace moeplan
