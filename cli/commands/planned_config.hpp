// A config read and planned: what size, explain and their kind start from.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/io/config.hpp"
#include "planner/deployment/exl3_runtime.hpp"
#include "planner/deployment/indexer_findings.hpp"
#include "planner/deployment/plan_requests.hpp"
#include "planner/plan.hpp"

namespace moeplan {

// One plan of a config with its layout.
struct PlannedRequest {
  DeploymentRequest origin;
  PlanLayout layout;

  const std::string& id() const { return origin.request.id; }
  // Null for the other sort of plan.
  const MoeLayout* moe() const { return std::get_if<MoeLayout>(&layout); }
  const IndexerLayout* indexer() const { return std::get_if<IndexerLayout>(&layout); }
};

struct PlannedConfig {
  std::unique_ptr<Config> config;  // holds the problems; places point into it
  std::vector<PlannedRequest> plans;
  std::vector<DeployedIndexer> indexer_plans;  // the paged arenas that the engine makes; points into `plans`
  std::vector<RuntimePart> mixed_parts;  // what a target of mixed bit widths allocates in place of arenas

  bool ok() const { return config->problems.empty(); }
  // The contracts of its plans, each once: "a" or "a, b".
  std::string contract_names() const;
};

PlannedConfig plan_config(std::unique_ptr<Config> config);

// "GLM-5.2 · exl3_trellis_mcg 3 bpw · TP4 · …": what the deployment is.
std::string subject_of(const Deployment& deployment);

}  // namespace moeplan
