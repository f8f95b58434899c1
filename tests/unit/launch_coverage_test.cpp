// Runs of launch keys against looking at every live token count, and what warms them.
#include <algorithm>

#include "planner/launch/launch_set.hpp"
#include "planner/moe/geometry.hpp"
#include "tests/catch.hpp"
#include "tests/random.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

struct Planned {
  MoeRequest request;
  MoeLayout layout;
};

Planned planned_of(i64 experts, i64 hidden, i64 intermediate, i64 top_k, i64 capacity, i64 block, i64 sms) {
  Planned planned{trellis_request("sparkinfer-de04125", experts, hidden, intermediate, top_k, capacity, sms),
                  {}};
  planned.request.capacity.block_size_m = block;
  planned.request.weights.trellis_tile_config = {64, 128, 64, 128};
  const auto layout = plan_moe(planned.request);
  REQUIRE(layout);
  planned.layout = *layout;
  return planned;
}

LaunchPlan launch_plan_of(const Planned& planned, i64 shared_memory = 101'376) {
  const auto plan = launch_plan(planned.request, planned.layout, shared_memory);
  REQUIRE(plan);
  return *plan;
}

Planned random_planned(Random& random) {
  return planned_of(random.of({1, 2, 8, 60, 128, 160, 256, 384}), 128 * random.in(1, 48),
                    128 * random.in(1, 16), random.in(1, 24), random.in(1, 700), kBlockSizes[random.in(0, 4)],
                    random.of({1, 24, 108, 132, 188, 512}));
}

}  // namespace

