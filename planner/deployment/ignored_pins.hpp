// Pins that a config states for the kernels of an engine and that its contract's executor does not read.
#pragma once

#include <string_view>
#include <vector>

#include "planner/core/report.hpp"
#include "planner/deployment/deployment.hpp"

namespace moeplan {

inline constexpr std::string_view kIgnoredPin = "pin-ignored";

// Whether a variable of the engine decides nothing of this deployment's plans.
bool is_ignored_variable(const Deployment& deployment, std::string_view variable);

// Notes, one a pin; none under an engine's contract. Pointers lead into the config.
std::vector<Finding> ignored_pins(const Deployment& deployment);

}  // namespace moeplan
