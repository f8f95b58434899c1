#include "planner/launch/launch_set.hpp"

#include <algorithm>

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

struct WarmKey {
  LaunchKey key;
  Warmth warmth;
};

void add_warm(std::vector<WarmKey>& keys, const LaunchKey& key, const Warmth& warmth) {
  const auto known = std::ranges::find_if(
      keys, [&](const WarmKey& other) { return other.key == key && other.warmth == warmth; });
  if (known == keys.end()) keys.push_back({key, warmth});
}

void add_warm_launches(std::vector<WarmKey>& keys, const LaunchPlan& plan, std::span<const i64> tokens,
                       const Warmth& warmth) {
  for (i64 count : tokens) {
    const auto key = launch_key(plan, count);
    if (key) add_warm(keys, *key, warmth);
  }
}

bool only_captured(const std::vector<KeyRun>& runs, i64 tokens) {
  return std::ranges::any_of(runs, [&](const KeyRun& run) {
    return run.tokens.contains(tokens) && run.warmth == Warmth{.captured = true};
  });
}

}  // namespace

std::vector<PlanLaunches> launches_of(std::span<const SteppedPlan> plans, i64 shared_memory) {
  std::vector<PlanLaunches> all;
  std::vector<WarmKey> warm;
  for (const SteppedPlan& stepped : plans) {
    all.push_back(prepare(stepped, shared_memory));
    const PlanLaunches& launches = all.back();
    if (launches.failure) continue;
    for (const LaunchKey& key : launches.prewarmed) add_warm(warm, key, {.prewarmed = true});
    add_warm_launches(warm, *launches.plan, stepped.steps->profiled, {.profiled = true});
    add_warm_launches(warm, *launches.plan, stepped.steps->captured, {.captured = true});
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].failure) continue;
    for (const WarmKey& key : warm) mark_warm(*all[i].plan, all[i].runs, key.key, key.warmth);
    for (i64 size : plans[i].steps->captured) {
      if (only_captured(all[i].runs, size)) all[i].warmed_by_capture_alone.push_back(size);
    }
  }
  return all;
}

}  // namespace moeplan
