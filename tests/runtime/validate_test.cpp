// What moeplan validate runs, and how it judges what was measured: every check is seen to fail.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "planner/core/text.hpp"
#include "planner/moe/w4a16.hpp"
#include "runtime/validate/measurement.hpp"
#include "runtime/validate/room.hpp"
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

// The same of a packed plan, of bf16: split-K scratch has its use, and the caller brings the output.
Measurement faultless_packed() {
  Measurement m = faultless();
  m.tolerance = kBfloat16Tolerance;
  m.tensors[1] = {{.tensor = "fc1_c_tmp", .planned_bytes = 64, .end_touched = 32, .touched_bytes = 16}, 32};
  m.tensors.pop_back();
  m.caller_tensors = {{{.tensor = "output", .planned_bytes = 80, .end_touched = 40}, 40},
                      {{.tensor = "kernel_workspace", .planned_bytes = 24, .end_touched = 24}, 24}};
  m.output = {.relative_l2 = 4e-3, .cosine = 0.99999, .worst_row_l2 = 6e-3, .worst_row = 1};
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

MoeRequest packed_moe(i64 experts, i64 tokens, i64 block) {
  MoeRequest request = packed_request("sparkinfer-c2f135c", experts, 512, 192, 2, tokens, 188);
  request.capacity.block_size_m = block;
  return request;
}

KernelPlan kernels_of(const MoeRequest& request) { return kernel_plan(request, *plan_moe(request)); }

TEST_CASE("a launch without a fault passes") {
  CHECK(judge(faultless()).passes());
  CHECK(judge(faultless_packed()).passes());
}

TEST_CASE("each fault of a packed launch fails its own check and no other, at the bar of its type") {
  const auto with = [](const auto& change) {
    Measurement m = faultless_packed();
    change(m);
    return only_failure(m);
  };
  CHECK(with([](Measurement& m) { m.output.relative_l2 = 8.1e-3; }) == "oracle");
  CHECK(with([](Measurement& m) { m.output.worst_row_l2 = 8.1e-3; }) == "oracle");
  CHECK(with([](Measurement& m) { m.output.cosine = 0.99989; }) == "oracle");
  CHECK(with([](Measurement& m) { m.tolerance = kHalfTolerance; }) == "oracle");
  CHECK(with([](Measurement& m) { m.tensors[1].use.end_touched = 36; }) == "scratch");
  CHECK(with([](Measurement& m) { m.tensors[0].use.end_touched = 201; }) == "need");
  CHECK(with([](Measurement& m) { m.caller_tensors[0].use.end_touched = 41; }) == "rows");
  CHECK(with([](Measurement& m) { m.is_workspace_zero = false; }) == "workspace");
  CHECK(with([](Measurement& m) {
          m.caller_tensors[0].use = {m.caller_tensors[0].use.tensor, 40};
        }) == "oracle");
}

TEST_CASE("the bar of a plan is its weights' and its type's") {
  MoeRequest packed = packed_moe(8, 16, 8);
  CHECK(tolerance_of(kernels_of(packed)).largest_l2 == 8e-3);
  CHECK(tolerance_of(kernels_of(packed)).least_cosine == 0.9999);
  packed.weights.io_dtype = DType::float16;
  CHECK(tolerance_of(kernels_of(packed)).largest_l2 == 2e-3);
  MoeRequest trellis = glm_request(64, 8);
  trellis.weights.io_dtype = DType::bfloat16;
  CHECK(tolerance_of(kernels_of(trellis)).largest_l2 == 2e-3);
  CHECK(tolerance_of(kernels_of(trellis)).least_cosine == 0.99999);
}

TEST_CASE(
    "no launch needs more than its plan has, and a tensor that lacks a byte of that is refused by name") {
  int refused = 0, with_scratch = 0;
  for (const MoeRequest& request :
       {packed_moe(8, 40, 8), packed_moe(16, 16, 64), packed_moe(64, 32, 16), glm_request(64, 8)}) {
    const MoeLayout layout = *plan_moe(request);
    const KernelPlan plan = kernels_of(request);
    for (i64 tokens = 1; tokens <= fused_plan(plan).capacity; ++tokens) {
      const std::vector<TestLaunch> launches = {{tokens, RoutingKind::uniform, false}};
      CHECK(check_rooms(plan, place_shrunk(layout, ""), launches));
      const CoreElements need = kernel_need(plan, tokens, false);
      CHECK(fits(need, fused_plan(plan).planned));
      CoreElements less = need;
      --*std::ranges::max_element(less);
      CHECK_FALSE(fits(need, less));
      for (const TensorSpec& spec : layout.arena.tensors) {
        const Status fits = check_rooms(plan, place_shrunk(layout, spec.name), launches);
        const bool is_full = spec.offset != kOutsideArena && need_bytes(need, spec.name) == spec.bytes;
        INFO(concat(tokens, " tokens, ", spec.name));
        CHECK(static_cast<bool>(fits) == !is_full);
        if (fits) continue;
        CHECK(fits.error().code == ErrorCode::scratch_too_small);
        CHECK(fits.error().message == concat(spec.name, ": a launch of ", tokens,
                                             tokens == 1 ? " token" : " tokens", " writes ",
                                             grouped(spec.bytes), " bytes, and there is room for ",
                                             grouped(spec.bytes - item_bytes(spec.dtype))));
        ++refused;
        with_scratch += spec.name == "fc1_c_tmp" || spec.name == "fc2_c_tmp";
      }
    }
  }
  CHECK(refused > 20);
  CHECK(with_scratch > 2);
}

TEST_CASE(
    "kernels that take few tokens' routes directly need no packed routes, and Trellis kernels no scratch") {
  const KernelPlan plan = kernels_of(packed_moe(8, 40, 8));
  const CoreElements direct = kernel_need(plan, 8, false), packed = kernel_need(plan, 9, false);
  CHECK(element(direct, CoreTensor::packed_route_indices) == 0);
  CHECK(element(direct, CoreTensor::expert_offsets) == 0);
  // Each of 16 routes has a region of 16 by 128 floats for every 128 columns.
  CHECK(element(direct, CoreTensor::fc1_c_tmp) == 16 * 3 * 16 * 128);
  CHECK(element(direct, CoreTensor::fc2_c_tmp) == 16 * 4 * 16 * 128);
  CHECK(element(direct, CoreTensor::intermediate_cache2) == 16 * 192);
  CHECK(element(packed, CoreTensor::packed_route_indices) > 0);
  CHECK(element(packed, CoreTensor::expert_offsets) == 9);
  const CoreElements trellis = kernel_need(kernels_of(glm_request(64, 8)), 64, false);
  CHECK(element(trellis, CoreTensor::fc1_c_tmp) == 0);
  CHECK(element(trellis, CoreTensor::rotation_a_gate) == 64 * 8 * 6144);
}

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
    "a shrink is caught by a refusal or a guard, missed without both, not observable where nothing ends") {
  const MoeLayout layout = *plan_moe(glm_request(64, 8));
  bool has_hits = true;
  bool is_refusing = true;
  // A launch that touches all of every tensor but the last byte of cache2, whatever lies behind.
  const MeasureIn measure = [&](const Placement& placement,
                                RoomCheck room_check) -> Result<std::vector<Measurement>> {
    const auto is_short = [&](const PlacedTensor& tensor) {
      return tensor.bytes < test::find_tensor(layout, tensor.name)->bytes;
    };
    if (is_refusing && room_check == RoomCheck::on && std::ranges::any_of(placement.tensors, is_short))
      return Error{ErrorCode::scratch_too_small, "", "too small", ""};
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
    CHECK(shrink.outcome() == (is_observable ? ShrinkOutcome::caught : ShrinkOutcome::not_observable));
    CHECK(shrink.text().starts_with(is_observable ? "refused: too small; caught by a guard: 2 bytes"
                                                  : kNotObservable));
  }
  // Either of the two is enough.
  const auto shrunk = [&](bool refuses, bool hits) {
    is_refusing = refuses;
    has_hits = hits;
    const auto shrinks = shrink_tensors(layout, "rotation_a_up", measure);
    REQUIRE(shrinks);
    REQUIRE(shrinks->size() == 1);
    return shrinks->front();
  };
  CHECK(shrunk(false, true).outcome() == ShrinkOutcome::caught);
  CHECK(shrunk(false, true).refusal.empty());
  CHECK(shrunk(true, false).outcome() == ShrinkOutcome::caught);
  CHECK(shrunk(true, false).guard.empty());
  CHECK(shrunk(false, false).outcome() == ShrinkOutcome::missed);
  CHECK(shrunk(false, false).text() == "not refused; no guard was hit");

  const auto failing =
      shrink_tensors(layout, "", [](const Placement&, RoomCheck) -> Result<std::vector<Measurement>> {
        return Error{ErrorCode::cuda_failure, "", "no memory", ""};
      });
  CHECK_FALSE(failing);
}

