// Small plans run and measured as moeplan validate does: all checks pass, and every tensor that is touched to
// its end is missed when its last element is gone.
#include <unistd.h>

#include <thread>

#include "planner/core/text.hpp"
#include "planner/moe/w4a16.hpp"
#include "runtime/device/validator.hpp"
#include "runtime/validate/shrink.hpp"
#include "tests/gpu/gpu_tests.hpp"
#include "tests/indexer_support.hpp"
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

i64 sms() { return validator().gpu().sm_count; }

struct SmallPlan {
  explicit SmallPlan(const MoeRequest& request)
      : layout(must(plan_moe(request))), kernels(kernel_plan(request, layout)) {}

  MoeLayout layout;
  KernelPlan kernels;

  const FusedPlan& plan() const { return fused_plan(kernels); }
  std::vector<Measurement> measure(GuardMode mode, const std::vector<TestLaunch>& launches) const {
    return must(validator().measure(kernels, placed(layout, mode), launches, RoomCheck::on, nullptr));
  }
};

MoeRequest small_trellis(const char* contract, i64 block, i64 bits, DType io_dtype) {
  MoeRequest request = trellis_request(contract, 256, 6144, 512, 8, 64, sms());
  request.capacity.block_size_m = block;
  request.weights.trellis_bits = bits;
  request.weights.io_dtype = io_dtype;
  return small_request(request, WeightLayout::trellis);
}

// Routes of several tokens share blocks, and most products have more tiles than the GPU has multiprocessors.
MoeRequest small_packed(const char* contract, std::optional<i64> block, DType io_dtype) {
  MoeRequest request = packed_request(contract, 8, 384, 192, 3, 32, sms());
  request.capacity.block_size_m = block;
  request.weights.io_dtype = io_dtype;
  return request;
}

void check_passes(const std::vector<Measurement>& measurements) {
  for (const Measurement& m : measurements) {
    INFO(concat(m.tokens, " tokens, ", m.routing, ", block ", m.block, ", ", name_of(m.mode)));
    for (const ValidationFailure& failure : judge(m).failures)
      FAIL_CHECK(concat(name_of(failure.check), ": ", failure.text));
  }
}

void check_small(const SmallPlan& small) {
  const FusedPlan& plan = small.plan();
  const auto launches = launches_to_validate(plan, plan.may_lack_map, plan.may_have_map).launches;
  for (const GuardMode mode : {GuardMode::packed, GuardMode::strict})
    check_passes(small.measure(mode, launches));
}

std::vector<Shrink> shrinks_of(const SmallPlan& small, const std::vector<TestLaunch>& launches) {
  return must(shrink_tensors(small.layout, "", [&](const Placement& placement, RoomCheck room_check) {
    return validator().measure(small.kernels, placement, launches, room_check, nullptr);
  }));
}

void check_caught(const Shrink& shrink) {
  CHECK(shrink.outcome() == ShrinkOutcome::caught);
  CHECK(shrink.refusal.starts_with(shrink.tensor));
  CHECK(shrink.guard.find(shrink.tensor) != std::string::npos);
}

}  // namespace

TEST_CASE("every launch of small plans passes every check, with an expert map too") {
  for (int i = 0; i < kBlockSizeCount; ++i)
    check_small(SmallPlan(small_trellis("b12x-36bce2c", kBlockSizes[i], 3 + i % 4, DType::bfloat16)));
}

TEST_CASE("every launch of small packed plans passes every check at every block size: bf16") {
  for (const i64 block : kBlockSizes)
    check_small(SmallPlan(small_packed("sparkinfer-c2f135c", block, DType::bfloat16)));
}
TEST_CASE("every launch of small packed plans passes every check at every block size: fp16") {
  for (const i64 block : kBlockSizes)
    check_small(SmallPlan(small_packed("sparkinfer-c2f135c", block, DType::float16)));
}
TEST_CASE(
    "packed plans with an expert map, without a block of their own, or with weights on the input pass") {
  MoeRequest mapped = small_packed("b12x-36bce2c", 16, DType::bfloat16);
  mapped.capacity.route_experts = 24;
  check_small(SmallPlan(mapped));
  check_small(SmallPlan(small_packed("sparkinfer-c2f135c", std::nullopt, DType::bfloat16)));
  MoeRequest on_input = small_packed("sparkinfer-c2f135c", 8, DType::bfloat16);
  on_input.capacity.apply_router_weight_on_input = true;
  check_small(SmallPlan(on_input));
}

