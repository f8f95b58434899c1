// Deployment to plan requests: the stated plans, or those the engine makes of the deployment's settings.
#pragma once

#include <string>
#include <vector>

#include "planner/core/result.hpp"
#include "planner/deployment/deployment.hpp"

namespace moeplan {

// A request and where its fields stand in the config.
struct DeploymentRequest {
  PlanRequest request;
  int stated_index = -1;  // place in the config's plans, -1 when the engine makes it

  // The config's JSON pointer of a field of the request.
  std::string config_pointer(std::string_view request_pointer) const;
};

// An error about a field of the request, told as one about the config.
Error located(const DeploymentRequest& origin, Error error);

// The model, quant, parallel, device and deployment sections are all there.
Status check_described(const Deployment& deployment);

// The routed experts run through the EXL3 integration, whose plans are modelled.
bool is_exl3(const Deployment& deployment);

// Engine-made requests first, then the stated ones. Errors point into the config.
Result<std::vector<DeploymentRequest>> plan_requests(const Deployment& deployment);

}  // namespace moeplan
