// What moeplan validate runs, and how it judges what was measured: every check is seen to fail.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "planner/core/text.hpp"
#include "planner/moe/w4a16.hpp"
#include "runtime/validate/measurement.hpp"
#include "runtime/validate/routings.hpp"
#include "runtime/validate/shrink.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

// A launch of 2 tokens in a plan for 4 without any fault.
Measurement faultless() {
  Measurement m{.tokens = 2, .routing = "uniform", .block = 8};
  m.tensors = {
      {{.tensor = "intermediate_cache13", .planned_bytes = 400, .end_touched = 200, .touched_bytes = 200},
       200},
      {{.tensor = "fc1_c_tmp", .planned_bytes = 64}, 0},
      {{.tensor = "full_rotation_output", .planned_bytes = 80, .end_touched = 40, .touched_bytes = 40}, 40}};
  m.output = {.relative_l2 = 4e-4, .cosine = 0.9999999, .worst_row_l2 = 6e-4, .worst_row = 1};
  return m;
}

// The one check that fails.
std::string only_failure(const Measurement& m) {
  const Validation validation = judge(m);
  CHECK_FALSE(validation.passes());
  REQUIRE(validation.failures.size() == 1);
  return std::string(name_of(validation.failures[0].check));
}

MoeRequest glm_request(i64 tokens, i64 block) {
  MoeRequest request = trellis_request("sparkinfer-de04125", 256, 6144, 512, 8, tokens, 188);
  request.capacity.block_size_m = block;
  return request;
}

TrellisPlan plan_of(const MoeRequest& request) { return trellis_plan(request, *plan_moe(request)); }

std::map<i64, i64> counts_of(const Routes& routes) {
  std::map<i64, i64> counts;
  for (const int expert : routes.experts) ++counts[expert];
  return counts;
}

constexpr RoutingShape kShape{.top_k = 8, .route_experts = 256, .experts = 256, .block = 64};

}  // namespace

TEST_CASE("a launch without a fault passes") { CHECK(judge(faultless()).passes()); }

TEST_CASE("each fault fails its own check and no other") {
  const auto with = [](const auto& change) {
    Measurement m = faultless();
    change(m);
    return only_failure(m);
  };
  CHECK(with([](Measurement& m) {
          m.stray_writes = {{.tensor = "fc1_c_tmp", .side = Side::behind, .distance = 1, .bytes = 4}};
        }) == "guards");
  CHECK(with([](Measurement& m) { m.tensors[0].use.end_touched = 201; }) == "need");
  CHECK(with([](Measurement& m) { m.output.relative_l2 = 2.1e-3; }) == "oracle");
  CHECK(with([](Measurement& m) { m.output.worst_row_l2 = 2.1e-3; }) == "oracle");
  CHECK(with([](Measurement& m) { m.output.cosine = 0.9999; }) == "oracle");
  CHECK(with([](Measurement& m) { m.output.relative_l2 = NAN; }) == "oracle");
  CHECK(with([](Measurement& m) { m.output.cosine = NAN; }) == "oracle");
  CHECK(with([](Measurement& m) { m.output.non_finite = 1; }) == "finite");
  CHECK(with([](Measurement& m) { m.tensors[2].use.end_touched = 44; }) == "rows");
  CHECK(with([](Measurement& m) { m.masked_bytes = 2; }) == "rows");
  CHECK(with([](Measurement& m) { m.replay_differences = 1; }) == "poison");
  CHECK(with([](Measurement& m) { m.graph_differences = 1; }) == "graph");
  CHECK(with([](Measurement& m) { m.tensors[1].use.end_touched = 4; }) == "scratch");
  CHECK(with([](Measurement& m) { m.is_workspace_zero = false; }) == "workspace");
}

TEST_CASE("the output's error is over all of it and its worst row, and rows of nothing have to be zero") {
  const ComparedRow good{.squared_error = 1, .squared_value = 100, .squared_expected = 100, .product = 99.5};
  const ComparedRow bad{.squared_error = 4, .squared_value = 4, .squared_expected = 1, .product = 0.5};
  const OutputDifference one = output_difference({good, bad});
  CHECK(one.relative_l2 == std::sqrt(5.0 / 101));
  CHECK(one.worst_row_l2 == 2);
  CHECK(one.worst_row == 1);
  CHECK(std::abs(one.cosine - 100 / std::sqrt(104.0 * 101)) < 1e-12);

  const OutputDifference nothing = output_difference({ComparedRow{}});
  CHECK(nothing.relative_l2 == 0);
  CHECK(nothing.cosine == 1);
  const OutputDifference noise =
      output_difference({ComparedRow{.squared_error = 1e-9, .squared_value = 1e-9}});
  CHECK(std::isinf(noise.worst_row_l2));
  Measurement m = faultless();
  m.output = noise;
  CHECK(only_failure(m) == "oracle");

  OutputDifference worst = nothing;
  merge(worst, one);
  merge(worst, output_difference({ComparedRow{.non_finite = 3}}));
  CHECK(worst.worst_row_l2 == 2);
  CHECK(worst.non_finite == 3);
  CHECK(worst.cosine == one.cosine);
}

