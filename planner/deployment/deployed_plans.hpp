// Every MoE plan of a config with its layout and the launches that reach it: what audit and launches look at.
#pragma once

#include <string>
#include <vector>

#include "planner/deployment/plan_requests.hpp"
#include "planner/launch/launch_set.hpp"
#include "planner/moe/live_need.hpp"

namespace moeplan {

struct DeployedPlan {
  DeploymentRequest origin;
  MoeLayout layout;
  PlanSteps steps;
  std::string arena;  // where it lies: tiers share one that holds the largest of them

  const std::string& id() const { return origin.request.id; }
  const MoeRequest& request() const { return origin.request.moe; }
  bool engine_made() const { return origin.stated_index < 0; }
  // Whether its launches come with, or without, an expert map: known of engine-made plans.
  bool may_have(ExpertMap map) const;
};

// Plans of the engine's runtimes, the tiers of a serial mixed runtime among them, then the stated ones; micro
// and dynamic plans too. A stated plan may be launched with 1 token up to its capacity. Errors point into the
// config.
Result<std::vector<DeployedPlan>> deployed_plans(const Deployment& deployment);
// The same of requests that were made of the deployment already.
Result<std::vector<DeployedPlan>> deployed_plans(const Deployment& deployment,
                                                 std::vector<DeploymentRequest> requests);

// As launches_of takes them; `plans` has to outlive the result.
std::vector<SteppedPlan> stepped(const std::vector<DeployedPlan>& plans);

}  // namespace moeplan
