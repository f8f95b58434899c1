// All plans of an engine process with the keys they probe: the cache of compiled kernels is the process's, so
// what one plan compiles early is warm for all. Source: docs/launches.md section 5.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/launch/coverage.hpp"

namespace moeplan {

// Rows of the launches of one plan.
struct PlanSteps {
  std::vector<LiveRange> live;  // all that a step can bring, eagerly or in a graph
  std::vector<i64> profiled;    // of the profile run
  std::vector<i64> captured;    // of the capture of CUDA graphs and of the warm-up before each
};

// A plan with the launches that steps make of it.
struct SteppedPlan {
  std::string_view id;
  const MoeRequest* request;
  const MoeLayout* layout;
  const PlanSteps* steps;
};

struct PlanLaunches {
  std::string id;
  std::optional<LaunchPlan> plan;    // none: its keys are not modelled
  std::vector<LaunchKey> prewarmed;  // distinct keys compiled with the plan
  std::vector<KeyRun> runs;
  std::optional<Error> failure;  // planning fails or some launch is refused; points into the request
  // Captured sizes whose kernel nothing compiles but the warm-up before their capture.
  std::vector<i64> warmed_by_capture_alone;

  // Whether its keys can be told, or why they cannot.
  bool is_modelled() const { return !failure || failure->code != ErrorCode::launch_not_modelled; }
};

// Keys of all plans, each once: a kernel is compiled once a process.
struct LaunchTotals {
  i64 keys = 0;
  i64 cold_keys = 0;
  bool fails = false;  // a plan cannot be launched
  i64 plans_not_modelled = 0;
};
LaunchTotals totals_of(std::span<const PlanLaunches> launches);

// Why the plan cannot be launched, or its keys not be told; none: it can.
std::optional<Error> launch_failure(const SteppedPlan& plan, i64 shared_memory);

// One entry a plan, in order. `shared_memory`: bytes a block of the device may opt in to.
std::vector<PlanLaunches> launches_of(std::span<const SteppedPlan> plans, i64 shared_memory);

}  // namespace moeplan
