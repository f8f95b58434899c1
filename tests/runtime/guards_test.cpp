// Where tensors lie between guards, and what changed bytes say: all of it without a GPU. The memory of these
// tests is the host's, filled and compared byte by byte.
#include "runtime/arena/guards.hpp"

#include <algorithm>
#include <optional>

#include "planner/core/text.hpp"
#include "tests/catch.hpp"
#include "tests/indexer_support.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

TensorSpec tensor_at(std::string_view name, i64 offset, i64 bytes) {
  return {.name = name, .dtype = DType::uint8, .shape = shape(bytes), .offset = offset, .bytes = bytes};
}

// Three tensors of these sizes at multiples of 16, and some bytes of the plan behind the last.
struct SmallPlan {
  std::vector<TensorSpec> tensors;
  i64 total_bytes = 0;

  SmallPlan(i64 a, i64 b, i64 c, i64 slack) {
    i64 end = 0;
    for (const auto& [name, bytes] : {std::pair{"a", a}, {"b", b}, {"c", c}}) {
      const i64 offset = align_up(end, 16);
      tensors.push_back(tensor_at(name, offset, bytes));
      end = offset + bytes;
    }
    total_bytes = end + slack;
  }
};

template <class Check>
void for_every_small_plan(const Check& check) {
  for (const i64 a : {0, 1, 16, 21})
    for (const i64 b : {0, 1, 32, 37})
      for (const i64 c : {0, 3, 48})
        for (const i64 slack : {0, 5}) check(SmallPlan(a, b, c, slack));
}

constexpr GuardMode kModes[] = {GuardMode::packed, GuardMode::strict};

// The bytes of an allocation, as fill.cu and scan.cu treat them.
class HostArena {
 public:
  explicit HostArena(Placement placement)
      : placement_(std::move(placement)),
        ranges_(ranges_of(placement_)),
        bytes_(static_cast<std::size_t>(placement_.allocation_bytes)) {}

  void fill(const ArenaPattern& pattern) {
    pattern_ = pattern;
    for (const ArenaRange& range : ranges_)
      for (i64 at = range.begin; at < range.end; ++at) byte(at) = expected(range, at);
  }
  ArenaFindings scan() const {
    std::vector<ArenaDifference> differences;
    for (const ArenaRange& range : ranges_) {
      ArenaDifference& seen = differences.emplace_back();
      for (i64 at = range.begin; at < range.end; ++at) {
        if (bytes_[static_cast<std::size_t>(at)] == expected(range, at)) continue;
        ++seen.bytes;
        seen.first = min_of(seen.first, at);
        seen.last = max_of(seen.last, at);
      }
    }
    return findings_of(placement_, differences);
  }
  unsigned char& byte(i64 at) { return bytes_[static_cast<std::size_t>(at)]; }
  void flip(i64 at) { byte(at) = static_cast<unsigned char>(~byte(at)); }
  const Placement& placement() const { return placement_; }

 private:
  unsigned char expected(const ArenaRange& range, i64 at) const {
    return static_cast<unsigned char>(expected_byte(range, at, pattern_));
  }

  Placement placement_;
  std::vector<ArenaRange> ranges_;
  std::vector<unsigned char> bytes_;
  ArenaPattern pattern_{};
};

// What is said about one byte that changed in a guard, the tensor's edge looked for among all of them.
std::optional<StrayWrite> nearest_by_hand(const Placement& placement, i64 at) {
  std::optional<StrayWrite> nearest;
  for (const PlacedTensor& tensor : placement.tensors) {
    const bool is_before = at < tensor.begin;
    const i64 distance = is_before ? tensor.begin - at : at - tensor.end() + 1;
    if (tensor.bytes == 0 || (nearest && nearest->distance <= distance)) continue;
    nearest = StrayWrite{.tensor = std::string(tensor.name),
                         .side = is_before ? Side::before : Side::behind,
                         .distance = distance,
                         .bytes = 1,
                         .arena_offset = tensor.planned_offset + at - tensor.begin};
  }
  return nearest;
}