TEST_CASE("runs hold every live token count once, each with the key of its first count but for its blocks") {
  Random random;
  for (int i = 0; i < 400; ++i) {
    const Planned planned = random_planned(random);
    const LaunchPlan plan = launch_plan_of(planned, random.of({101'376, 166'912, 232'448}));
    const i64 split = random.in(0, plan.capacity), resumed = split + random.in(1, 40);
    std::vector<LiveRange> live{{1, split}};
    if (resumed <= plan.capacity) live.push_back({resumed, plan.capacity});
    live = united(live);

    const auto runs = key_runs(plan, live);
    REQUIRE(runs);
    std::vector<LaunchKey> distinct;
    i64 tokens = 0;
    for (const KeyRun& run : *runs) {
      i64 before = 0;
      for (i64 m = run.tokens.first; m <= run.tokens.last; ++m, ++tokens) {
        if (!contains(live, m)) FAIL("m=" << m << " is not live");
        const auto key = launch_key(plan, m);
        REQUIRE(key);
        if (*key != run.key.with_max_m_blocks(key->max_m_blocks())) FAIL("m=" << m << " of plan " << i);
        if (key->max_m_blocks() < before) FAIL("blocks fall at m=" << m);
        before = key->max_m_blocks();
        if (std::ranges::find(distinct, *key) == distinct.end()) distinct.push_back(*key);
      }
      if (before != run.last_m_blocks) FAIL("last blocks of plan " << i);
    }
    CHECK(tokens == count_of(live));
    CHECK(coverage_of(*runs).keys == static_cast<i64>(distinct.size()));
    CHECK(coverage_of(*runs).cold_keys == static_cast<i64>(distinct.size()));
  }
}

TEST_CASE("warm keys are marked at exactly the token counts that probe them") {
  Random random;
  int launched = 0;
  for (int i = 0; i < 300; ++i) {
    const Planned planned = random_planned(random);
    const LaunchPlan plan = launch_plan_of(planned);
    PlanSteps steps{.live = {{1, plan.capacity}}};
    for (int j = 0; j < 3; ++j) steps.profiled.push_back(random.in(1, plan.capacity));
    for (int j = 0; j < 4; ++j) steps.captured.push_back(random.in(1, plan.capacity));
    const SteppedPlan stepped{"p", &planned.request, &planned.layout, &steps};
    const auto launches = launches_of({&stepped, 1}, 101'376);
    if (launches[0].failure) continue;
    ++launched;

    const auto probes = [&](const std::vector<i64>& counts, const LaunchKey& key) {
      return std::ranges::any_of(counts, [&](i64 m) { return *launch_key(plan, m) == key; });
    };
    i64 tokens = 0, cold = 0;
    std::vector<LaunchKey> cold_keys;
    for (const KeyRun& run : launches[0].runs) {
      for (i64 m = run.tokens.first; m <= run.tokens.last; ++m, ++tokens) {
        const LaunchKey key = *launch_key(plan, m);
        const Warmth expected{
            .prewarmed = std::ranges::find(launches[0].prewarmed, key) != launches[0].prewarmed.end(),
            .profiled = probes(steps.profiled, key),
            .captured = probes(steps.captured, key)};
        if (run.warmth != expected) FAIL("plan " << i << " at m=" << m);
        cold += expected.cold() ? 1 : 0;
        if (expected.cold() && std::ranges::find(cold_keys, key) == cold_keys.end()) cold_keys.push_back(key);
      }
    }
    CHECK(tokens == plan.capacity);
    const Coverage coverage = coverage_of(launches[0].runs);
    CHECK(coverage.cold_tokens == cold);
    CHECK(coverage.cold_keys == static_cast<i64>(cold_keys.size()));
  }
  CHECK(launched > 200);
}

TEST_CASE("a kernel that one plan of a process compiles is warm for another that probes it") {
  const Planned small = planned_of(64, 256, 256, 8, 64, 8, 188),
                large = planned_of(64, 256, 256, 8, 128, 8, 188);
  const PlanSteps quiet{.live = {{1, 64}}}, profiled{.live = {{1, 128}}, .profiled = {64}};
  const SteppedPlan plans[] = {{"quiet", &small.request, &small.layout, &quiet},
                               {"profiled", &large.request, &large.layout, &profiled}};
  const auto alone = launches_of({plans, 1}, 101'376), both = launches_of(plans, 101'376);
  REQUIRE_FALSE(both[0].failure);
  CHECK(alone[0].runs.back().warmth.profiled == false);
  CHECK(both[0].runs.back().warmth.profiled);
  CHECK(coverage_of(both[0].runs).cold_keys == coverage_of(alone[0].runs).cold_keys - 1);
}

TEST_CASE("totals over plans count each key once, whatever plans share") {
  Random random;
  for (int i = 0; i < 60; ++i) {
    const Planned first = random_planned(random);
    Planned second = first;
    second =
        planned_of(first.request.weights.experts, first.request.weights.hidden_size,
                   first.request.weights.intermediate_size, first.request.capacity.top_k, random.in(1, 500),
                   *first.request.capacity.block_size_m, *first.request.device.sm_count);
    const PlanSteps a{.live = {{1, first.request.capacity.max_tokens}}, .profiled = {1}};
    const PlanSteps b{.live = {{1, second.request.capacity.max_tokens}}};
    const SteppedPlan plans[] = {{"a", &first.request, &first.layout, &a},
                                 {"b", &second.request, &second.layout, &b}};
    const auto launches = launches_of(plans, 101'376);
    std::vector<LaunchKey> distinct, cold;
    for (const PlanLaunches& plan : launches) {
      for (const KeyRun& run : plan.runs) {
        for (i64 m = run.tokens.first; m <= run.tokens.last; ++m) {
          const LaunchKey key = *launch_key(*plan.plan, m);
          if (std::ranges::find(distinct, key) != distinct.end()) continue;
          distinct.push_back(key);
          if (run.warmth.cold()) cold.push_back(key);
        }
      }
    }
    const LaunchTotals totals = totals_of(launches);
    CHECK(totals.keys == static_cast<i64>(distinct.size()));
    CHECK(totals.cold_keys == static_cast<i64>(cold.size()));
  }
}

TEST_CASE("parts with more shared memory select other tiles than the pin at block 64") {
  const Planned planned = planned_of(256, 6144, 512, 8, 3072, 64, 132);
  const auto sm_120 = launch_key(launch_plan_of(planned, 101'376), 700);
  const auto h200 = launch_key(launch_plan_of(planned, 232'448), 700);
  CHECK(sm_120->fc1.tile == Tile{64, 256, 256});
  CHECK(sm_120->blocks_per_sm == 1);
  CHECK(h200->fc1.tile == Tile{64, 128, 128});
  CHECK(h200->blocks_per_sm == 2);
  CHECK(launch_key(launch_plan_of(planned, 166'912), 700)->fc1.tile == Tile{64, 128, 128});
}

TEST_CASE("at block 32 a single token of GLM-5.2 has one block a multiprocessor, more tokens two") {
  const LaunchPlan sm_120 = launch_plan_of(planned_of(256, 6144, 512, 8, 64, 32, 188), 101'376);
  CHECK(launch_key(sm_120, 1)->blocks_per_sm == 1);
  CHECK(launch_key(sm_120, 1)->fc1.tile == Tile{64, 128, 128});
  CHECK(launch_key(sm_120, 2)->blocks_per_sm == 2);
  const LaunchPlan h100 = launch_plan_of(planned_of(256, 6144, 512, 8, 64, 32, 132), 232'448);
  CHECK(launch_key(h100, 1)->fc1.tile == Tile{128, 64, 128});
  CHECK(launch_key(h100, 1)->blocks_per_sm == 2);
  const LaunchPlan a100 = launch_plan_of(planned_of(256, 6144, 512, 8, 64, 32, 108), 166'912);
  CHECK(launch_key(a100, 1)->fc1.tile == launch_key(a100, 2)->fc1.tile);
}

TEST_CASE("planning fails at block 16 with the 256-wide pin, and for pins that do not fit") {
  const auto failure = [](i64 block, i64 hidden, i64 intermediate, std::vector<i64> pin) {
    Planned planned = planned_of(64, hidden, intermediate, 8, 64, block, 188);
    planned.request.weights.trellis_tile_config = std::move(pin);
    const auto keys = prewarmed_keys(launch_plan_of(planned));
    return keys ? std::string() : keys.error().message;
  };
  const std::vector<i64> wide{64, 256, 64, 256}, narrow{64, 128, 64, 128};
  CHECK(failure(16, 6144, 512, wide).find("no register count") != std::string::npos);
  for (i64 block : {8, 32, 48, 64}) CHECK(failure(block, 6144, 512, wide).empty());
  for (i64 block : {8, 16, 32, 48, 64}) CHECK(failure(block, 6144, 512, narrow).empty());
  for (i64 intermediate : {128, 384}) CHECK_FALSE(failure(64, 1024, intermediate, wide).empty());
  for (i64 hidden : {128, 640}) CHECK_FALSE(failure(64, hidden, 512, wide).empty());
  for (i64 multiple : {256, 512, 1024}) CHECK(failure(64, multiple, multiple, wide).empty());
  CHECK(failure(64, 1024, 512, {64, 256, 64, 128}).find("thread counts") != std::string::npos);
}

TEST_CASE("launch keys of what is not modelled are refused, not guessed") {
  const auto code = [](MoeRequest request) {
    const auto layout = plan_moe(request);
    REQUIRE(layout);
    const auto plan = launch_plan(request, *layout, 101'376);
    REQUIRE_FALSE(plan);
    return plan.error().code;
  };
  CHECK(code(packed_request("sparkinfer-de04125", 8, 256, 256, 2, 16, 188)) ==
        ErrorCode::launch_not_modelled);
  MoeRequest trellis = trellis_request("sparkinfer-de04125", 8, 256, 256, 2, 16, 188);
  CHECK(code(trellis) == ErrorCode::launch_needs_block_size);
  trellis.capacity.block_size_m = 8;
  trellis.weights.activation = Activation::situ;
  CHECK(code(trellis) == ErrorCode::launch_not_modelled);
}

TEST_CASE("a device without room for any tile refuses the launch") {
  const Planned planned = planned_of(64, 1024, 512, 8, 64, 64, 188);
  const auto key = launch_key(launch_plan_of(planned, 16'384), 10);
  REQUIRE_FALSE(key);
  CHECK(key.error().code == ErrorCode::launch_tiles);
}
