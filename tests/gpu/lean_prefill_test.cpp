// The prefill executor of the lean contract on a GPU against the reference: what every launch leaves, for all
// bit widths and input types, in tensors of the plan's own size with guards between them.
#include "tests/gpu/lean_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

// Routes to one expert fill blocks and leave one that is not full. Slices and tiles of 256 columns end in one
// of 128. FC1's K is longer than a warp's ring of weights, and so is the second one's of FC2, whose router
// knows experts of other ranks: its launches have a map.
constexpr LeanShape kOwnExperts{{"", 640, 256, 8, 3, 130, 8, false}, 256};
constexpr LeanShape kMappedExperts{{"", 256, 640, 5, 4, 72, 16, true}, 128};

constexpr LeanKernels<LeanPrefillLaunches> kKernels{lean_prefill_variants, lean_prefill_launches};

void check_shape(const LeanShape& shape, i64 bits, bool is_bfloat16) {
  check_lean(kKernels, shape, bits, is_bfloat16);
}

}  // namespace

TEST_CASE("every launch of a lean prefill agrees with the reference, a row's bytes at every count: 3 bits") {
  for (const bool is_bfloat16 : {true, false}) check_shape(kOwnExperts, 3, is_bfloat16);
}
TEST_CASE("every launch of a lean prefill agrees with the reference, a row's bytes at every count: 4 bits") {
  for (const bool is_bfloat16 : {true, false}) check_shape(kOwnExperts, 4, is_bfloat16);
}
TEST_CASE("every launch of a lean prefill agrees with the reference, a row's bytes at every count: 5 bits") {
  for (const bool is_bfloat16 : {true, false}) check_shape(kOwnExperts, 5, is_bfloat16);
}
TEST_CASE("every launch of a lean prefill agrees with the reference, a row's bytes at every count: 6 bits") {
  for (const bool is_bfloat16 : {true, false}) check_shape(kOwnExperts, 6, is_bfloat16);
}

TEST_CASE("a lean prefill with an expert map and rows shared by all experts agrees with the reference") {
  check_shape(kMappedExperts, 3, true);
  check_shape(kMappedExperts, 6, false);
}

TEST_CASE("a lean prefill of as many experts as routes, one route each, agrees with the reference") {
  LeanShape shape = kOwnExperts;
  shape.layer.hidden = 128;
  shape.layer.intermediate = 128;
  shape.layer.experts = shape.layer.router_experts = 70;
  shape.layer.top_k = 1;
  shape.layer.capacity = 70;
  const LeanPlan plan = lean_plan_of(shape, 3, true);
  must(resolver().resolve(lean_prefill_variants(plan)));
  Case which(shape.layer, 3, true);
  LeanArena arena(plan);
  Routing routing{"one each", 4, {}, {}, {}};
  for (i64 token = 0; token < shape.layer.capacity; ++token) {
    routing.ids.push_back(shape.layer.capacity - 1 - token);
    routing.weights.push_back(0.5f);
  }
  const UploadedRouting routed(routing);
  SameBytes same;
  LeanRun run(shape, which, routing, shape.layer.capacity, arena, same);
  run.check(lean_prefill_launches(plan, shape.layer.capacity, arena.tensors(), which.weights(),
                                  routed.inputs(which.x())));
}

TEST_CASE("a lean prefill repeats its bytes in the arena that the last launch left, without any reset") {
  check_lean_repeats(kKernels, kOwnExperts, {130, 0, 1, 33});
}