void check_covers_once(const Placement& placement) {
  std::vector<ArenaRange> ranges = ranges_of(placement);
  std::ranges::sort(ranges, {}, &ArenaRange::begin);
  i64 end = 0;
  for (const ArenaRange& range : ranges) {
    CHECK(range.begin == end);
    CHECK(range.end > range.begin);
    end = range.end;
  }
  CHECK(end == placement.allocation_bytes);
}

ArenaLayout glm_decode() {
  MoeRequest request = trellis_request("sparkinfer-de04125", 256, 6144, 512, 8, 64, 188);
  request.capacity.block_size_m = 8;
  return plan_moe(request)->arena;
}

}  // namespace

TEST_CASE("tensors and guards cover an allocation, every byte once") {
  for (const GuardMode mode : kModes)
    for_every_small_plan([&](const SmallPlan& plan) {
      check_covers_once(place_guarded(plan.tensors, plan.total_bytes, mode));
    });
}

TEST_CASE("a packed arena keeps its planned offsets and has a guard of 4,096 bytes in front and behind") {
  for_every_small_plan([](const SmallPlan& plan) {
    const Placement placement = place_guarded(plan.tensors, plan.total_bytes, GuardMode::packed);
    CHECK(placement.arena_begin % kAddressAlignment == 0);
    CHECK(placement.arena_begin >= kGuardBytes);
    CHECK(placement.allocation_bytes >= placement.arena_begin + plan.total_bytes + kGuardBytes);
    for (const PlacedTensor& tensor : placement.tensors)
      CHECK(tensor.begin == placement.arena_begin + tensor.planned_offset);
  });
}

TEST_CASE(
    "apart from each other, every tensor begins aligned to 256 bytes with 4,096 guarded on both sides") {
  for_every_small_plan([](const SmallPlan& plan) {
    const Placement placement = place_guarded(plan.tensors, plan.total_bytes, GuardMode::strict);
    REQUIRE(placement.tensors.size() == 3);
    for (const PlacedTensor& tensor : placement.tensors) {
      CHECK(tensor.begin % kAddressAlignment == 0);
      CHECK(tensor.guarded(Side::before) >= kGuardBytes);
      CHECK(tensor.guarded(Side::behind) >= kGuardBytes);
    }
  });
}

TEST_CASE("one changed byte near any tensor is named with the nearest edge and its distance") {
  for_every_small_plan([](const SmallPlan& plan) {
    HostArena arena(place_guarded(plan.tensors, plan.total_bytes, GuardMode::packed));
    arena.fill(kArenaRounds[0]);
    const i64 begin = arena.placement().arena_begin;
    for (i64 at = begin - 3; at < begin + plan.total_bytes + 3; ++at) {
      const bool is_in_tensor = std::ranges::any_of(
          arena.placement().tensors, [&](const auto& t) { return at >= t.begin && at < t.end(); });
      if (is_in_tensor) continue;
      arena.flip(at);
      const ArenaFindings findings = arena.scan();
      arena.flip(at);
      REQUIRE(findings.stray_writes.size() == 1);
      const auto expected = nearest_by_hand(arena.placement(), at);
      if (expected) CHECK(findings.stray_writes[0] == *expected);
    }
  });
}

TEST_CASE("a byte too far on either side of any tensor is caught when tensors lie apart") {
  for_every_small_plan([](const SmallPlan& plan) {
    HostArena arena(place_guarded(plan.tensors, plan.total_bytes, GuardMode::strict));
    arena.fill(kArenaRounds[1]);
    for (const PlacedTensor& tensor : arena.placement().tensors) {
      for (const auto& [at, side] :
           {std::pair{tensor.begin - 1, Side::before}, std::pair{tensor.end(), Side::behind}}) {
        arena.flip(at);
        const ArenaFindings findings = arena.scan();
        arena.flip(at);
        REQUIRE(findings.stray_writes.size() == 1);
        CHECK(findings.stray_writes[0] ==
              StrayWrite{.tensor = std::string(tensor.name),
                         .side = side,
                         .distance = 1,
                         .bytes = 1,
                         .arena_offset = tensor.planned_offset + at - tensor.begin});
      }
    }
  });
}

