// Launch keys against those that a running engine logged, and the register counts behind them.
#include "planner/launch/coverage.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

constexpr i64 kSharedMemory = 101'376;

// GLM-5.2 on four ranks of 188 multiprocessors.
LaunchPlan glm52_plan(i64 capacity, i64 block, i64 experts = 256) {
  MoeRequest request = trellis_request("sparkinfer-de04125", experts, 6144, 512, 8, capacity, 188);
  request.weights.io_dtype = DType::bfloat16;
  request.weights.trellis_tile_config = {64, 256, 64, 256};
  request.capacity.block_size_m = block;
  const auto layout = plan_moe(request);
  REQUIRE(layout);
  const auto plan = launch_plan(request, *layout, kSharedMemory);
  REQUIRE(plan);
  return *plan;
}

Json json_of(const KeyElements& elements) {
  Json list = Json::array();
  for (const KeyElement& element : elements) {
    const auto* nested = std::get_if<KeyElements>(&element.value);
    list.push_back(nested ? json_of(*nested) : Json::parse(value_text(element)));
  }
  return list;
}

bool is_prewarmed(const LaunchPlan& plan, i64 tokens) {
  const auto keys = prewarmed_keys(plan);
  REQUIRE(keys);
  return std::ranges::find(*keys, *launch_key(plan, tokens)) != keys->end();
}

}  // namespace

TEST_CASE("launch keys equal the recorded ones, element by element") {
  int cases = 0;
  for (const Json& recorded : read_lines("tests/golden/launch_keys.jsonl")) {
    const LaunchPlan plan = glm52_plan(recorded["capacity"], recorded["block_size_m"]);
    const auto key = launch_key(plan, recorded["live_tokens"]);
    REQUIRE(key);
    const Json elements = json_of(elements_of(*key));
    REQUIRE(elements.size() == recorded["key"].size());
    for (std::size_t i = 0; i < elements.size(); ++i) {
      INFO("element " << i);
      CHECK(elements[i] == recorded["key"][i]);
      CHECK(elements[i].is_boolean() == recorded["key"][i].is_boolean());
    }
    CHECK(key->max_m_blocks() == recorded["max_m_blocks"]);
    CHECK(key->blocks_per_sm == recorded["blocks_per_sm"]);
    CHECK(key->shared_words == recorded["shared_words"]);
    const Json tiles = {key->fc1.tile.k, key->fc1.tile.n, key->fc2.tile.k, key->fc2.tile.n};
    CHECK(tiles == recorded["tiles"]);
    ++cases;
  }
  CHECK(cases == 7);
}

TEST_CASE("register counts equal the recorded ones, and no other tile has one") {
  const Json recorded = Json::parse(read_source("tests/golden/launch_registers.json"));
  int known = 0;
  for (i64 block : {8, 16, 32, 48, 64}) {
    for (i64 threads : {128, 256}) {
      for (i64 n_16 = 1; n_16 <= 32; ++n_16) {
        for (i64 k_16 = 1; k_16 <= 16; ++k_16) {
          std::optional<i64> expected;
          for (const Json& row : recorded) {
            if (row["threads"] == threads && row["cta_m_blocks"] == m_blocks_of(block) &&
                row["tile_n_16"] == n_16 && row["tile_k_16"] == k_16 && row["block_size_8"] == (block == 8))
              expected = row["registers"].get<i64>();
          }
          if (registers_of({k_16 * 16, n_16 * 16, threads}, block) != expected)
            FAIL("block " << block << " threads " << threads << " n " << n_16 << " k " << k_16);
          known += expected ? 1 : 0;
        }
      }
    }
  }
  CHECK(known == 18);
}

TEST_CASE("3,072 prefill tokens at block 64 match their prewarmed kernel from 3,065 tokens on") {
  const LaunchPlan plan = glm52_plan(3072, 64);
  const std::pair<i64, i64> blocks[] = {{65, 268},   {128, 268},  {512, 316}, {1024, 380},
                                        {2048, 508}, {2049, 509}, {3072, 636}};
  for (const auto& [tokens, expected] : blocks) {
    CHECK(max_m_blocks(plan, tokens) == expected);
    const auto key = launch_key(plan, tokens);
    CHECK(key->fc1.tile == Tile{64, 256, 256});
    CHECK(key->fc2.tile == Tile{64, 256, 256});
  }
  for (i64 tokens = 1; tokens <= 3072; ++tokens) {
    if (is_prewarmed(plan, tokens) != (tokens >= 3065)) FAIL("at " << tokens << " tokens");
  }
  CHECK(coverage_of(*key_runs(plan, {{65, 3072}})).keys == 133);
}

