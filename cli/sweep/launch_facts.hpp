// What the launches of a point's plans come to: whether its arenas hold them, and which kernels compile
// mid-serve. The same as moeplan audit and moeplan launches say.
#pragma once

#include <vector>

#include "cli/sweep/point_planner.hpp"

namespace moeplan {

// Those that the sweep wants. `requests` are the point's own, with its pin.
void set_launch_facts(const Deployment& deployment, const std::vector<DeploymentRequest>& requests,
                      const Sweep& sweep, SweepPoint& point);

}  // namespace moeplan