TEST_CASE("writing every byte of every tensor is no stray write, and touches all that is planned") {
  for (const GuardMode mode : kModes)
    for_every_small_plan([&](const SmallPlan& plan) {
      HostArena arena(place_guarded(plan.tensors, plan.total_bytes, mode));
      arena.fill(kArenaRounds[0]);
      CHECK(arena.scan().stray_writes.empty());
      for (const PlacedTensor& tensor : arena.placement().tensors)
        for (i64 at = tensor.begin; at < tensor.end(); ++at) arena.flip(at);
      const ArenaFindings findings = arena.scan();
      CHECK(findings.stray_writes.empty());
      for (const HighWater& use : findings.high_water) {
        CHECK(use.first_touched == 0);
        CHECK(use.end_touched == use.planned_bytes);
        CHECK(use.touched_bytes == use.planned_bytes);
      }
    });
}

TEST_CASE("two rounds see every byte value that is written, whatever each of them put there") {
  const SmallPlan plan(21, 37, 48, 0);
  for (const GuardMode mode : kModes) {
    HostArena arena(place_guarded(plan.tensors, plan.total_bytes, mode));
    const PlacedTensor& b = arena.placement().tensors[1];
    for (int value = 0; value < 256; ++value) {
      std::optional<ArenaFindings> seen;
      for (const ArenaPattern& pattern : kArenaRounds) {
        arena.fill(pattern);
        for (i64 at = b.begin + 4; at < b.begin + 9; ++at) arena.byte(at) = static_cast<unsigned char>(value);
        arena.byte(b.end()) = static_cast<unsigned char>(value);
        const ArenaFindings round = arena.scan();
        if (seen) {
          merge(*seen, round);
        } else {
          seen = round;
        }
      }
      REQUIRE(seen->stray_writes.size() == 1);
      CHECK(seen->stray_writes[0].tensor == "b");
      CHECK(seen->stray_writes[0].distance == 1);
      CHECK(seen->stray_writes[0].bytes == 1);
      CHECK(seen->high_water[1] == HighWater{"b", 37, 4, 9, 5});
      CHECK(seen->high_water[0].end_touched == 0);
    }
  }
}

TEST_CASE("packed tensors that abut say that their common edge is not guarded") {
  const std::vector<TensorSpec> tensors = {tensor_at("a", 0, 16), tensor_at("b", 16, 20),
                                           tensor_at("c", 48, 8)};
  const Placement placement = place_guarded(tensors, 64, GuardMode::packed);
  const auto guarded = [&](std::string_view name, Side side) {
    return placement.tensors[static_cast<std::size_t>(find_tensor(placement, name))].guarded(side);
  };
  CHECK(guarded("a", Side::before) == kGuardBytes);
  CHECK(guarded("a", Side::behind) == 0);
  CHECK(guarded("b", Side::before) == 0);
  CHECK(guarded("b", Side::behind) == 12);
  CHECK(guarded("c", Side::before) == 12);
  CHECK(guarded("c", Side::behind) == 8 + kGuardBytes);
  CHECK(find_tensor(placement, "d") == kNoTensor);
}

TEST_CASE("tensors outside any arena have no place in an allocation") {
  const std::vector<TensorSpec> tensors = {tensor_at("away", kOutsideArena, 100), tensor_at("a", 0, 16)};
  for (const GuardMode mode : kModes) {
    const Placement placement = place_guarded(tensors, 16, mode);
    REQUIRE(placement.tensors.size() == 1);
    CHECK(placement.tensors[0].name == "a");
    check_covers_once(placement);
  }
}

TEST_CASE("a plan without tensors is guarded all over") {
  HostArena arena(place_guarded({}, 32, GuardMode::packed));
  arena.fill(kArenaRounds[0]);
  arena.flip(arena.placement().arena_begin + 7);
  const ArenaFindings findings = arena.scan();
  REQUIRE(findings.stray_writes.size() == 1);
  CHECK(findings.stray_writes[0].arena_offset == 7);
  CHECK(place_guarded({}, 0, GuardMode::strict).allocation_bytes == 0);
}

