#include "planner/launch/launch_set.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace moeplan {
namespace {

PlanLaunches prepare(const SteppedPlan& stepped, i64 shared_memory) {
  PlanLaunches launches{.id = std::string(stepped.id)};
  auto plan = launch_plan(*stepped.request, *stepped.layout, shared_memory);
  if (!plan) {
    launches.failure = plan.error();
    return launches;
  }
  launches.plan = std::move(*plan);
  auto prewarmed = prewarmed_keys(*launches.plan);
  if (!prewarmed) {
    launches.failure = prewarmed.error();
    return launches;
  }
  launches.prewarmed = std::move(*prewarmed);
  auto runs = key_runs(*launches.plan, stepped.steps->live);
  if (!runs) {
    launches.failure = runs.error();
    return launches;
  }
  launches.runs = std::move(*runs);
  return launches;
}

void add_launches(WarmKeys& warm, const LaunchPlan& plan, std::span<const i64> tokens, const Warmth& warmth) {
  for (i64 count : tokens) {
    if (const auto key = launch_key(plan, count)) warm.add(*key, warmth);
  }
}

bool only_captured(const std::vector<KeyRun>& runs, i64 tokens) {
  const auto run = std::ranges::lower_bound(runs, tokens, {}, [](const KeyRun& r) { return r.tokens.last; });
  return run != runs.end() && run->tokens.contains(tokens) && run->warmth == Warmth{.captured = true};
}

}  // namespace

std::optional<Error> launch_failure(const SteppedPlan& plan, i64 shared_memory) {
  return prepare(plan, shared_memory).failure;
}

std::vector<PlanLaunches> launches_of(std::span<const SteppedPlan> plans, i64 shared_memory) {
  std::vector<PlanLaunches> all;
  WarmKeys warm;
  for (const SteppedPlan& stepped : plans) {
    all.push_back(prepare(stepped, shared_memory));
    const PlanLaunches& launches = all.back();
    if (launches.failure) continue;
    for (const LaunchKey& key : launches.prewarmed) warm.add(key, {.prewarmed = true});
    add_launches(warm, *launches.plan, stepped.steps->profiled, {.profiled = true});
    add_launches(warm, *launches.plan, stepped.steps->captured, {.captured = true});
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].failure) continue;
    mark_warm(*all[i].plan, all[i].runs, warm);
    for (i64 size : plans[i].steps->captured) {
      if (only_captured(all[i].runs, size)) all[i].warmed_by_capture_alone.push_back(size);
    }
  }
  return all;
}

LaunchTotals totals_of(std::span<const PlanLaunches> launches) {
  // By family: keys that differ in max_m_blocks alone.
  std::map<LaunchKey, std::set<i64>> families;
  LaunchTotals totals;
  for (const PlanLaunches& plan : launches) {
    totals.fails = totals.fails || (plan.failure && plan.is_modelled());
    totals.plans_not_modelled += plan.is_modelled() ? 0 : 1;
    if (plan.failure) continue;
    for (const KeyRun& run : plan.runs) {
      std::set<i64>& known = families[run.key.with_max_m_blocks(0)];
      for (i64 blocks : m_blocks_of(*plan.plan, run)) {
        if (!known.insert(blocks).second) continue;
        totals.keys += 1;
        // What is warm for one plan is warm for all.
        totals.cold_keys += run.warmth.cold() ? 1 : 0;
      }
    }
  }
  return totals;
}

}  // namespace moeplan
