#include "cli/sweep/launch_facts.hpp"

#include <algorithm>

#include "cli/commands/launch_key.hpp"
#include "planner/deployment/deployed_audit.hpp"

namespace moeplan {
namespace {

// Whether the plan lies in what is looked at; tiers share an arena.
bool is_looked_at(const DeployedPlan& plan, const Sweep& sweep) {
  return sweep.arena.empty() || plan.id() == sweep.arena || plan.arena == sweep.arena;
}

std::optional<bool> sound(const std::vector<DeployedPlan>& plans, const Sweep& sweep) {
  std::optional<bool> all;
  for (const DeployedPlan& plan : plans) {
    if (!is_looked_at(plan, sweep)) continue;
    // Needs are monotone between the peaks, so that other counts cannot be worse.
    const auto audited = audit_plan(plan, {.search = AuditSearch::peaks});
    if (!audited || audited->audits.empty()) continue;
    all = all.value_or(true) && !audited->counter_example();
  }
  return all;
}

std::optional<i64> cold_keys(const Deployment& deployment, const std::vector<DeployedPlan>& plans,
                             const Sweep& sweep) {
  const auto shared_memory = shared_memory_of(deployment);
  if (!shared_memory) return std::nullopt;
  const auto all = launches_of(stepped(plans), *shared_memory);
  std::vector<PlanLaunches> looked_at;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (is_looked_at(plans[i], sweep)) looked_at.push_back(all[i]);
  }
  const LaunchTotals totals = totals_of(looked_at);
  if (totals.fails || totals.keys == 0) return std::nullopt;
  return totals.cold_keys;
}

}  // namespace

void set_launch_facts(const Deployment& deployment, const std::vector<DeploymentRequest>& requests,
                      const Sweep& sweep, SweepPoint& point) {
  if (!sweep.wants_sound && !sweep.wants_cold_keys) return;
  const auto plans = deployed_plans(deployment, requests);
  if (!plans) return;
  if (sweep.wants_sound) point.sound = sound(*plans, sweep);
  if (sweep.wants_cold_keys) point.cold_keys = cold_keys(deployment, *plans, sweep);
}

}  // namespace moeplan
