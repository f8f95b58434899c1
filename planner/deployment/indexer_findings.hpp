// What an operator should know of a deployment's indexer: reserve that is never used, memory that comes late,
// and variables that do not do what they seem to.
#pragma once

#include <string_view>
#include <vector>

#include "planner/core/report.hpp"
#include "planner/deployment/deployment.hpp"
#include "planner/deployment/indexer_requests.hpp"

namespace moeplan {

// A planned paged arena of the deployment.
struct DeployedIndexer {
  const PlanRequest* request;
  const IndexerLayout* layout;
  LateAllocation late;
};

// Bytes of the arena that calls on its route never touch.
i64 untouched_bytes(const IndexerLayout& layout);

// The rule of an indexer whose arenas are not planned.
inline constexpr std::string_view kIndexerNotPlanned = "indexer-not-planned";

// Its findings: one for each field that would have to be stated.
std::vector<Finding> indexer_not_planned(const Deployment& deployment);

// One rule each of indexer_findings.cpp, in the order of its table. Pointers lead into the config.
std::vector<Finding> indexer_findings(const Deployment& deployment,
                                      const std::vector<DeployedIndexer>& plans);

}  // namespace moeplan
