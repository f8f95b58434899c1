// How moeplan bench refuses a command line.
#pragma once

#include "cli/commands/finish.hpp"
#include "cli/commands/plan_choice.hpp"

namespace moeplan {

inline ExitCode refuse(const Error& error, const BenchOptions& options) {
  const Problem problem{error, {}};
  (void)finish({}, {&problem, 1}, options.configs.report);
  return exit_code_of(error.code);
}

}  // namespace moeplan
