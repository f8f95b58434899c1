#include "planner/deployment/launch_choices.hpp"

#include <algorithm>

#include "planner/deployment/exl3_settings.hpp"
#include "planner/deployment/fit.hpp"

namespace moeplan {
namespace {

Result<LaunchChoice> choice_of(const Deployment& deployment, i64 shared_memory) {
  const auto settings = read_exl3_settings(*deployment.engine);
  if (!settings) return settings.error();
  const auto plans = deployed_plans(deployment);
  if (!plans) return plans.error();
  const auto scratch = scratch_bytes_of(deployment);
  if (!scratch) return scratch.error();
  const i64 scheduled = deployment.engine->max_num_batched_tokens;
  return LaunchChoice{.scheduled = scheduled,
                      .capacity = settings->prefill_tokens,
                      .launches = prefill_slices(scheduled, settings->prefill_tokens).launches,
                      .totals = totals_of(launches_of(stepped(*plans), shared_memory)),
                      .scratch_bytes = *scratch};
}

bool dominates(const LaunchChoice& a, const LaunchChoice& b) {
  const bool as_good = a.totals.cold_keys <= b.totals.cold_keys && a.launches <= b.launches &&
                       a.scratch_bytes <= b.scratch_bytes;
  const bool better =
      a.totals.cold_keys < b.totals.cold_keys || a.launches < b.launches || a.scratch_bytes < b.scratch_bytes;
  return as_good && better;
}

bool has_prefill_plan(const Deployment& deployment) {
  const auto settings = read_exl3_settings(*deployment.engine);
  return settings && settings->prefill_enabled;
}

}  // namespace

Result<std::vector<LaunchChoice>> launch_capacity_choices(const Deployment& deployment, i64 shared_memory) {
  std::vector<LaunchChoice> choices;
  if (!has_prefill_plan(deployment)) return choices;
  const i64 configured = read_exl3_settings(*deployment.engine)->prefill_tokens;
  for (i64 capacity : usual_capacities(configured, deployment.engine->max_num_batched_tokens)) {
    auto choice = choice_of(with_prefill_capacity(deployment, capacity), shared_memory);
    if (!choice) return choice.error();
    choice->configured = capacity == configured;
    choices.push_back(*choice);
  }
  for (LaunchChoice& choice : choices)
    choice.on_front =
        std::ranges::none_of(choices, [&](const LaunchChoice& other) { return dominates(other, choice); });
  return choices;
}

Result<std::vector<LaunchChoice>> launch_scheduler_choices(const Deployment& deployment, i64 shared_memory) {
  std::vector<LaunchChoice> choices;
  const i64 scheduled = deployment.engine->max_num_batched_tokens, above = pow2_ceil(scheduled);
  if (!has_prefill_plan(deployment) || above == scheduled) return choices;
  for (i64 tokens : {above / 2, above}) {
    Deployment other = with_prefill_capacity(deployment, tokens);
    other.engine->max_num_batched_tokens = tokens;
    if (!has_prefill_plan(other)) continue;
    auto choice = choice_of(other, shared_memory);
    if (!choice) return choice.error();
    choices.push_back(*choice);
  }
  return choices;
}

}  // namespace moeplan
