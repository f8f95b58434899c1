// How many blocks a multiprocessor holds.
#include "runtime/jit/architecture.hpp"

#include "tests/catch.hpp"

using namespace moeplan;

TEST_CASE("architectures are found by name and by compute capability") {
  REQUIRE(find_architecture("sm_120"));
  CHECK(find_architecture("sm_120") == architecture_of("12.0"));
  CHECK(find_architecture("sm_120")->shared_bytes_per_block == 101'376);
  CHECK(find_architecture("sm_12") == nullptr);
  CHECK(architecture_of("12") == nullptr);
}

TEST_CASE("a grid of 188 blocks with 101,376 bytes each is resident on 132 multiprocessors of sm_90") {
  CHECK(132 * resident_blocks(*find_architecture("sm_90"), 128, 256, 101'376) >= 188);
  CHECK(resident_blocks(*find_architecture("sm_90"), 128, 256, 101'376) == 2);
  CHECK(resident_blocks(*find_architecture("sm_120"), 128, 256, 101'376) == 1);
}

TEST_CASE("each limit of a multiprocessor decides where it is the smallest") {
  const Architecture& hopper = *find_architecture("sm_90");
  CHECK(resident_blocks(hopper, 16, 32, 0) == 32);           // blocks
  CHECK(resident_blocks(hopper, 16, 1024, 0) == 2);          // warps
  CHECK(resident_blocks(hopper, 255, 256, 0) == 1);          // registers: 8 warps of 8,192
  CHECK(resident_blocks(hopper, 128, 256, 0) == 2);          // registers: 16 warps of 4,096
  CHECK(resident_blocks(hopper, 129, 256, 0) == 1);          // one register more costs a block
  CHECK(resident_blocks(hopper, 32, 128, 227 * 1024) == 1);  // shared memory
  CHECK(resident_blocks(hopper, 32, 128, 227 * 1024 + 1) == 0);
  CHECK(resident_blocks(*find_architecture("sm_120"), 32, 128, 48 * 1024) == 2);
  CHECK(resident_blocks(*find_architecture("sm_120"), 32, 128, 49 * 1024 + 1) == 1);
}

TEST_CASE("launches overlap and have clusters from sm_90 on, which is where kernels ask for it") {
  for (const Architecture& architecture : architectures()) {
    INFO(architecture.name);
    const bool is_older =
        architecture.name == "sm_80" || architecture.name == "sm_86" || architecture.name == "sm_89";
    CHECK(architecture.overlaps_launches == !is_older);
    CHECK(architecture.has_clusters == !is_older);
  }
}
