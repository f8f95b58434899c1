// A caller's scratch buffer, and grids that have to be resident: decisions that need no GPU.
#include "runtime/arena/scratch_choice.hpp"

#include "runtime/arena/residency.hpp"
#include "tests/catch.hpp"

using namespace moeplan;

TEST_CASE("a scratch buffer of the planned size or more is used, captured or not") {
  for (const bool is_capturing : {false, true}) {
    for (const i64 provided : {1000, 1001}) {
      const auto use = choose_scratch("decode", 1000, provided, is_capturing);
      REQUIRE(use);
      CHECK(*use == ScratchUse::provided);
    }
    CHECK(*choose_scratch("decode", 0, 0, is_capturing) == ScratchUse::provided);
  }
}

TEST_CASE("a scratch buffer that is one byte short is replaced, and refused under capture with both sizes") {
  const auto use = choose_scratch("decode", 45'624'728, 45'624'727, false);
  REQUIRE(use);
  CHECK(*use == ScratchUse::own);
  CHECK(
      scratch_warning("decode", 45'624'728, 1024) ==
      "the scratch buffer of decode is too small: it needs 45,624,728 bytes and was given 1,024; 45,624,728 "
      "bytes are allocated beside it");

  const auto captured = choose_scratch("decode", 45'624'728, 1024, true);
  REQUIRE_FALSE(captured);
  CHECK(captured.error().code == ErrorCode::scratch_too_small);
  CHECK(captured.error().message.find("needs 45,624,728 bytes and was given 1,024") != std::string::npos);
}

TEST_CASE("a grid with a barrier is refused when one block more than can be resident is asked for") {
  const Residency residency{.blocks_per_sm = 2, .sm_count = 132, .limit = "shared memory"};
  CHECK(check_resident("fused_moe", 264, residency));
  const Status refused = check_resident("fused_moe", 265, residency);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::grid_not_resident);
  CHECK(
      refused.error().message ==
      "fused_moe waits for all of its 265 blocks, and only 264 can be resident: 2 blocks a multiprocessor on "
      "132 multiprocessors, limited by shared memory");
}

TEST_CASE("what keeps one more block off a multiprocessor is named") {
  const Architecture& hopper = *find_architecture("sm_90");
  CHECK(residency_limit(hopper, 32, 256, 101'376) == "shared memory");
  CHECK(residency_limit(hopper, 255, 256, 1024) == "registers");
  CHECK(residency_limit(hopper, 32, 1024, 0) == "threads");
  CHECK(residency_limit(hopper, 16, 32, 0) == "blocks");
  // No block fits at all.
  CHECK(residency_limit(hopper, 32, 256, 300'000) == "shared memory");
  CHECK(residency_limit(hopper, 255, 1024, 0) == "registers");
}
