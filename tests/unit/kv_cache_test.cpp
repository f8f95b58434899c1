#include "planner/deployment/kv_cache.hpp"

#include "cli/io/decimal.hpp"
#include "tests/deployment_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

KvCache cache_of(const Json& config) {
  auto cache = kv_cache_of(deployment_of(config));
  if (!cache) FAIL(cache.error().pointer << " " << cache.error().message);
  return *cache;
}

Json config_with(i64 speculative, i64 record, bool all_layers, i64 dcp = 2) {
  Json config = glm52_json();
  config["deployment"]["num_speculative_tokens"] = speculative;
  config["deployment"]["kv_record_bytes"] = record;
  if (all_layers) config["deployment"]["indexer_cache"] = "all_layers";
  config["parallel"]["dcp"] = dcp;
  return config;
}

Json config_of(const char* dtype) {
  Json config = glm52_json();
  config["deployment"].erase("kv_record_bytes");
  config["deployment"]["kv_cache_dtype"] = dtype;
  return config;
}

}  // namespace

TEST_CASE("MLA records of GLM-5.2 take 1152, 656, 656 and 368 B by type, and 576 without a sparse indexer") {
  CHECK(cache_of(config_of("bfloat16")).record_bytes == 1152);
  CHECK(cache_of(config_of("fp8")).record_bytes == 656);
  CHECK(cache_of(config_of("fp8_ds_mla")).record_bytes == 656);
  const KvCache nvfp4 = cache_of(config_of("nvfp4_ds_mla"));
  CHECK(nvfp4.record_bytes == 368);
  CHECK(nvfp4.other_record == 432);
  Json dense = config_of("fp8");
  dense["model"].erase("index_topk");
  CHECK(cache_of(dense).record_bytes == 576);
  CHECK(cache_of(dense).index_layers == 0);
}

TEST_CASE("bytes a token and tokens per 100 MiB equal the recorded table") {
  struct Line {
    i64 record, speculative;
    bool all_layers;
    i64 bytes, tokens[3];  // DCP 1, 2, 4
  };
  const Line lines[] = {
      {368, 0, false, 31'476, {3331, 6663, 13325}}, {368, 3, false, 31'976, {3279, 6559, 13117}},
      {432, 0, false, 36'468, {2875, 5751, 11501}}, {432, 5, false, 37'032, {2832, 5663, 11326}},
      {656, 0, false, 53'940, {1944, 3888, 7776}},  {656, 1, false, 54'728, {1916, 3832, 7664}},
      {656, 1, true, 62'252, {1684, 3369, 6738}},   {656, 0, true, 61'464, {-1, -1, -1}}};
  for (const Line& line : lines) {
    for (int i = 0; i < 3; ++i) {
      const i64 dcp = i64{1} << i;
      const KvCache cache = cache_of(config_with(line.speculative, line.record, line.all_layers, dcp));
      INFO(line.record << " dcp " << dcp);
      CHECK(cache.bytes_per_token() == line.bytes);
      // The table rounds to the nearest token.
      const i64 bytes = 100 * kMiB * dcp;
      if (line.tokens[i] >= 0) CHECK((2 * bytes + line.bytes) / (2 * line.bytes) == line.tokens[i]);
    }
  }
}

TEST_CASE("heads of grouped-query attention replicate when there are more ranks than heads") {
  Json config = config_of("bfloat16");
  for (const char* field : {"kv_lora_rank", "index_topk", "q_lora_rank"}) config["model"].erase(field);
  config["model"]["num_key_value_heads"] = 2;
  config["model"]["head_dim"] = 128;
  for (const auto& [tp, heads] : {std::pair{1, 2}, {2, 1}, {4, 1}, {8, 1}}) {
    config["parallel"]["tp"] = tp;
    CHECK(cache_of(config).record_bytes == 2 * heads * 128 * 2);
    CHECK(cache_of(config).block_tokens == 16);
  }
  config["deployment"]["kv_cache_dtype"] = "fp8";
  CHECK(cache_of(config).record_bytes == 2 * 128);
}

TEST_CASE("the indexer's layers follow the stated cache, else what the model says") {
  Json config = config_of("fp8");
  CHECK(cache_of(config).index_layers == 22);
  config["deployment"]["indexer_cache"] = "all_layers";
  CHECK(cache_of(config).index_layers == 79);
  config["deployment"]["indexer_cache"] = "full_layers";
  CHECK(cache_of(config).index_layers == 22);
  config["deployment"].erase("indexer_cache");
  config["model"].erase("index_full_layers");
  CHECK(cache_of(config).index_layers == 79);
}

