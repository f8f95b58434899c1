// What other capacities would compile, launch and reserve: cold keys, launches of a full step, and bytes.
// Source: docs/launches.md.
#pragma once

#include <vector>

#include "planner/deployment/deployed_plans.hpp"

namespace moeplan {

struct LaunchChoice {
  i64 scheduled;  // max_num_batched_tokens
  i64 capacity;   // of the prefill plan
  i64 launches;   // a layer, for a step of all scheduled tokens
  LaunchTotals totals;
  i64 scratch_bytes;  // of all runtimes
  bool configured = false;
  bool on_front = false;  // no other choice is as good in every respect and better in one
};

// Prefill capacities at the configured scheduler, with their Pareto front of cold keys, launches and bytes.
// Needs an EXL3 deployment; empty without a prefill plan. Errors point into the config.
Result<std::vector<LaunchChoice>> launch_capacity_choices(const Deployment& deployment, i64 shared_memory);

// The powers of two around max_num_batched_tokens, without slicing; empty where it is one.
Result<std::vector<LaunchChoice>> launch_scheduler_choices(const Deployment& deployment, i64 shared_memory);

}  // namespace moeplan
