// Grids whose blocks wait for each other, and what limits how many are resident.
#include "runtime/jit/residency.hpp"

#include "tests/catch.hpp"

using namespace moeplan;

TEST_CASE("a grid with a barrier is refused when one block more than can be resident is asked for") {
  const Residency residency{.blocks_per_sm = 2, .sm_count = 132, .limit = "shared memory"};
  CHECK(check_resident("fused_trellis", 264, residency));
  const Status refused = check_resident("fused_trellis", 265, residency);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::grid_not_resident);
  CHECK(refused.error().message ==
        "fused_trellis waits for all of its 265 blocks, and only 264 can be resident: 2 blocks a "
        "multiprocessor on "
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
