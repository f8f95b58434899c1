// A deployment's engine settings as an operator types them: flags of `vllm serve` and environment variables.
#pragma once

#include <vector>

#include "planner/core/report.hpp"
#include "planner/deployment/deployment.hpp"

namespace moeplan {

// Flags in the order of their table, then the variables as the config states them. Needs nothing; what is not
// stated is left out.
std::vector<EngineSetting> engine_settings(const Deployment& deployment);

}  // namespace moeplan