TEST_CASE("findings read as sentences") {
  CHECK(text_of(StrayWrite{"fc1_c_tmp", Side::behind, 1, 3, 12345}) ==
        "3 bytes written 1 B behind fc1_c_tmp (offset 12345)");
  CHECK(text_of(StrayWrite{"expert_counts", Side::before, 16, 1, 0}) ==
        "1 byte written 16 B before expert_counts (offset 0)");
  CHECK(text_of(HighWater{"fc1_c_tmp", 128, 0, 100, 100}) ==
        "fc1_c_tmp: 100 of 128 bytes touched, from 0 to 100");
  CHECK(text_of(HighWater{"fc1_c_tmp", 128}) == "fc1_c_tmp: never touched, 128 bytes planned");
}

TEST_CASE("every kind of plan can be placed between guards") {
  std::vector<std::pair<ArenaLayout, i64>> arenas;
  const auto add = [&](const auto& layout) {
    REQUIRE(layout);
    arenas.emplace_back(layout->arena, layout->total_bytes);
  };
  for (const char* contract : kContractIds) {
    add(plan_moe(packed_request(contract, 16, 256, 128, 4, 8, 12)));
    add(plan_moe(native_request(contract, 16, 256, 128, 4, 8, 12)));
    add(plan_moe(trellis_request(contract, 160, 6144, 512, 8, 64, 188)));
    add(plan_moe(expert_parallel_request(contract, 16, 32, 256, 128, 4, 8, 12)));
    for (const i64 tokens : {1, 512}) {  // the micro kernels' plan, and the dynamic ones'
      MoeRequest request = native_request(contract, 16, 256, 128, 4, tokens, 12);
      request.weights.quant_mode = QuantMode::nvfp4;
      add(plan_moe(request));
    }
  }
  add(plan_indexer_paged(glm_paged(64, 128)));
  add(plan_indexer_paged(glm_prefill(3072, 128)));
  for (const auto& [arena, total_bytes] : arenas)
    for (const GuardMode mode : kModes) {
      const Placement placement =
          place_guarded(std::span(arena.tensors.begin(), arena.tensors.size()), total_bytes, mode);
      check_covers_once(placement);
      CHECK(placement.tensors.size() == arena.tensors.size());
    }
  CHECK(glm_decode().tensors.size() > 5);
}

TEST_CASE("a word marks each byte that is not zero") {
  for (int low : {0, 1, 0x7f, 0x80, 0xff})
    for (int high : {0, 1, 0x7f, 0x80, 0xff})
      for (int shift = 8; shift < 64; shift += 8) {
        const u64 word = static_cast<u64>(low) | static_cast<u64>(high) << shift;
        const u64 marks = (low ? u64{0x80} : 0) | (high ? u64{0x80} << shift : 0);
        CHECK(nonzero_bytes(word) == marks);
      }
}

TEST_CASE("the vectors of a range and the single bytes around them are the whole range") {
  for (i64 begin = 0; begin < 40; ++begin)
    for (i64 end = begin; end < 90; ++end) {
      const RangeVectors vectors = vectors_of({begin, end, 0});
      CHECK((begin <= vectors.begin && vectors.begin <= vectors.end && vectors.end <= end));
      CHECK((vectors.begin - begin < kArenaVectorBytes && end - vectors.end < kArenaVectorBytes));
      if (vectors.begin < vectors.end)
        CHECK((vectors.begin % kArenaVectorBytes == 0 && vectors.end % kArenaVectorBytes == 0));
    }
}

TEST_CASE("a guard is no constant, no copy of itself nearby, and inverted in the second round") {
  const ArenaRange guard{0, 1 << 16, 1};
  const auto byte = [&](i64 at, i64 seed) { return expected_byte(guard, at, {.poison = 0, .seed = seed}); };
  for (i64 at = 0; at < 4096; ++at) CHECK((byte(at, 0) ^ byte(at, 1)) == 0xff);
  for (i64 shift = 1; shift < 512; ++shift) {
    int same = 0;
    for (i64 at = 0; at < 1024; ++at) same += byte(at, 0) == byte(at + shift, 0);
    CHECK(same < 32);  // 4 are expected of bytes at random
  }
}
