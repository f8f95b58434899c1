// Neighbours: the same request with one setting moved, for people who ask which knob moves a number.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/deployment/plan_requests.hpp"

namespace moeplan {

// One change. Without a request it cannot be asked for, and `reason` says why.
struct Neighbour {
  std::string change;  // "block 32", "capacity 1,536"
  std::string knob;    // where to set it: JSON pointer into the config, or "" for a command line option
  std::optional<PlanRequest> request;
  std::string reason;
};

// Of a plan: block sizes, half and twice the capacity, half and twice the ranks, the other contracts.
std::vector<Neighbour> neighbours_of(const Deployment& deployment, const DeploymentRequest& origin);

}  // namespace moeplan
