#include "planner/deployment/exl3_reach.hpp"

#include <algorithm>

#include "planner/core/text.hpp"
#include "planner/deployment/exl3_runtime.hpp"
#include "planner/deployment/exl3_steps.hpp"
#include "planner/moe/plan_moe.hpp"

namespace moeplan {

namespace {

i64 bytes_of(const MoeLayout& layout, std::string_view name) {
  const auto tensor = std::ranges::find(layout.arena.tensors, name, &TensorSpec::name);
  return tensor == layout.arena.tensors.end() ? 0 : tensor->bytes;
}

}  // namespace

bool is_unreached(const DeployedPlan& plan) { return plan.engine_made() && plan.steps.live.empty(); }

std::vector<UnusedBytes> unscheduled_bytes(const DeployedPlan& plan, std::span<const UnusedBytes> known) {
  if (is_unreached(plan))
    return {
        {"unscheduled_tokens", "", plan.layout.total_bytes, "no step of the scheduler reaches this plan"}};
  const i64 capacity = plan.request().capacity.tokens();
  if (!plan.engine_made() || plan.steps.live.back().last >= capacity) return {};
  const i64 most = plan.steps.live.back().last;
  MoeRequest enough = plan.request();
  enough.capacity.max_tokens = most;
  const auto layout = plan_moe(enough);
  MOEPLAN_CHECK(layout, "a smaller capacity of a plan cannot be planned");
  i64 bytes = 0;
  for (const TensorSpec& tensor : plan.layout.arena.tensors) {
    const bool counted = std::ranges::find(known, tensor.name, &UnusedBytes::tensor) != known.end();
    if (!counted) bytes += max_of(tensor.bytes - bytes_of(*layout, tensor.name), 0);
  }
  if (bytes == 0) return {};
  return {{"unscheduled_tokens", "", bytes,
           concat("planned for ", capacity, " tokens, no step brings more than ", most)}};
}

std::vector<UnusedStaging> unused_staging(const Deployment& deployment) {
  const auto settings = parse_exl3_settings(*deployment.engine);
  const auto runtimes = exl3_runtimes(deployment);
  MOEPLAN_CHECK(settings && runtimes, "a planned deployment has runtimes");
  if (exl3_steps(*settings, *deployment.engine).reaches_parity) return {};
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