TEST_CASE(
    "a shrink of each tensor that is touched to its end is caught, and of split-K scratch there is none") {
  for (const char* contract : kContractIds) {
    const SmallPlan small(small_trellis(contract, 8, 3, DType::float16));
    const bool has_map = !small.plan().may_lack_map;
    const auto shrinks = shrinks_of(
        small, {{1, RoutingKind::uniform, has_map}, {small.plan().capacity, RoutingKind::uniform, has_map}});
    CHECK(shrinks.size() >= 10);
    for (const Shrink& shrink : shrinks) {
      INFO(concat(contract, " ", shrink.tensor, ": ", shrink.text()));
      if (shrink.tensor == "fc1_c_tmp" || shrink.tensor == "fc2_c_tmp")
        CHECK(shrink.outcome() == ShrinkOutcome::not_observable);
      else
        check_caught(shrink);
    }
  }
}

TEST_CASE(
    "split-K scratch bound by columns is touched to its end at every block, and every shrink is caught") {
  REQUIRE(sms() > 32);  // more than there are tiles: all of them are split
  for (const i64 block : kBlockSizes) {
    for (const DType io_dtype : {DType::bfloat16, DType::float16}) {
      MoeRequest request = packed_request("sparkinfer-de04125", 160, 6144, 512, 8, 512, sms());
      request.capacity.block_size_m = block;
      request.weights.io_dtype = io_dtype;
      const SmallPlan small(small_request(request, WeightLayout::packed));
      const auto launches = launches_to_shrink(small.plan(), true, false);
      const auto measured = small.measure(GuardMode::strict, launches);
      check_passes(measured);
      for (const HighWater& use : high_water_of(measured)) {
        INFO(concat("block ", block, ", ", text_of(use)));
        // At block 8 a region is 16 rows, twice as many as there are; the last of them is written.
        if (use.tensor == "fc1_c_tmp" || use.tensor == "fc2_c_tmp") {
          CHECK(use.planned_bytes == 4 * 256 * max_of(16 * block, 16 * 16));
          CHECK(use.end_touched == use.planned_bytes);
        }
      }
      for (const Shrink& shrink : shrinks_of(small, launches)) {
        INFO(concat("block ", block, " ", shrink.tensor, ": ", shrink.text()));
        // What the router writes is none of these kernels'.
        if (shrink.tensor.starts_with("router_") || shrink.tensor.starts_with("topk_"))
          CHECK(shrink.outcome() == ShrinkOutcome::not_observable);
        else
          check_caught(shrink);
      }
    }
  }
}

TEST_CASE(
    "what a placement has no room for is refused before anything is launched, and without asking is seen") {
  const SmallPlan small(small_packed("sparkinfer-c2f135c", 16, DType::bfloat16));
  const std::vector<TestLaunch> launches = {{small.plan().capacity, RoutingKind::uniform, false}};
  const Placement placement = place_shrunk(small.layout, "intermediate_cache2");
  std::size_t launched = 0;
  const auto refused = validator().measure(small.kernels, placement, launches, RoomCheck::on,
                                           [&](std::size_t, std::size_t) { ++launched; });
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::scratch_too_small);
  CHECK(launched == 0);
  const auto seen = must(validator().measure(small.kernels, placement, launches, RoomCheck::off, nullptr));
  const auto failures = judge(seen.front()).failures;
  CHECK(std::ranges::find(failures, ValidationCheck::guards, &ValidationFailure::check) != failures.end());
}

TEST_CASE("a tensor that lies where another one does is seen as wrong outputs") {
  const auto with_overlap = [](const SmallPlan& small, CoreTensor moved, CoreTensor onto, i64 offset) {
    Placement placement = placed(small.layout, GuardMode::packed);
    const auto at = [&](CoreTensor tensor) -> PlacedTensor& {
      return placement.tensors[static_cast<std::size_t>(find_tensor(placement, name_of(tensor)))];
    };
    at(moved).begin = at(onto).begin + offset;
    const std::vector<TestLaunch> launches = {{small.plan().capacity, RoutingKind::uniform, false}};
    const auto measured =
        must(validator().measure(small.kernels, placement, launches, RoomCheck::on, nullptr));
    const auto failures = judge(measured.front()).failures;
    CHECK(std::ranges::find(failures, ValidationCheck::oracle, &ValidationFailure::check) != failures.end());
  };
  // Gate and up share their rows: the last that is written is what both products read.
  with_overlap(SmallPlan(small_trellis("sparkinfer-de04125", 16, 4, DType::bfloat16)),
               CoreTensor::rotation_a_up, CoreTensor::rotation_a_gate, 0);
  // Activations of the first rows lie where gate and up of later ones do. A grid of two blocks takes them one
  // after the other.
  MoeRequest request = small_packed("sparkinfer-c2f135c", 16, DType::bfloat16);
  request.device.sm_count = 2;
  const SmallPlan small(request);
  with_overlap(small, CoreTensor::intermediate_cache2, CoreTensor::intermediate_cache13,
               bytes_of(small.layout, "intermediate_cache13") / 2);
}

