#include "cli/commands/engine_note.hpp"

#include <algorithm>

#include "planner/core/text.hpp"

namespace moeplan {

void add_engine_note(Report& report, const Deployment& deployment) {
  const Contract* found = deployment.contract;
  for (const PlanRequest& plan : deployment.plans) {
    if (is_moe(plan.kind) && plan.moe.contract && plan.moe.contract->lean_executor) found = plan.moe.contract;
  }
  if (found) add_engine_note(report, *found);
}

void add_engine_note(Report& report, const Contract& contract) {
  if (!contract.lean_executor) return;
  std::string note = concat("no engine runs plans of ", contract.id, ": they show what the reserve could be");
  if (std::ranges::find(report.notes, note) == report.notes.end()) report.notes.push_back(std::move(note));
}

}  // namespace moeplan
