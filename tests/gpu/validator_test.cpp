// Small plans run and measured as moeplan validate does: all checks pass, and every tensor that is touched to
// its end is missed when its last element is gone.
#include <unistd.h>

#include <thread>

#include "planner/core/text.hpp"
#include "planner/moe/w4a16.hpp"
#include "runtime/device/validator.hpp"
#include "runtime/validate/shrink.hpp"
#include "tests/gpu/gpu_tests.hpp"
#include "tests/safetensors_support.hpp"
#include "tests/temporary_folder.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

Validator& validator() {
  static const std::unique_ptr<Validator> opened =
      must(open_validator(gpu().compiler, std::thread::hardware_concurrency()));
  return *opened;
}

struct SmallPlan {
  MoeLayout layout;
  TrellisPlan plan;
};

SmallPlan small_plan(const char* contract, std::optional<i64> block, i64 bits, DType io_dtype) {
  MoeRequest request = trellis_request(contract, 256, 6144, 512, 8, 64, validator().gpu().sm_count);
  request.capacity.block_size_m = block;
  request.weights.trellis_bits = bits;
  request.weights.io_dtype = io_dtype;
  request = small_request(request);
  const MoeLayout layout = must(plan_moe(request));
  return {layout, trellis_plan(request, layout)};
}

void check_passes(const std::vector<Measurement>& measurements) {
  for (const Measurement& m : measurements) {
    INFO(concat(m.tokens, " tokens, ", m.routing, ", block ", m.block, ", ", name_of(m.mode)));
    for (const ValidationFailure& failure : judge(m).failures)
      FAIL_CHECK(concat(name_of(failure.check), ": ", failure.text));
  }
}

}  // namespace

TEST_CASE("every launch of small plans passes every check, with an expert map too") {
  for (int i = 0; i < kBlockSizeCount; ++i) {
    const SmallPlan small = small_plan("b12x-36bce2c", kBlockSizes[i], 3 + i % 4, DType::bfloat16);
    const auto launches =
        launches_to_validate(small.plan, small.plan.may_lack_map, small.plan.may_have_map).launches;
    for (const GuardMode mode : {GuardMode::packed, GuardMode::strict})
      check_passes(must(validator().measure(small.plan, placed(small.layout, mode), launches, nullptr)));
  }
}

TEST_CASE(
    "a shrink of each tensor that is touched to its end is caught, and of split-K scratch there is none") {
  for (const char* contract : kContractIds) {
    const SmallPlan small = small_plan(contract, 8, 3, DType::float16);
    const bool has_map = !small.plan.may_lack_map;
    const std::vector<TestLaunch> launches = {{1, RoutingKind::uniform, has_map},
                                              {small.plan.capacity, RoutingKind::uniform, has_map}};
    const auto shrinks = must(shrink_tensors(small.layout, "", [&](const Placement& placement) {
      return validator().measure(small.plan, placement, launches, nullptr);
    }));
    CHECK(shrinks.size() >= 10);
    for (const Shrink& shrink : shrinks) {
      INFO(concat(contract, " ", shrink.tensor, ": ", shrink.how));
      const bool is_scratch = shrink.tensor == "fc1_c_tmp" || shrink.tensor == "fc2_c_tmp";
      CHECK(shrink.outcome == (is_scratch ? ShrinkOutcome::not_observable : ShrinkOutcome::caught));
    }
  }
}

TEST_CASE("a tensor that lies where another one does is seen as wrong outputs") {
  const SmallPlan small = small_plan("sparkinfer-de04125", 16, 4, DType::bfloat16);
  Placement placement = placed(small.layout, GuardMode::packed);
  // Gate and up share their rows: the last that is written is what both products read.
  const auto at = [&](CoreTensor tensor) -> PlacedTensor& {
    return placement.tensors[static_cast<std::size_t>(find_tensor(placement, name_of(tensor)))];
  };
  at(CoreTensor::rotation_a_up).begin = at(CoreTensor::rotation_a_gate).begin;
  const std::vector<TestLaunch> launches = {{small.plan.capacity, RoutingKind::uniform, false}};
  const auto measured = must(validator().measure(small.plan, placement, launches, nullptr));
  const auto failures = judge(measured.front()).failures;
  CHECK(std::ranges::find(failures, ValidationCheck::oracle, &ValidationFailure::check) != failures.end());
}

TEST_CASE("a layer of a file runs in place of one that is made up, whole and as the first rank's") {
  const TemporaryFolder folder;
  const SmallPlan small = small_plan("sparkinfer-de04125", 8, 3, DType::bfloat16);
  const std::vector<TestLaunch> launches = {{1, RoutingKind::uniform, false},
                                            {small.plan.capacity, RoutingKind::zipf, false}};
  const Placement placement = placed(small.layout, GuardMode::packed);
  for (const i64 ranks : {1, 2}) {
    const std::string text = safetensors_text(exl3_tensors({.hidden = small.plan.hidden,
                                                            .intermediate = ranks * small.plan.intermediate,
                                                            .experts = small.plan.experts,
                                                            .bits = small.plan.bits}));
    const std::string path = folder.write("m.safetensors", text);
    const LayerWeights weights = must(LayerWeights::open(path, 3, experts_shape(small.plan)));
    validator().use_layer(&weights);
    check_passes(must(validator().measure(small.plan, placement, launches, nullptr)));

    // The layer is the file's: without its bytes there is none.
    const LayerWeights damaged = must(LayerWeights::open(path, 3, experts_shape(small.plan)));
    REQUIRE(truncate(path.c_str(), static_cast<off_t>(text.size() / 2)) == 0);
    validator().use_layer(&damaged);
    const auto unread = validator().measure(small.plan, placement, launches, nullptr);
    validator().use_layer(nullptr);
    REQUIRE_FALSE(unread);
    CHECK(unread.error().code == ErrorCode::unreadable);
  }
  check_passes(must(validator().measure(small.plan, placement, launches, nullptr)));
}
