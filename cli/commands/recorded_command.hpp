// The command that makes a record of --evidence anew, in words that a shell takes.
#pragma once

#include <string>

#include "cli/commands/options.hpp"

namespace moeplan {

std::string evidence_command(const ValidateOptions& options);
std::string evidence_command(const BenchOptions& options);

}  // namespace moeplan
