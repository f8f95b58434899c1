#include "planner/deployment/deployed_plans.hpp"

#include "planner/core/text.hpp"
#include "planner/deployment/exl3.hpp"
#include "planner/deployment/exl3_runtime.hpp"
#include "planner/deployment/exl3_steps.hpp"
#include "planner/moe/plan_moe.hpp"

namespace moeplan {
namespace {

// The prefill plans of a serial mixed runtime: one a tier, run one after the other in one arena.
std::vector<DeploymentRequest> tier_requests(const Deployment& d, const Exl3Settings& settings) {
  std::vector<DeploymentRequest> requests;
  if (d.quant->tiers.empty() || d.quant->mixed_form != MixedForm::serial || !settings.prefill_enabled)
    return requests;
  for (const QuantTier& tier : d.quant->tiers) {
    PlanRequest request = exl3_tier_request(d, settings, tier);
    request.id = concat("tier ", tier.bits, " prefill");
    requests.push_back({std::move(request), -1});
  }
  return requests;
}

// Only a tier's router knows more experts than its weights hold.
bool is_tier(const DeploymentRequest& origin) {
  return origin.stated_index < 0 && origin.request.moe.capacity.route_experts.value_or(0) > 0;
}

}  // namespace

bool DeployedPlan::may_have(ExpertMap map) const {
  if (!engine_made()) return moeplan::may_have(request(), map);
  return map == (is_tier(origin) ? ExpertMap::present : ExpertMap::absent);
}

Result<std::vector<DeployedPlan>> deployed_plans(const Deployment& deployment) {
  auto requests = plan_requests(deployment);
  if (!requests) return requests.error();
  return deployed_plans(deployment, std::move(*requests));
}

Result<std::vector<DeployedPlan>> deployed_plans(const Deployment& deployment,
                                                 std::vector<DeploymentRequest> requests) {
  Exl3Steps engine_steps;
  if (deployment.engine && is_exl3(deployment)) {
    const auto settings = read_exl3_settings(*deployment.engine);
    if (!settings) return settings.error();
    engine_steps = exl3_steps(*settings, *deployment.engine);
    const auto tiers = tier_requests(deployment, *settings);
    requests.insert(requests.begin(), tiers.begin(), tiers.end());
  }
  std::vector<DeployedPlan> plans;
  for (DeploymentRequest& origin : requests) {
    if (!is_moe(origin.request.kind)) continue;
    auto layout = plan_moe(origin.request.moe);
    if (!layout) return located(origin, layout.error());
    PlanSteps steps{.live = {{1, origin.request.moe.capacity.tokens()}}};
    if (origin.stated_index < 0)
      steps = is_exl3_decode(origin.request.id) ? engine_steps.decode : engine_steps.prefill;
    std::string arena = origin.request.id;
    if (is_tier(origin)) arena = kMixedPrefillArena;
    plans.push_back({std::move(origin), std::move(*layout), std::move(steps), std::move(arena)});
  }
  return plans;
}

std::vector<SteppedPlan> stepped(const std::vector<DeployedPlan>& plans) {
  std::vector<SteppedPlan> views;
  for (const DeployedPlan& plan : plans)
    views.push_back({plan.id(), &plan.request(), &plan.layout, &plan.steps});
  return views;
}

}  // namespace moeplan
