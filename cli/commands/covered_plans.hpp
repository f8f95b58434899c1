// Which plans of a config kernels of ours run, and what is said of the rest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/planned_config.hpp"
#include "planner/deployment/deployed_plans.hpp"

namespace moeplan {

struct CoveredPlans {
  std::vector<const DeployedPlan*> plans;
  std::vector<const DeployedIndexer*> indexers;
  std::vector<std::string> uncovered;  // names of what has no kernels
  std::vector<Finding> findings;       // a warning for each of those, and for an indexer that is not planned
};

// Where a plan of the indexer stands in the config.
std::string config_pointer(const PlannedConfig& planned, const DeployedIndexer& indexer);

// What is done to plans, in both forms: "run", "run" or "compile", "compiled".
struct PlanVerb {
  std::string_view infinitive, participle;
};

enum class CoveredScope {
  all,
  indexers,  // the paged indexer plans alone: nothing is said of others
};

// Of all plans, or of those that `choice` means. An error where none has kernels.
Result<CoveredPlans> covered_plans(const PlannedConfig& planned, const std::vector<DeployedPlan>& plans,
                                   const std::string& choice, PlanVerb verb,
                                   CoveredScope scope = CoveredScope::all);

// What a verdict says of the rest: " · no kernels for a, b · indexer not planned".
std::string rest_text(const std::vector<std::string>& uncovered, const std::vector<Finding>& findings);

}  // namespace moeplan
