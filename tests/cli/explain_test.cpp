// moeplan explain ARENA[/TENSOR], kv and total, run as a user runs them.
#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/support.hpp"

using namespace moeplan::test;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Json answer(const std::string& arguments, const std::string& input = "") {
  const Output run = run_moeplan(arguments + " --format json", input);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return Json::parse(run.out);
}

Json row(const Json& report, const std::string& change) {
  for (const Json& neighbour : report["neighbours"]) {
    if (neighbour["change"] == change) return neighbour;
  }
  FAIL("no neighbour " << change);
  return {};
}

// The prefill arena's bytes as size gives them after a change, and those of one tensor in it.
std::pair<std::int64_t, std::int64_t> sized(const std::string& change, const std::string& tensor) {
  const Json report = answer("size -c configs/glm52.json " + change);
  const Json& arena = report["arenas"][1];
  for (const Json& t : arena["tensors"]) {
    if (t["name"] == tensor) return {t["bytes"], arena["bytes"]};
  }
  return {0, arena["bytes"]};
}

}  // namespace

TEST_CASE("explain prefill/fc1_c_tmp puts the values into the formula and names the active bound") {
  const Output run = run_moeplan("explain prefill/fc1_c_tmp -c configs/glm52.json");
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
  CHECK(run.out.starts_with("glm52: prefill/fc1_c_tmp takes 49,283,072 B (47.00 MiB) of 1,105,369,560 B"));
  CHECK(contains(run.out,
                 "min(1,024 x 40,704 = 41,680,896, 188 x 4 x 64 x 256 = 12,320,768) = 12,320,768 elements x "
                 "4 B = 49,283,072 B  sms*4*b*256"));
  CHECK(contains(run.out,
                 "docs/contracts.md section 3; sparkinfer-de04125, host.py, "
                 "packed_gemm_scratch_elements"));
}

TEST_CASE("the neighbours of a tensor are what size says after the change") {
  for (const std::string tensor : {"fc1_c_tmp", "intermediate_cache13", "block_expert_ids"}) {
    const Json report = answer("explain prefill/" + tensor + " -c configs/glm52.json");
    const std::pair<const char*, const char*> changes[] = {
        {"block 8", "--set /deployment/env/VLLM_EXL3_PREFILL_BLOCK_M=8"},
        {"block 48", "--set /deployment/env/VLLM_EXL3_PREFILL_BLOCK_M=48"},
        {"capacity 1,536", "--set /deployment/env/VLLM_EXL3_PREFILL_CAPACITY=1536"},
        {"capacity 6,144", "--set /deployment/max_num_batched_tokens=6144"},
        {"tp 2", "--set /parallel/tp=2"},
        {"tp 8", "--set /parallel/tp=8"},
        {"contract b12x-36bce2c", "--contract b12x-36bce2c"}};
    for (const auto& [change, set] : changes) {
      INFO(tensor << ": " << change);
      const auto [bytes, arena] = sized(set, tensor);
      const Json moved = row(report, change);
      CHECK(moved["bytes"] == bytes);
      CHECK(moved["arena_bytes"] == arena);
      CHECK(moved["reason"] == "");
      // Where it says to set it is where it was set.
      const std::string knob = moved["knob"];
      CHECK((contains(set, knob) || knob == "/contract"));
    }
  }
}

TEST_CASE("the neighbours of the indexer and of the total are what size says after the change") {
  const Json indexer = answer("explain indexer-prefill -c configs/glm52.json");
  const Json wider = answer("size -c configs/glm52.json --set /deployment/max_num_batched_tokens=6144");
  CHECK(row(indexer, "rows 6,144")["knob"] == "/deployment/max_num_batched_tokens");
  CHECK(row(indexer, "rows 6,144")["bytes"] == wider["indexer_arenas"][1]["bytes"]);
  const Json narrow =
      answer("size -c configs/glm52.json --set /deployment/env/SPARKINFER_PAGED_INDEX_SUPERTILE_K=8192");
  CHECK(row(indexer, "supertile 8,192")["bytes"] == narrow["indexer_arenas"][1]["bytes"]);
  CHECK(row(answer("explain total -c configs/glm52.json"), "max_num_batched_tokens 6,144")["bytes"] ==
        wider["totals"]["per_rank_bytes"]);
}

