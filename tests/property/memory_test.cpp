// The memory planner over many deployments: bounds, monotonicity, and searches against brute force.
#include <random>

#include "planner/core/limits.hpp"
#include "planner/deployment/fit.hpp"
#include "planner/deployment/indexer_requests.hpp"
#include "planner/deployment/mixed_buffers.hpp"
#include "planner/deployment/parity_staging.hpp"
#include "planner/indexer/plan_indexer.hpp"
#include "tests/deployment_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

TEST_CASE("buffers at the largest accepted inputs stay within 62 bits") {
  const i64 most = i64{1} << 62;
  const auto check = [&](const std::vector<Buffer>& buffers) {
    i64 sum = 0;
    for (const Buffer& b : buffers) {
      CHECK(b.bytes >= 0);
      CHECK(b.bytes < most - sum);
      sum += b.bytes;
    }
  };
  check(mixed_state({kMaxDimension, kMaxDimension, kMaxExperts, kMaxTopK, kMaxMultiprocessors}, kMaxTokens));
  check(parity_staging(
      {kMaxDimension, kMaxDimension, kMaxExperts, kMaxTopK, kMaxTokens, kMaxTokens, kMaxMultiprocessors}));
  KvCache cache;
  cache.block_tokens = 1024;
  cache.dcp = 1024;
  cache.declared_token_bytes = kMaxKvBytesPerToken;
  CHECK(needed_for_one_request(cache, i64{1} << 32) > 0);
  CHECK(needed_for_one_request(cache, i64{1} << 32) < most);
  cache.block_tokens = 1;
  cache.declared_token_bytes = 1;
  CHECK(kv_tokens(cache, i64{1} << 50, i64{1} << 32) == i64{1} << 60);
}

TEST_CASE("mixed states never shrink as their capacity grows") {
  for (i64 experts : {8, 64, 256}) {
    i64 before = 0;
    for (i64 capacity = 1; capacity <= 3000; ++capacity) {
      const i64 bytes = total_bytes(mixed_state({2048, 256, experts, 8, 132}, capacity));
      CHECK(bytes >= before);
      before = bytes;
    }
  }
}

TEST_CASE("scratch never shrinks as scheduled tokens grow beyond the decode plan, nor below it") {
  for (const Json& config : {glm52_json(), glm52_mixed_json()}) {
    Deployment d = deployment_of(config);
    const i64 window = read_exl3_settings(*d.engine)->decode_tokens;
    i64 before = 0;
    for (i64 tokens = 1; tokens <= 1200; ++tokens) {
      d.engine->max_num_batched_tokens = tokens;
      const auto bytes = scratch_bytes_of(d);
      REQUIRE(bytes);
      if (tokens != window + 1) CHECK(*bytes >= before);
      before = *bytes;
    }
  }
}

// Runtimes and indexer arenas, planned one by one.
static i64 counted_bytes(const Deployment& d) {
  i64 bytes = *scratch_bytes_of(d);
  const auto requests = indexer_requests(d);
  for (const PlanRequest& request : *requests) bytes += plan_indexer_paged(request.indexer)->total_bytes;
  return bytes;
}

TEST_CASE("the largest settings are those an exhaustive search finds") {
  std::mt19937 random(7);
  for (int round = 0; round < 12; ++round) {
    Json config = round % 2 ? glm52_mixed_json() : glm52_json();
    config["deployment"]["max_model_len"] = 1 + static_cast<i64>(random() % 40'000);
    config["deployment"]["max_num_batched_tokens"] = 1 + static_cast<i64>(random() % 600);
    config["measured"]["available_kv"] = static_cast<i64>(random() % 1'500'000'000);
    const Deployment d = deployment_of(config);
    const auto budget = memory_budget(d);
    REQUIRE(budget);
    const i64 need = needed_for_one_request(budget->kv, *d.engine->max_model_len);
    const i64 available = *budget->available_kv.bytes.lo;
    const i64 growing = counted_bytes(d);
    std::optional<i64> tokens, length;
    for (i64 t = 1; t <= 3000; ++t) {
      Deployment other = d;
      other.engine->max_num_batched_tokens = t;
      if (available - (counted_bytes(other) - growing) >= need) tokens = t;
    }
    for (i64 t = 1; t <= 200'000; ++t) {
      if (needed_for_one_request(budget->kv, t) <= available) length = t;
    }
    const auto rows = largest_settings(d, *budget);
    INFO("round " << round);
    if (!tokens || *tokens < 3000) CHECK(rows[0].certain == tokens);
    if (!length || *length < 200'000) CHECK(rows[1].certain.value_or(0) == length.value_or(0));
  }
}

TEST_CASE("an interval of memory gives tokens in order, and its ends are reached") {
  const auto cache = kv_cache_of(glm52());
  REQUIRE(cache);
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    const i64 lo = static_cast<i64>(random() % 20'000'000'000),
              hi = lo + static_cast<i64>(random() % 100'000'000);
    const TokenRange tokens = kv_tokens(*cache, ByteRange{lo, hi}, 524'288);
    CHECK(tokens.lo <= tokens.hi);
    CHECK(tokens.lo == kv_tokens(*cache, kv_blocks(*cache, lo), 524'288));
    CHECK(kv_tokens(*cache, exactly(lo), 524'288).hi == tokens.lo);
  }
}