TEST_CASE("64 decode tokens at block 8 probe 7 kernels, none of them prewarmed") {
  const LaunchPlan plan = glm52_plan(64, 8);
  std::vector<i64> blocks;
  for (i64 tokens = 1; tokens <= 64; ++tokens) {
    const auto key = launch_key(plan, tokens);
    CHECK(key->fc1.tile == Tile{128, 128, 256});
    CHECK_FALSE(is_prewarmed(plan, tokens));
    if (blocks.empty() || blocks.back() != key->max_m_blocks()) blocks.push_back(key->max_m_blocks());
  }
  CHECK(blocks == std::vector<i64>{8, 16, 32, 64, 128, 256, 288});
  CHECK(prewarmed_keys(plan)->size() == 1);
}

TEST_CASE("8,192 prefill tokens match from 4,097 on: the upper bucket is the capacity's") {
  const LaunchPlan plan = glm52_plan(8192, 64);
  CHECK(plan.arena_blocks == 1276);
  for (i64 tokens = 4090; tokens <= 8192; ++tokens) {
    if (is_prewarmed(plan, tokens) != (tokens >= 4097)) FAIL("at " << tokens << " tokens");
  }
}

TEST_CASE("32 decode tokens at block 8 prewarm 2 kernels, probe 6 others") {
  const LaunchPlan plan = glm52_plan(32, 8);
  CHECK(prewarmed_keys(plan)->size() == 2);
  for (i64 tokens = 1; tokens <= 32; ++tokens) CHECK_FALSE(is_prewarmed(plan, tokens));
  CHECK(coverage_of(*key_runs(plan, {{1, 32}})).keys == 6);
}

TEST_CASE("48 decode tokens at block 8 probe 22 kernels: beyond 32 the bucket does not fit") {
  const LaunchPlan plan = glm52_plan(48, 8);
  CHECK(plan.arena_blocks == 272);
  CHECK(coverage_of(*key_runs(plan, {{1, 48}})).keys == 22);
  const std::pair<i64, i64> captured[] = {{36, 260}, {40, 264}, {44, 268}, {48, 272}};
  for (const auto& [tokens, expected] : captured) CHECK(max_m_blocks(plan, tokens) == expected);
}

TEST_CASE("with 160 experts 3,072 prefill tokens match from 3,069 on") {
  const LaunchPlan plan = glm52_plan(3072, 64, 160);
  CHECK(plan.arena_blocks == 542);
  for (i64 tokens = 3000; tokens <= 3072; ++tokens) {
    if (is_prewarmed(plan, tokens) != (tokens >= 3069)) FAIL("at " << tokens << " tokens");
  }
}

TEST_CASE("slices of 1,024 tokens leave 10 kernels to tails") {
  const LaunchPlan plan = glm52_plan(1024, 64);
  CHECK(plan.arena_blocks == 380);
  const auto runs = key_runs(plan, {{1, 1024}});
  REQUIRE(runs);
  const std::tuple<i64, i64, i64> expected[] = {
      {1, 1, 8},     {2, 2, 16},     {3, 4, 32},      {5, 8, 64},      {9, 16, 128},    {17, 32, 256},
      {33, 64, 260}, {65, 128, 268}, {129, 256, 284}, {257, 512, 316}, {513, 1024, 380}};
  REQUIRE(runs->size() == std::size(expected));
  for (std::size_t i = 0; i < runs->size(); ++i) {
    const auto& [first, last, blocks] = expected[i];
    const KeyRun& run = (*runs)[i];
    CHECK(run.tokens == LiveRange{first, last});
    CHECK(run.key.max_m_blocks() == blocks);
    CHECK(run.keys == 1);
    CHECK(is_prewarmed(plan, first) == (first == 513));
  }
}