TEST_CASE("the high water of a plan is the most that any of its launches touched") {
  Measurement first = faultless(), second = faultless();
  second.tensors[0].use.end_touched = 300;
  second.tensors[2].use.end_touched = 20;
  const auto uses = high_water_of({first, second});
  REQUIRE(uses.size() == 3);
  CHECK(uses[0].end_touched == 300);
  CHECK(uses[1].end_touched == 0);
  CHECK(uses[2].end_touched == 40);
  CHECK(high_water_of({}).empty());
}

TEST_CASE("routings are what their names say, for few tokens and many") {
  for (const i64 tokens : {1, 2, 31, 64, 3072}) {
    INFO(tokens);
    const i64 count = tokens * kShape.top_k;
    for (const RoutingKind kind : kRoutingKinds) {
      const Routes routes = routes_of({tokens, kind, false}, kShape);
      INFO(routing_name({tokens, kind, false}));
      CHECK(std::ssize(routes.ids) == count);
      CHECK(std::ssize(routes.experts) == count);
      CHECK(std::ssize(routes.weights) == count);
      CHECK(std::ranges::all_of(routes.weights, [](float weight) { return weight > 0; }));
      CHECK(routes_of({tokens, kind, false}, kShape).ids == routes.ids);  // the same in every run
    }
    const Routes uniform = routes_of({tokens, RoutingKind::uniform, false}, kShape);
    for (i64 token = 0; token < tokens; ++token) {
      const auto first = uniform.experts.begin() + token * kShape.top_k;
      CHECK(std::set<int>(first, first + kShape.top_k).size() == 8);
    }
    CHECK(counts_of(routes_of({tokens, RoutingKind::all_to_one, false}, kShape)) ==
          std::map<i64, i64>{{255, count}});

    const auto even = counts_of(routes_of({tokens, RoutingKind::one_an_expert, false}, kShape));
    CHECK(std::ssize(even) == min_of(count, 256));
    for (const auto& [expert, routes] : even)
      CHECK((routes == count / 256 || routes == ceil_div(count, 256)));

    const auto padded = counts_of(routes_of({tokens, RoutingKind::most_padding, false}, kShape));
    CHECK(std::ssize(padded) == min_of(count, 256));
    // All but the one that takes what is left over.
    CHECK(std::ranges::count_if(padded, [](const auto& of) { return of.second % 64 != 1; }) <= 1);

    const auto all = counts_of(routes_of({tokens, RoutingKind::all_invalid, false}, kShape));
    CHECK(all == std::map<i64, i64>{{-1, count}});
  }
  const Routes invalid = routes_of({64, RoutingKind::invalid, false}, kShape);
  CHECK(counts_of(invalid).at(-1) > 128);
  CHECK(std::ranges::all_of(invalid.experts.begin() + 24, invalid.experts.begin() + 32,
                            [](int expert) { return expert == -1; }));
  auto zipf = counts_of(routes_of({3072, RoutingKind::zipf, false}, kShape));
  const auto most = std::ranges::max_element(zipf, {}, [](const auto& of) { return of.second; });
  CHECK(most->second > 24576 / 10);
}

TEST_CASE("with an expert map some routes reach experts in another order and some reach none") {
  const RoutingShape shape{.top_k = 4, .route_experts = 16, .experts = 5, .block = 8};
  const Routes uniform = routes_of({40, RoutingKind::uniform, true}, shape);
  REQUIRE(uniform.map.size() == 16);
  for (std::size_t i = 0; i < uniform.ids.size(); ++i) {
    CHECK(uniform.experts[i] == uniform.map[static_cast<std::size_t>(uniform.ids[i])]);
    CHECK(uniform.experts[i] >= 0);
    CHECK(uniform.experts[i] < 5);
  }
  const Routes invalid = routes_of({40, RoutingKind::invalid, true}, shape);
  bool has_unmapped = false;
  for (std::size_t i = 0; i < invalid.ids.size(); ++i)
    has_unmapped = has_unmapped || (invalid.ids[i] >= 0 && invalid.ids[i] < 16 && invalid.experts[i] == -1);
  CHECK(has_unmapped);
}

TEST_CASE("live counts are both sides of every bucket and block, and the ends of the plan") {
  const TrellisPlan decode = plan_of(glm_request(64, 8));
  CHECK(live_counts(decode.runtime(false)) == std::vector<i64>{1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 63, 64});
  MoeRequest unpinned = glm_request(3072, 64);
  unpinned.capacity.block_size_m.reset();
  const auto counts = live_counts(plan_of(unpinned).runtime(false));
  for (const i64 block : kBlockSizes) {
    const i64 last = last_tokens_of_block(block, 8, 256);
    INFO(block);
    CHECK(std::ranges::find(counts, last) != counts.end());
    CHECK(std::ranges::find(counts, last + 1) != counts.end());
  }
  CHECK(counts.back() == 3072);
  CHECK(live_counts(plan_of(glm_request(1, 8)).runtime(false)) == std::vector<i64>{1});
}

