#include "cli/commands/engine_note.hpp"

#include "planner/core/text.hpp"

namespace moeplan {

void add_engine_note(Report& report, const Deployment& deployment) {
  const Contract* found = deployment.contract;
  for (const PlanRequest& plan : deployment.plans) {
    if (is_moe(plan.kind) && plan.moe.contract && plan.moe.contract->lean_executor) found = plan.moe.contract;
  }
  if (!found || !found->lean_executor) return;
  report.notes.push_back(
      concat("no engine runs plans of ", found->id, ": they show what the reserve could be"));
}

}  // namespace moeplan
