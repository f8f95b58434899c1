// Running this command line again under compute-sanitizer.
#pragma once

#include <string>

#include "planner/core/result.hpp"

namespace moeplan {

// Replaces this process by compute-sanitizer with `tool` and this command line, less its --sanitizer. Its
// report goes to stderr, and it exits 1 when it finds something, else as the command does. Returns only when
// that cannot be done. Error `no_sanitizer`: where it was looked for.
Error run_sanitized(const std::string& tool);

}  // namespace moeplan
