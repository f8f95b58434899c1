// Bytes that an EXL3 runtime reserves and that no step of the scheduler can use.
// Source: docs/soundness.md section 3.
#pragma once

#include <span>
#include <vector>

#include "planner/deployment/deployed_plans.hpp"
#include "planner/moe/reach.hpp"

namespace moeplan {

// Tokens of a plan above all that its steps bring.
std::vector<UnusedBytes> unscheduled_bytes(const DeployedPlan& plan);

// Parity staging, by runtime, where every step goes to a plan. Needs model, quant, parallel, device and
// engine.
struct UnusedStaging {
  std::string runtime;
  UnusedBytes unused;
};
std::vector<UnusedStaging> unused_staging(const Deployment& deployment);

}  // namespace moeplan
