// Guards, poison and scans on a GPU: what the arena says of bytes that were planted in it.
#include "planner/core/text.hpp"
#include "tests/gpu/gpu_tests.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

struct NamedPlan {
  const char* name;
  MoeLayout layout;
};

// Small plans of every layout, whose tensors have odd sizes, and the real decode plan.
std::vector<NamedPlan> plans() {
  return {
      {"small packed", *plan_moe(packed_request("sparkinfer-de04125", 5, 256, 128, 3, 7, 6))},
      {"small Trellis", *plan_moe(trellis_request("sparkinfer-c2f135c", 5, 256, 128, 3, 7, 6))},
      {"small expert-parallel", *plan_moe(expert_parallel_request("b12x-36bce2c", 4, 8, 256, 128, 2, 5, 6))},
      {"GLM-5.2 decode", glm_decode()}};
}

void check_no_stray_writes(const ArenaFindings& findings) {
  for (const StrayWrite& write : findings.stray_writes) FAIL_CHECK(text_of(write));
}

// Inverts one byte of a clean arena, scans, and puts it back.
ArenaFindings findings_with_flipped(DeviceArena& arena, i64 offset) {
  must(flip_byte(arena.allocation() + offset));
  ArenaFindings findings = must(arena.scan(nullptr));
  must(flip_byte(arena.allocation() + offset));
  return findings;
}

// The one byte directly at the edge.
i64 byte_beyond(const PlacedTensor& tensor, Side side) {
  return side == Side::before ? tensor.begin - 1 : tensor.end();
}

void check_one_byte_at(const ArenaFindings& findings, const PlacedTensor& tensor, Side side) {
  INFO(concat("1 byte ", name_of(side), " ", tensor.name));
  REQUIRE(findings.stray_writes.size() == 1);
  const StrayWrite& write = findings.stray_writes[0];
  INFO(text_of(write));
  CHECK(write.distance == 1);
  CHECK(write.bytes == 1);
  CHECK(write.arena_offset ==
        (side == Side::before ? tensor.planned_offset - 1 : tensor.planned_offset + tensor.bytes));
  // A gap of one byte lies at two edges.
  if (tensor.guarded(side) == 1) return;
  CHECK(write.tensor == tensor.name);
  CHECK(write.side == side);
}

// How many of some zeros written into a guard the better of both rounds sees: where a guard's own byte is a
// zero it sees none.
i64 seen_zeros(i64 offset, i64 bytes) {
  i64 most = 0;
  for (const ArenaPattern& pattern : kArenaRounds) {
    i64 seen = 0;
    for (i64 at = offset; at < offset + bytes; ++at)
      seen += expected_byte({.begin = 0, .end = at + 1, .is_guard = 1}, at, pattern) != 0;
    most = max_of(most, seen);
  }
  return most;
}

}  // namespace

TEST_CASE("apart from each other, one byte before or behind any tensor is caught and named") {
  for (const NamedPlan& plan : plans()) {
    INFO(plan.name);
    auto [resolver, arena] = arena_of(placed(plan.layout, GuardMode::strict));
    for (const ArenaPattern& pattern : kArenaRounds) {
      must(arena.fill(pattern, nullptr));
      for (const PlacedTensor& tensor : arena.placement().tensors)
        for (const Side side : {Side::before, Side::behind})
          check_one_byte_at(findings_with_flipped(arena, byte_beyond(tensor, side)), tensor, side);
      check_no_stray_writes(must(arena.scan(nullptr)));
    }
  }
}

TEST_CASE(
    "in the planned arena, one byte at any guarded edge is caught, and so are both ends of the memory") {
  for (const NamedPlan& plan : plans()) {
    INFO(plan.name);
    auto [resolver, arena] = arena_of(placed(plan.layout, GuardMode::packed));
    const Placement& placement = arena.placement();
    must(arena.fill(kArenaRounds[0], nullptr));
    int edges = 0;
    for (const PlacedTensor& tensor : placement.tensors) {
      for (const Side side : {Side::before, Side::behind}) {
        if (tensor.guarded(side) == 0) continue;
        ++edges;
        check_one_byte_at(findings_with_flipped(arena, byte_beyond(tensor, side)), tensor, side);
      }
    }
    CHECK(edges >= 2);
    for (const i64 offset : {i64{0}, placement.allocation_bytes - 1})
      CHECK(findings_with_flipped(arena, offset).stray_writes.size() == 1);
    check_no_stray_writes(must(arena.scan(nullptr)));
  }
}

