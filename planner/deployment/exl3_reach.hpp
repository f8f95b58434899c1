// Bytes that an EXL3 runtime reserves and that no step of the scheduler can use.
// Source: docs/soundness.md section 3.
#pragma once

#include <span>
#include <vector>

#include "planner/deployment/deployed_plans.hpp"
#include "planner/moe/reach.hpp"

namespace moeplan {

// No step reaches the plan at all.
bool is_unreached(const DeployedPlan& plan);

// Of tokens of a plan above all that its steps bring, beside tensors that are `known` to be unused as a
// whole.
std::vector<UnusedBytes> unscheduled_bytes(const DeployedPlan& plan, std::span<const UnusedBytes> known);

// Parity staging, by runtime, where every step goes to a plan. Needs model, quant, parallel, device and
// engine, planned.
struct UnusedStaging {
  std::string runtime;
  UnusedBytes unused;
};
std::vector<UnusedStaging> unused_staging(const Deployment& deployment);

}  // namespace moeplan
