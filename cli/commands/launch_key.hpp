// moeplan launches --live-tokens: the one key that a launch probes.
#pragma once

#include <vector>

#include "cli/commands/options.hpp"
#include "cli/commands/planned_config.hpp"
#include "planner/core/report.hpp"
#include "planner/deployment/deployed_plans.hpp"

namespace moeplan {

// Its elements by name and as the engine orders them, beside those of the kernel that the plan compiles. An
// error without a pointer is about the command line.
Result<Report> launch_key_report(const PlannedConfig& planned, const std::vector<DeployedPlan>& plans,
                                 const LaunchOptions& options);

// fc1_tile_k, fc1_tile_n, fc2_tile_k, fc2_tile_n.
std::vector<i64> tiles_of(const LaunchKey& key);

// What has to be known of the device.
Result<i64> shared_memory_of(const Deployment& deployment);

}  // namespace moeplan