TEST_CASE("a clean arena has no finding, and neither has one whose tensors were written to the last byte") {
  for (const NamedPlan& plan : plans()) {
    INFO(plan.name);
    for (const GuardMode mode : {GuardMode::packed, GuardMode::strict}) {
      auto [resolver, arena] = arena_of(placed(plan.layout, mode));
      const ArenaFindings untouched = findings_after(arena, [] {});
      check_no_stray_writes(untouched);
      for (const HighWater& use : untouched.high_water) CHECK(use.end_touched == 0);

      const ArenaFindings written = findings_after(arena, [&, &filled = arena] {
        for (const PlacedTensor& tensor : filled.placement().tensors)
          must(set_bytes(filled.allocation() + tensor.begin, 0, tensor.bytes));
      });
      check_no_stray_writes(written);
      for (const HighWater& use : written.high_water) {
        INFO(text_of(use));
        CHECK(use.end_touched == use.planned_bytes);
        CHECK(use.touched_bytes == use.planned_bytes);
      }
    }
  }
}

TEST_CASE("the high water of a tensor is the last byte written, even one that equals a poison") {
  auto [resolver, created] = arena_of(placed(glm_decode(), GuardMode::packed));
  DeviceArena& arena = created;
  for (const PlacedTensor& tensor : arena.placement().tensors) {
    for (const i64 written : {i64{1}, tensor.bytes / 2, tensor.bytes - 1, tensor.bytes}) {
      if (written <= 0 || written > tensor.bytes) continue;
      for (const i64 value : {i64{0}, kArenaRounds[0].poison, kArenaRounds[1].poison}) {
        const ArenaFindings findings = findings_after(
            arena, [&] { must(set_bytes(arena.address(tensor.name), static_cast<int>(value), written)); });
        check_no_stray_writes(findings);
        for (const HighWater& use : findings.high_water) {
          INFO(text_of(use));
          CHECK(use.end_touched == (use.tensor == tensor.name ? written : 0));
        }
      }
    }
  }
}

TEST_CASE("a scan counts every byte of writes that are long, short and anywhere") {
  auto [resolver, created] = arena_of(placed(glm_decode(), GuardMode::strict));
  DeviceArena& arena = created;
  const PlacedTensor tensor = arena.placement().tensors[0];
  for (const i64 begin : {0, 1, 7, 15, 16, 17}) {
    for (const i64 bytes : {1, 2, 15, 16, 17, 31, 33, 1000}) {
      if (begin + bytes > tensor.bytes) continue;
      const ArenaFindings findings = findings_after(arena, [&] {
        must(set_bytes(arena.address(tensor.name) + begin, 0, bytes));
        must(set_bytes(arena.allocation() + tensor.end() + begin, 0, bytes));
      });
      CHECK(findings.high_water[0] ==
            HighWater{std::string(tensor.name), tensor.bytes, begin, begin + bytes, bytes});
      REQUIRE(findings.stray_writes.size() == 1);
      CHECK(findings.stray_writes[0].distance == begin + 1);
      CHECK(findings.stray_writes[0].bytes == seen_zeros(tensor.end() + begin, bytes));
    }
  }
}

TEST_CASE("an arena larger than the GPU's memory is refused with both sizes") {
  const i64 bytes = i64{1} << 44;
  const TensorSpec tensor{
      .name = "huge", .dtype = DType::uint8, .shape = shape(bytes), .offset = 0, .bytes = bytes};
  LaunchResolver resolver = gpu().resolver();
  must(resolver.resolve(kArenaKernels));
  const auto arena = DeviceArena::create(place_guarded(std::span(&tensor, 1), bytes, GuardMode::packed),
                                         resolver, gpu().launcher);
  REQUIRE_FALSE(arena);
  CHECK(arena.error().code == ErrorCode::cuda_failure);
  INFO(arena.error().message);
  CHECK(arena.error().message.find("17,592,186,052,608 bytes") != std::string::npos);
  CHECK(arena.error().message.find("bytes are free") != std::string::npos);
  // The device is none the worse for it.
  CHECK(arena_of(placed(glm_decode(), GuardMode::packed)).arena.fill(kArenaRounds[0], nullptr));
}
