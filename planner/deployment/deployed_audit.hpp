// Audits of a deployment's plans: each with the launches that its engine makes, under the contract's reserve
// or an assumed one, and what none of them uses. Source: docs/soundness.md.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/deployment/deployed_plans.hpp"
#include "planner/moe/reach.hpp"
#include "planner/moe/soundness.hpp"

namespace moeplan {

// What an audit is told beside the plan.
struct AuditAssumptions {
  std::optional<UnpinnedBlocks> blocks;  // unpinned plans reserve for these
  std::optional<i64> block_size;         // or for this size alone
  std::optional<ExpertMap> expert_map;   // launches of stated plans
  AuditSearch search = AuditSearch::exhaustive;
};

// One plan with what it is found to be.
struct AuditedPlan {
  const DeployedPlan* plan;
  MoeLayout reserve;             // the plan's own, or the assumed one
  std::vector<MoeAudit> audits;  // one an expert map; none: its launches are not modelled

  // The smallest over all audits.
  std::optional<i64> counter_example() const;
};

// Errors point into the config; one without a pointer is about the assumptions.
Result<AuditedPlan> audit_plan(const DeployedPlan& plan, const AuditAssumptions& assumptions);

// Bytes that no live token count touches, by plan or runtime. Needs all plans of the deployment.
struct UnusedOfPlan {
  std::string owner;
  UnusedBytes unused;
};
std::vector<UnusedOfPlan> unused_of(const Deployment& deployment, std::span<const AuditedPlan> audited);

}  // namespace moeplan