TEST_CASE("a neighbour that cannot be planned says why") {
  const Json narrow = answer("explain decode -c configs/glm52.json --set /parallel/tp=16");
  CHECK(contains(row(narrow, "tp 32")["reason"], "multiples of 128"));
  CHECK(row(narrow, "tp 32")["bytes"].is_null());
  const Json single = answer("explain decode -c configs/glm52.json --set /parallel/tp=1");
  CHECK(contains(row(single, "tp 0")["reason"], "no half"));
}

TEST_CASE("stated plans of every kind are explained with their own knobs") {
  const std::string config =
      R"({"schema_version": 1, "contract": "sparkinfer-c2f135c", "device": {"sm_count": 132},
    "plans": [{"id": "mine/a", "kind": "moe_ep", "weights": {"quant_mode": "w4a16",
      "source_format": "compressed_tensors", "activation": "silu", "io_dtype": "bfloat16", "experts": 32,
      "hidden_size": 4096, "intermediate_size": 1536},
      "capacity": {"max_tokens": 100, "top_k": 8, "global_experts": 128}}]})";
  const Json arena = answer("explain mine/a -c -", config);
  CHECK(contains(row(arena, "block")["reason"], "no pin"));
  CHECK(row(arena, "capacity 200")["knob"] == "/plans/0/capacity/max_tokens");
  const Json tensor = answer("explain mine/a/packed_route_indices -c -", config);
  CHECK(tensor["source"] == "docs/contracts.md section 3");
  CHECK(tensor["formulas"].back()["bytes"] == tensor["totals"]["bytes"]);
}

TEST_CASE("explain kv gives the bytes of a token and their formula") {
  const Json report = answer("explain kv -c configs/glm52.json");
  CHECK(report["totals"]["kv_bytes_per_token"] == 31'976);
  CHECK(row(report, "no speculation")["bytes"] == 31'476);
  const Json capacity = answer("capacity -c configs/glm52-mixed325.json");
  const Json mixed = answer("explain kv -c configs/glm52-mixed325.json");
  CHECK(mixed["totals"]["kv_tokens_lo"] == capacity["totals"]["kv_tokens_lo"]);
  CHECK(mixed["totals"]["kv_tokens_hi"] == capacity["totals"]["kv_tokens_hi"]);
}

TEST_CASE("a name that nothing has is a wrong command line that says what there is") {
  const Output arena = run_moeplan("explain prefil -c configs/glm52.json");
  CHECK(arena.exit_code == 2);
  CHECK(arena.out.empty());
  CHECK(contains(arena.err, "did you mean \"prefill\"?"));
  CHECK(contains(arena.err, "indexer, kv, total, decode, prefill, indexer decode"));
  const Output tensor = run_moeplan("explain prefill/fc1_tmp -c configs/glm52.json");
  CHECK(tensor.exit_code == 2);
  CHECK(contains(tensor.err, "did you mean \"prefill/fc1_c_tmp\"?"));
  CHECK(contains(tensor.err, "packed_route_indices"));
  // A config that is wrong is wrong whatever is asked of it.
  CHECK(run_moeplan("explain prefil -c configs/glm52.json --set /parallel/tp=3").exit_code == 3);
}

TEST_CASE("a name may be written with any case and with - or _ for its blanks") {
  const std::string plain = run_moeplan("explain 'indexer decode' -c configs/glm52.json").out;
  CHECK(run_moeplan("explain indexer-decode -c configs/glm52.json").out == plain);
  CHECK(run_moeplan("explain Indexer_Decode -c configs/glm52.json").out == plain);
}
