// One plan of moeplan validate: what is run of it, and what became of that.
#pragma once

#include "cli/commands/options.hpp"
#include "cli/commands/shared_limit.hpp"
#include "cli/commands/validate_report.hpp"
#include "planner/deployment/indexer_findings.hpp"
#include "planner/deployment/launch_findings.hpp"
#include "runtime/device/validator.hpp"

namespace moeplan {

// What plans are run with.
struct RunSettings {
  SharedLimit shared_limit;
  const ValidateOptions& options;
  Validator& validator;
};

// Runs the plan as the config's device has it, or made anew for this GPU, and its shrinks. `weights`: the
// layer's; null: made up. `pointer`: where the plan stands in the config. What could not be run is a finding
// of the result.
ValidatedPlan run_plan(const DeployedPlan& plan, const LayerWeights* weights, const RunSettings& settings);
ValidatedPlan run_plan(const DeployedIndexer& plan, std::string pointer, const RunSettings& settings);

}  // namespace moeplan