TEST_CASE("every routing runs at the ends, and a limit of work leaves the largest launches out but one") {
  const TrellisPlan plan = plan_of(glm_request(3072, 64));
  const TestLaunches all = launches_to_validate(plan, true, false);
  CHECK(all.left_out == 0);
  const TestLaunches few = launches_to_validate(plan, true, false, 1e12);
  CHECK(few.left_out > 0);
  CHECK(std::ssize(all.launches) == std::ssize(few.launches) + few.left_out);
  const TestLaunches one = launches_to_validate(plan, true, false, 0);
  CHECK(one.launches == std::vector<TestLaunch>{{3072, RoutingKind::uniform, false}});
  for (const RoutingKind kind : kRoutingKinds) {
    for (const i64 tokens : {1, 2, 3071, 3072})
      CHECK(std::ranges::find(all.launches, TestLaunch{tokens, kind, false}) != all.launches.end());
  }
  for (const i64 tokens : live_counts(plan.runtime(false)))
    CHECK(std::ranges::find(all.launches, TestLaunch{tokens, RoutingKind::uniform, false}) !=
          all.launches.end());
  const auto mapped = launches_to_validate(plan_of(glm_request(8, 8)), true, true).launches;
  CHECK(std::ranges::count(mapped, true, &TestLaunch::has_map) * 2 == std::ssize(mapped));
}

TEST_CASE("a shrunk tensor ends one element earlier, with a guard directly behind it") {
  const MoeLayout layout = *plan_moe(glm_request(64, 8));
  for (const TensorSpec& spec : layout.arena.tensors) {
    const Placement placement = place_shrunk(layout, spec.name);
    const PlacedTensor& tensor =
        placement.tensors[static_cast<std::size_t>(find_tensor(placement, spec.name))];
    CHECK(tensor.bytes == spec.bytes - item_bytes(spec.dtype));
    CHECK(tensor.guarded_behind >= kGuardBytes);
  }
}

TEST_CASE(
    "a shrink is caught by a guard alone, missed without a hit, and not observable where nothing ends") {
  const MoeLayout layout = *plan_moe(glm_request(64, 8));
  bool has_hits = true;
  // A launch that touches all of every tensor but the last byte of cache2, whatever lies behind.
  const MeasureIn measure = [&](const Placement& placement) -> Result<std::vector<Measurement>> {
    Measurement m;
    for (const PlacedTensor& tensor : placement.tensors) {
      const TensorSpec& spec = *test::find_tensor(layout, tensor.name);
      const i64 end = spec.bytes - (tensor.name == "intermediate_cache2" ? 1 : 0);
      m.tensors.push_back({{.tensor = std::string(tensor.name),
                            .planned_bytes = tensor.bytes,
                            .end_touched = min_of(end, tensor.bytes)}});
      if (end > tensor.bytes && has_hits)
        m.stray_writes.push_back(
            {.tensor = std::string(tensor.name), .side = Side::behind, .distance = 1, .bytes = 2});
    }
    return std::vector<Measurement>{m};
  };
  const auto caught = shrink_tensors(layout, "", measure);
  REQUIRE(caught);
  CHECK(caught->size() == layout.arena.tensors.size());
  for (const Shrink& shrink : *caught) {
    INFO(shrink.tensor);
    const bool is_observable = shrink.tensor != "intermediate_cache2";
    CHECK(shrink.outcome == (is_observable ? ShrinkOutcome::caught : ShrinkOutcome::not_observable));
    CHECK(shrink.how.starts_with(is_observable ? "caught by a guard: " : kNotObservable));
  }
  has_hits = false;
  const auto missed = shrink_tensors(layout, "rotation_a_up", measure);
  REQUIRE(missed);
  REQUIRE(missed->size() == 1);
  CHECK(missed->front().outcome == ShrinkOutcome::missed);

  const auto failing = shrink_tensors(layout, "", [](const Placement&) -> Result<std::vector<Measurement>> {
    return Error{ErrorCode::cuda_failure, "", "no memory", ""};
  });
  CHECK_FALSE(failing);
}

TEST_CASE("the small plan of a deployment has its contract, bits, type and block, and kernels") {
  for (const char* contract : kContractIds) {
    MoeRequest request = trellis_request(contract, 256, 6144, 512, 8, 3072, 188);
    request.capacity.block_size_m = 64;
    request.weights.trellis_bits = 4;
    const MoeRequest small = small_request(request);
    const auto layout = plan_moe(small);
    REQUIRE(layout);
    CHECK(missing_trellis_kernels(small, *layout).empty());
    const TrellisPlan plan = trellis_plan(small, *layout);
    CHECK(plan.bits == 4);
    CHECK(plan.multiprocessors == 188);
    CHECK(layout->route_block_size_m == 64);
    CHECK(trellis_variants(plan) == trellis_variants(plan_of(request)));
  }
}
