// The decoding executor of the lean contract on a GPU against the reference: what every launch leaves, for
// all bit widths and input types, in tensors of the plan's own size with guards between them.
#include "tests/gpu/lean_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

// Experts have more routes than a block's 8, or one; the hidden size is no multiple of the 512 columns that
// FC1 rotates together, and slices of a full launch end in one of 128. The second one's router knows experts
// of other ranks: its launches have a map. The third one is all of whole chunks.
constexpr LeanShape kOwnExperts{{"", 640, 256, 8, 3, 40, 8, false}, 256};
constexpr LeanShape kMappedExperts{{"", 256, 384, 5, 4, 30, 16, true}, 128};
constexpr LeanShape kWholeChunks{{"", 1024, 512, 4, 2, 33, 4, false}, 1024};
// As many routes as the kernels sort, of more experts than lanes.
constexpr LeanShape kMostRoutes{{"", 128, 128, 40, 16, 64, 40, false}, 128};

// The launches with other grids of the kernels that deal their work out to any.
LeanDecodeLaunches with_grid(LeanDecodeLaunches launches, i64 grid) {
  launches.fc1.grid = grid;
  for (LeanDecodeSlice& slice : launches.slices) slice.fc2.grid = grid;
  return launches;
}

constexpr LeanKernels<LeanDecodeLaunches> kKernels{lean_decode_variants, lean_decode_launches};

void check_shape(const LeanShape& shape, i64 bits, bool is_bfloat16) {
  check_lean(kKernels, shape, bits, is_bfloat16);
}

}  // namespace

TEST_CASE("every launch of a lean decode agrees with the reference, a row's bytes at every count: 3 bits") {
  for (const bool is_bfloat16 : {true, false}) check_shape(kOwnExperts, 3, is_bfloat16);
}
TEST_CASE("every launch of a lean decode agrees with the reference, a row's bytes at every count: 4 bits") {
  for (const bool is_bfloat16 : {true, false}) check_shape(kOwnExperts, 4, is_bfloat16);
}
TEST_CASE("every launch of a lean decode agrees with the reference, a row's bytes at every count: 5 bits") {
  for (const bool is_bfloat16 : {true, false}) check_shape(kOwnExperts, 5, is_bfloat16);
}
TEST_CASE("every launch of a lean decode agrees with the reference, a row's bytes at every count: 6 bits") {
  for (const bool is_bfloat16 : {true, false}) check_shape(kOwnExperts, 6, is_bfloat16);
}

TEST_CASE("a lean decode with an expert map and rows shared by all experts agrees with the reference") {
  check_shape(kMappedExperts, 3, true);
  check_shape(kMappedExperts, 6, false);
}

TEST_CASE("a lean decode of whole chunks of the hidden size agrees with the reference") {
  check_shape(kWholeChunks, 3, true);
  check_shape(kWholeChunks, 5, false);
}

TEST_CASE("a lean decode of as many routes as there may be agrees with the reference") {
  check_shape(kMostRoutes, 3, true);
}

TEST_CASE("a lean decode of one block of threads leaves the bytes of a full grid, and so does any other") {
  for (const i64 bits : {3, 6}) {
    const LayerShape& s = kOwnExperts.layer;
    const LeanPlan plan = lean_plan_of(kOwnExperts, bits, true);
    must(resolver().resolve(lean_decode_variants(plan)));
    Case which(s, bits, true);
    LeanArena arena(plan);
    for (const Routing& routing : routings_of(s)) {
      const UploadedRouting routed(routing);
      SameBytes same;
      for (const i64 tokens : {i64{2}, s.capacity}) {
        const LeanDecodeLaunches launches =
            lean_decode_launches(plan, tokens, arena.tensors(), which.weights(), routed.inputs(which.x()));
        for (const i64 grid : {plan.multiprocessors, i64{1}, i64{7}, 2 * plan.multiprocessors}) {
          INFO(concat(bits, " bits, ", tokens, " tokens, ", routing.name, ", ", grid, " blocks"));
          LeanRun run(kOwnExperts, which, routing, tokens, arena, same);
          run.check(with_grid(launches, grid));
        }
      }
      same.finish();
    }
  }
}

TEST_CASE("a lean decode repeats its bytes in the arena that the last launch left, without any reset") {
  check_lean_repeats(kKernels, kOwnExperts, {40, 0, 1, 33});
}

TEST_CASE("lean decodes behind one another, whose kernels start before the last one ends, keep their bytes") {
  const LayerShape& s = kOwnExperts.layer;
  const LeanPlan plan = lean_plan_of(kOwnExperts, 3, true);
  must(resolver().resolve(lean_decode_variants(plan)));
  Case which(s, 3, true);
  LeanArena arena(plan);
  const UploadedRouting routed(routings_of(s)[0]);
  arena.reset();
  constexpr i64 kCounts[] = {1, 40, 8, 33, 2};
  // Each into an output of its own, whose bytes are read when all have been queued.
  const auto outputs = [&](bool waits) {
    std::vector<DeviceMemory> memory;
    std::vector<Bytes> bytes;
    for (const i64 tokens : kCounts) {
      memory.push_back(must(DeviceMemory::allocate(tokens * s.hidden * 4, "an output")));
      TrellisInputs inputs = routed.inputs(which.x());
      inputs.output = reinterpret_cast<float*>(memory.back().data());
      must(launch_each(lean_decode_launches(plan, tokens, arena.tensors(), which.weights(), inputs),
                       [](const auto& each) -> Status {
                         launch(each);
                         return Ok{};
                       }));
      if (waits) must(check_cuda(cudaDeviceSynchronize(), "waiting for a launch"));
    }
    for (std::size_t i = 0; i < memory.size(); ++i)
      bytes.push_back(must(bytes_at(memory[i].data(), kCounts[i] * s.hidden * 4)));
    return bytes;
  };
  const auto expected = outputs(true);
  for (int round = 0; round < 20; ++round) CHECK(outputs(false) == expected);
}
