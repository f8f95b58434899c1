#include "planner/deployment/exl3_reach.hpp"

#include "planner/core/text.hpp"
#include "planner/deployment/exl3_runtime.hpp"
#include "planner/deployment/exl3_steps.hpp"
#include "planner/moe/plan_moe.hpp"

namespace moeplan {

std::vector<UnusedBytes> unscheduled_bytes(const DeployedPlan& plan) {
  const i64 capacity = plan.request().capacity.tokens();
  if (!plan.engine_made() || plan.steps.live.empty() || plan.steps.live.back().last >= capacity) return {};
  const i64 most = plan.steps.live.back().last;
  MoeRequest enough = plan.request();
  enough.capacity.max_tokens = most;
  const auto layout = plan_moe(enough);
  if (!layout || layout->total_bytes >= plan.layout.total_bytes) return {};
  return {{"unscheduled_tokens", "", plan.layout.total_bytes - layout->total_bytes,
           concat("planned for ", capacity, " tokens, no step brings more than ", most)}};
}

std::vector<UnusedStaging> unused_staging(const Deployment& deployment) {
  const auto settings = parse_exl3_settings(*deployment.engine);
  const auto runtimes = exl3_runtimes(deployment);
  if (!settings || !runtimes || exl3_steps(*settings, *deployment.engine).reaches_parity) return {};
  std::vector<UnusedStaging> unused;
  for (const Exl3Runtime& runtime : *runtimes) {
    for (const RuntimePart& part : runtime.parts) {
      if (part.kind != PartKind::parity_staging) continue;
      unused.push_back({runtime.is_draft ? "draft" : "target",
                        {"parity_staging", part.name, part.bytes,
                         "every step goes to the decode or the prefill plan, none to the parity path"}});
    }
  }
  return unused;
}

}  // namespace moeplan
