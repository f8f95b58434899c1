// Runs one launch of a plan from two poisons and as a graph, and measures what it did.
#pragma once

#include <vector>

#include "runtime/device/test_bench.hpp"
#include "runtime/planned_kernels.hpp"
#include "runtime/validate/measurement.hpp"

namespace moeplan {

// Where outputs are compared.
struct CompareRoom {
  // For launches of up to `tokens`.
  static Result<CompareRoom> create(const FusedPlan& plan, i64 tokens);

  DeviceMemory memory;
  std::byte* first;  // the output of a launch's first run
  double* expected;
  ComparedRow* rows;
  unsigned long long* masked_bytes;
};

class LaunchMeasurer {
 public:
  // All of these have to outlive it. `caller`: null where launches bring nothing that is written.
  LaunchMeasurer(const KernelPlan& plan, const TestBench& bench, const CompareRoom& room, DeviceArena& arena,
                 DeviceArena* caller, Launches& launches)
      : plan_(plan), bench_(bench), room_(room), arena_(arena), caller_(caller), launches_(launches) {}

  Result<Measurement> measure(const TestLaunch& launch);

 private:
  Status run_poisoned(const PreparedLaunch& prepared, const ArenaPattern& poison);
  // Compares with the reference, and with the first run's output; the first keeps it. `compared`: what the
  // launch is compared by, but for the step.
  Status note_output(Measurement& m, CompareArguments compared, bool is_first, i64& differences);
  Status note_masked(Measurement& m, CompareArguments compared, const ArenaPattern& poison);
  Status note_workspace(Measurement& m, const PreparedLaunch& prepared);
  // Adds what the scans of both arenas see.
  Status scan(ArenaFindings& arena, ArenaFindings& caller);

  const KernelPlan& plan_;
  const TestBench& bench_;
  const CompareRoom& room_;
  DeviceArena& arena_;
  DeviceArena* caller_;
  Launches& launches_;
};

}  // namespace moeplan