TEST_CASE("the small plan of a deployment has its contract, bits, type and block, and kernels") {
  for (const char* contract : kContractIds) {
    MoeRequest request = trellis_request(contract, 256, 6144, 512, 8, 3072, 188);
    request.capacity.block_size_m = 64;
    request.weights.trellis_bits = 4;
    const MoeRequest small = small_request(request, WeightLayout::trellis);
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

TEST_CASE(
    "of the small packed plan a launch of as many blocks as can be needs every element of split-K scratch") {
  for (const char* contract : kContractIds) {
    for (const i64 block : kBlockSizes) {
      MoeRequest request = packed_request(contract, 160, 6144, 512, 8, 512, 132);
      request.capacity.block_size_m = block;
      const MoeRequest small = small_request(request, WeightLayout::packed);
      const auto layout = plan_moe(small);
      REQUIRE(layout);
      const KernelPlan plan = kernel_plan(small, *layout);
      CHECK(variants_of(plan) == variants_of(kernels_of(request)));
      const FusedPlan& shape = fused_plan(plan);
      CHECK(shape.capacity > shape.without_map.direct_tokens);  // routes are packed too
      const CoreElements need = kernel_need(plan, shape.capacity, false);
      for (const CoreTensor tensor :
           {CoreTensor::packed_route_indices, CoreTensor::block_expert_ids, CoreTensor::fc1_c_tmp,
            CoreTensor::fc2_c_tmp, CoreTensor::intermediate_cache13, CoreTensor::intermediate_cache2})
        CHECK(element(need, tensor) == element(shape.planned, tensor));
      const auto launches = launches_to_shrink(shape, true, false);
      const TestLaunch most{shape.capacity, RoutingKind::most_padding, false};
      REQUIRE(std::ranges::find(launches, most) != launches.end());
      const Routes routes = routes_of(most, {shape.top_k, 16, 16, block});
      CHECK(counts_of(routes).size() == 16);  // each of the 16 routes has a block
    }
  }
}
