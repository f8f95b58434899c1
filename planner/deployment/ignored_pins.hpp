// Pins that a config states for the kernels of an engine and that its contract's executor does not read.
#pragma once

#include <string_view>
#include <vector>

#include "planner/core/report.hpp"
#include "planner/deployment/deployment.hpp"

namespace moeplan {

inline constexpr std::string_view kIgnoredPin = "pin-ignored";

// Notes, one a pin; none under an engine's contract. Pointers lead into the config.
std::vector<Finding> ignored_pins(const Deployment& deployment);

}  // namespace moeplan
