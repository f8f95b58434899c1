// Rules about kernels: whether they fit the device, and when they are compiled.
#include "planner/core/text.hpp"
#include "planner/deployment/launch_findings.hpp"
#include "planner/policy/rule_checks.hpp"

namespace moeplan {
namespace {

const DeployedPlan& plan_of(const RuleCase& c, const PlanLaunches& launches) {
  return c.subject.plans[static_cast<std::size_t>(&launches - c.subject.launches.data())];
}

}  // namespace

void check_launches(const RuleCase& c) {
  for (const PlanLaunches& launches : c.subject.launches) {
    if (!launches.failure || launches.failure->code != ErrorCode::launch_tiles) continue;
    c.out.push_back({plan_of(c, launches).origin.config_pointer(launches.failure->pointer),
                     concat(plan_name(launches.id), ": ", launches.failure->message),
                     launches.failure->help});
  }
}

void check_coverage(const RuleCase& c) {
  for (const PlanLaunches& launches : c.subject.launches) {
    if (launches.failure) continue;
    const Coverage coverage = coverage_of(launches.runs);
    const i64 warm = coverage.tokens - coverage.cold_tokens;
    if (warm * 1'000'000 >= c.limits.min_coverage.value_or(1'000'000) * coverage.tokens) continue;
    c.out.push_back({plan_of(c, launches).origin.config_pointer("/capacity/max_tokens"),
                     concat(plan_name(launches.id), ": ", grouped(warm), " of ", grouped(coverage.tokens),
                            " live token counts have their kernel compiled before serving; ",
                            coverage.cold_keys, " of ", coverage.keys, " kernels compile at first use"),
                     ""});
  }
}

void check_capture(const RuleCase& c) {
  for (const PlanLaunches& launches : c.subject.launches) {
    if (launches.warmed_by_capture_alone.empty() ||
        launches.plan->contract->capture_miss == CaptureMiss::raises)
      continue;
    c.out.push_back(
        {"/deployment/cudagraph_capture_sizes",
         concat(plan_name(launches.id), ": graphs of ", join(launches.warmed_by_capture_alone, ", "),
                " rows would compile inside their capture without the warm-up before it"),
         ""});
  }
}

void check_new_cold_keys(const RuleCase& c) {
  const Difference* difference = c.subject.difference;
  if (!difference) return;
  // Plan by plan: kernels that one plan loses do not pay for those that another one adds.
  std::vector<std::string> grown;
  i64 more = max_of(growth_of(difference->cold_keys), 0);
  if (!difference->cold_keys.before || !difference->cold_keys.after) return;
  for (const ArenaChange& arena : difference->arenas) {
    const i64 added = growth_of(arena.cold_keys);
    if (added <= 0 || !arena.cold_keys.after) continue;
    grown.push_back(
        concat(plan_name(arena.id), " ", arena.cold_keys.before.value_or(0), " -> ", *arena.cold_keys.after));
    more = max_of(more, added);
  }
  if (more <= c.limits.max_new_cold_keys.value_or(0)) return;
  c.out.push_back({changed_field(*difference, scratch_field(c)),
                   concat(more, " more kernels compile mid-serve than in the baseline (", join(grown, ", "),
                          "; all ", *difference->cold_keys.before, " -> ", *difference->cold_keys.after,
                          "); changed: ", changes_text(*difference)),
                   ""});
}

}  // namespace moeplan
