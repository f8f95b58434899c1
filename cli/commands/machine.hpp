// What commands run kernels with: the compiler, and what runs them on this machine's GPU.
#pragma once

#include <memory>
#include <thread>

#include "cli/commands/kernel_compiler.hpp"
#include "cli/commands/run_evidence.hpp"

namespace moeplan {

template <class Runner>
struct Machine {
  Compiler compiler;
  std::unique_ptr<Runner> runner;

  EvidenceRun evidence_run() const {
    return {runner->gpu(), runner->architecture(), compiler, runner->compiled()};
  }
};

template <class Runner>
Result<std::unique_ptr<Machine<Runner>>> open_machine(Result<std::unique_ptr<Runner>> (*open)(Compiler&,
                                                                                              i64 threads)) {
  auto compiler = kernel_compiler(true);
  if (!compiler) return compiler.error();
  auto machine = std::make_unique<Machine<Runner>>(Machine<Runner>{std::move(*compiler), nullptr});
  auto runner = open(machine->compiler, i64{std::thread::hardware_concurrency()});
  if (!runner) return runner.error();
  machine->runner = std::move(*runner);
  return machine;
}

}  // namespace moeplan