TEST_CASE("every call of small indexer plans passes every check, and every shrink that shows is caught") {
  const auto check = [](RouteChoice route, i64 rows, std::vector<std::string_view> caught) {
    IndexerRequest request =
        route == RouteChoice::packed_contiguous ? glm_prefill(rows, 8192) : glm_paged(rows, 8192);
    request.device.sm_count = sms();
    request.caps.num_q_heads = 16;
    request.caps.top_k = 512;
    request.caps.route = route;
    const auto route_of_it = must(plan_indexer_paged(request)).route;
    const IndexerRequest small = small_request(request, route_of_it);
    const IndexerLayout layout = must(plan_indexer_paged(small));
    REQUIRE(layout.route == route_of_it);
    const IndexerPlan plan = indexer_plan(small, layout, sms());
    check_passes(must(validator().measure(plan, place_shrunk(layout, ""), calls_to_validate(plan),
                                          RoomCheck::on, nullptr)));
    const auto shrinks =
        must(shrink_tensors(layout, "", [&](const Placement& placement, RoomCheck room_check) {
          return validator().measure(plan, placement, calls_to_shrink(plan), room_check, nullptr);
        }));
    for (const Shrink& shrink : shrinks) {
      INFO(concat(name_of(route_of_it), " ", shrink.tensor, ": ", shrink.text()));
      if (std::ranges::find(caught, shrink.tensor) != caught.end())
        check_caught(shrink);
      else
        CHECK(shrink.outcome() == ShrinkOutcome::not_observable);
    }
  };
  check(RouteChoice::paged_tiled, 48,
        {"tile_logits", "topk_values", "topk_indices", "candidate_values", "candidate_indices",
         "active_width"});
  check(RouteChoice::paged_fused, 4,
        {"tile_logits", "topk_values", "topk_indices", "candidate_values", "candidate_indices",
         "active_width"});
  check(RouteChoice::packed_contiguous, 48,
        {"gather_k_quant", "gather_k_scale", "contiguous_lengths", "runtime_lengths", "tile_logits",
         "topk_values", "topk_indices", "candidate_values", "candidate_indices", "active_width"});
}

TEST_CASE("a layer of a file runs in place of one that is made up, whole and as the first rank's") {
  const TemporaryFolder folder;
  const SmallPlan small(small_trellis("sparkinfer-de04125", 8, 3, DType::bfloat16));
  const TrellisPlan& plan = std::get<TrellisPlan>(small.kernels);
  const std::vector<TestLaunch> launches = {{1, RoutingKind::uniform, false},
                                            {plan.capacity, RoutingKind::zipf, false}};
  for (const i64 ranks : {1, 2}) {
    const std::string text = safetensors_text(exl3_tensors({.hidden = plan.hidden,
                                                            .intermediate = ranks * plan.intermediate,
                                                            .experts = plan.experts,
                                                            .bits = plan.bits}));
    const std::string path = folder.write("m.safetensors", text);
    const LayerWeights weights = must(LayerWeights::open(path, 3, experts_shape(plan)));
    validator().use_layer(&weights);
    check_passes(small.measure(GuardMode::packed, launches));

    // The layer is the file's: without its bytes there is none.
    const LayerWeights damaged = must(LayerWeights::open(path, 3, experts_shape(plan)));
    REQUIRE(truncate(path.c_str(), static_cast<off_t>(text.size() / 2)) == 0);
    validator().use_layer(&damaged);
    const auto unread = validator().measure(small.kernels, placed(small.layout, GuardMode::packed), launches,
                                            RoomCheck::on, nullptr);
    validator().use_layer(nullptr);
    REQUIRE_FALSE(unread);
    CHECK(unread.error().code == ErrorCode::unreadable);
  }
  check_passes(small.measure(GuardMode::packed, launches));
}