TEST_CASE("a declared rate replaces the derived bytes") {
  Json config = glm52_json();
  config["budget"]["kv_bytes_per_token_per_rank"] = 14'769;
  const KvCache cache = cache_of(config);
  CHECK(cache.bytes_per_token() == 14'769);
  CHECK(tokens_of_bytes(cache, 100 * kMiB) == 100 * kMiB * 2 / 14'769);
}

TEST_CASE("a request takes whole blocks on each rank, and admission needs them all") {
  const KvCache cache = cache_of(config_with(3, 368, false, 4));
  CHECK(cache.page_bytes() == 64 * 31'976);
  CHECK(blocks_per_request(cache, 131'072) == 512);
  CHECK(blocks_per_request(cache, 131'073) == 513);
  CHECK(needed_for_one_request(cache, 131'072) == 512 * 64 * 31'976);
  CHECK(kv_blocks(cache, cache.page_bytes() - 1) == 0);
  CHECK(kv_blocks(cache, -1) == 0);
  CHECK(kv_tokens(cache, 982, 131'072) == 251'392);
  CHECK(max_concurrency_hundredths(251'392, 131'072) == 192);
  CHECK(estimated_max_model_len(cache, 430 * cache.page_bytes()) == 110'080);
}

TEST_CASE("tokens equal what the engine's floating point gives, for all small cases and some large") {
  KvCache cache;
  cache.block_tokens = 64;
  const auto engine = [](i64 blocks, i64 per, i64 longest) {
    return static_cast<i64>(static_cast<double>(blocks) / static_cast<double>(per) *
                            static_cast<double>(longest));
  };
  i64 checked = 0, inexact = 0;
  const auto check = [&](i64 blocks, i64 longest) {
    const i64 per = blocks_per_request(cache, longest);
    const i64 expected = engine(blocks, per, longest);
    ++checked;
    inexact += expected != static_cast<i64>(static_cast<__int128_t>(blocks) * longest / per);
    if (kv_tokens(cache, blocks, longest) != expected) {
      INFO(blocks << " blocks, " << longest);
      CHECK(kv_tokens(cache, blocks, longest) == expected);
    }
  };
  for (i64 blocks = 0; blocks <= 400; ++blocks) {
    for (i64 longest = 1; longest <= 3000; longest += 7) check(blocks, longest);
  }
  std::uint64_t random = 1;
  for (int i = 0; i < 200'000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    check(static_cast<i64>(random >> 34) >> (i % 30),
          1 + (static_cast<i64>(random >> 20 & 0xFFFFFFFF) >> (i % 29)));
  }
  CHECK(checked > 300'000);
  // The engine's product falls just below the whole number in some of them.
  CHECK(inexact > 0);
}

TEST_CASE("the memory of a token count is every amount that gives it, and no other") {
  KvCache cache;
  cache.block_tokens = 4;
  cache.record_bytes = 3;
  cache.layers = 1;
  for (i64 longest : {1, 5, 7, 16, 100}) {
    for (i64 tokens = 0; tokens < 60; ++tokens) {
      const auto memory = memory_of_tokens(cache, tokens, longest);
      for (i64 bytes = 0; bytes < 400; ++bytes) {
        const bool gives = kv_tokens(cache, kv_blocks(cache, bytes), longest) == tokens;
        const bool is_inside = memory && bytes >= memory->lo && bytes <= memory->hi;
        CHECK(gives == is_inside);
      }
    }
  }
}

TEST_CASE("the KV cache says what it needs and where") {
  struct Case {
    const char* patch;
    const char* pointer;
  };
  const Case cases[] = {
      {R"({"deployment": {"kv_cache_dtype": null, "kv_record_bytes": null}})", "/deployment/kv_cache_dtype"},
      {R"({"model": {"num_hidden_layers": null}})", "/model/num_hidden_layers"},
      {R"({"model": {"index_head_dim": null}})", "/model/index_head_dim"},
      {R"({"model": {"qk_rope_head_dim": null}, "deployment": {"kv_record_bytes": null}})",
       "/model/qk_rope_head_dim"},
      {R"({"model": {"kv_lora_rank": null}, "deployment": {"kv_record_bytes": null}})",
       "/deployment/kv_cache_dtype"},
      {R"({"model": {"kv_lora_rank": null, "index_topk": null}, "deployment": {"kv_record_bytes": null}})",
       "/deployment/kv_cache_dtype"},
      {R"({"model": {"index_full_layers": null}, "deployment": {"indexer_cache": "full_layers"}})",
       "/model/index_full_layers"},
      {R"({"model": {"num_hidden_layers": 4096}, "deployment": {"kv_record_bytes": 1048576}})", "/model"},
  };
  for (const Case& c : cases) {
    Json config = glm52_json();
    config.merge_patch(Json::parse(c.patch));
    const auto cache = kv_cache_of(deployment_of(config));
    INFO(c.patch);
    REQUIRE(!cache);
    CHECK(cache.error().pointer == c.pointer);
  }
}

TEST_CASE("a printed size stands for half of its last digit either way") {
  CHECK(parse_printed_bytes("83.57 GiB") == ByteRange{89'727'235'522, 89'737'972'941});
  CHECK(parse_printed_bytes("2 GiB") == ByteRange{3 * kGiB / 2, 5 * kGiB / 2});
  CHECK(parse_printed_bytes("0.0 MiB") == ByteRange{0, 52'429});
  CHECK(parse_printed_bytes("512 B") == exactly(512));
  CHECK(!parse_printed_bytes("83.57"));
  CHECK(!parse_printed_bytes("-1 GiB"));
  const Json config = [] {
    Json json = glm52_json();
    json["measured"] = {{"model_loading", "83.57 GiB"}, {"non_torch", 1000}};
    return json;
  }();
  const Deployment d = deployment_of(config);
  CHECK(d.measured->model_loading == parse_printed_bytes("83.57 GiB"));
  CHECK(d.measured->non_torch == exactly(1000));
}
