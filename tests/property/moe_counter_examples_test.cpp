// What is widely believed of these plans and false, each with its counter-example.
#include "planner/moe/w4a16.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

TEST_CASE("F1 scratch is not monotone in the block size: block 8 beats 16, and even 64") {
  const auto elements = [](i64 rows, i64 experts, i64 columns, i64 sms, i64 b) {
    return gemm_scratch_elements(columns, route_slots(rows, b, experts), b, sms);
  };
  CHECK(elements(512, 160, 1024, 188, 8) == 3'080'192);
  CHECK(elements(512, 160, 1024, 188, 16) == 2'981'888);
  CHECK(elements(64, 1, 4096, 132, 8) == 581'632);
  CHECK(elements(64, 1, 4096, 132, 64) == 520'192);
}

TEST_CASE("F1 a 64-token packed arena is smaller pinned to 16 than pinned to 8") {
  const auto pinned = [](i64 block_size) {
    MoeRequest request = packed_request("sparkinfer-c2f135c", 160, 6144, 512, 8, 64, 188);
    request.capacity.block_size_m = block_size;
    return plan_moe(request)->total_bytes;
  };
  CHECK(pinned(16) == 31'103'732);
  CHECK(pinned(8) == 31'491'908);
}

TEST_CASE("F2 the block size chosen at capacity does not dominate the scratch") {
  const i64 selected = select_block_size(256, 6, 64);
  CHECK(selected == 32);
  CHECK(gemm_scratch_elements(512, route_slots(256 * 6, selected, 64), selected, 170) == 1'802'240);
  CoreSizes sizes{.rows = 256 * 6,
                  .tokens = 256,
                  .hidden = 512,
                  .fc1_columns = 512,
                  .intermediate = 256,
                  .experts = 64,
                  .multiprocessors = 170,
                  .cache2 = 0,
                  .slots = 0,
                  .blocks = 0,
                  .fc1_scratch = 0,
                  .fc2_scratch = 0,
                  .fc1_bound = Bound::none,
                  .fc2_bound = Bound::none};
  size_routes(sizes, reachable_blocks(256, 6, 64), {});
  CHECK(sizes.fc1_scratch == 2'031'616);

  // With exact rows it bites: three tokens select 16, two select 8 and need more.
  CHECK(select_block_size(3, 10, 4) == 16);
  CHECK(gemm_scratch_elements(64, route_slots(30, 16, 4), 16, 188) == 5'760);
  CHECK(select_block_size(2, 10, 4) == 8);
  CHECK(gemm_scratch_elements(64, route_slots(20, 8, 4), 8, 188) == 6'144);
}

TEST_CASE("F3 the largest block size does not have the most blocks") {
  const auto blocks = [](i64 rows, i64 experts, i64 b) { return ceil_div(route_slots(rows, b, experts), b); };
  CHECK(blocks(256 * 8, 160, 8) == 396);
  CHECK(blocks(256 * 8, 160, 16) == 278);
  CHECK(blocks(8 * 2, 2, select_block_size(8, 2, 2)) == 3);
  CHECK(blocks(7 * 2, 2, select_block_size(7, 2, 2)) == 4);
}

TEST_CASE("F4 a tensor can shrink as tokens rise: intermediate_cache2 from 8 to 16 tokens at n=96") {
  const auto cache2 = [](i64 tokens) {
    const MoeRequest request = native_request("sparkinfer-c2f135c", 128, 2048, 96, 8, tokens, 188);
    return find_tensor(*plan_moe(request), "intermediate_cache2")->shape.elements();
  };
  CHECK(cache2(8) == 16'384);
  CHECK(cache2(16) == 12'288);
}

TEST_CASE("F5 core bytes can exceed the bound tensors: a smaller count needs more") {
  const auto layout = plan_moe(native_request("sparkinfer-c2f135c", 64, 128, 16, 8, 16, 2));
  REQUIRE(layout);
  CHECK(layout->bound_tokens == 16);
  CHECK(layout->by_tokens.size() == 2);
  CHECK(layout->by_tokens[1].tokens == 8);
  CHECK(layout->by_tokens[1].bytes > layout->by_tokens[0].bytes);
  CHECK(layout->core_bytes == layout->by_tokens[1].bytes);
  CHECK(layout->arena.end < layout->total_bytes);
}

TEST_CASE("F6 an unpinned Trellis total of b12x falls from 285,120 to 272,400 bytes between 3 and 4 tokens") {
  const auto total = [](i64 tokens) {
    return plan_moe(trellis_request("b12x-36bce2c", 2, 128, 512, 4, tokens, 48))->total_bytes;
  };
  CHECK(total(3) == 285'120);
  CHECK(total(4) == 272'400);
}
