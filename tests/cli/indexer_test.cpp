// The indexer in size and explain, run as a user runs them.
#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/support.hpp"

using namespace moeplan::test;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Json answer(const std::string& arguments) {
  const Output run = run_moeplan(arguments + " --format json");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return Json::parse(run.out);
}

Json size_glm52(const std::string& sets = "") { return answer("size -c configs/glm52.json " + sets); }

// The findings of that rule.
std::vector<Json> findings(const Json& report, const std::string& rule) {
  std::vector<Json> found;
  for (const Json& finding : report["findings"]) {
    if (finding["rule"] == rule) found.push_back(finding);
  }
  return found;
}

std::string set_env(const std::string& name, const std::string& json) {
  return "--set '/deployment/env/" + name + "=" + json + "' ";
}

}  // namespace

TEST_CASE("size lists both indexer arenas of GLM-5.2 and the fold slabs as late allocations") {
  const Json report = size_glm52();
  REQUIRE(report["indexer_arenas"].size() == 2);
  CHECK(report["indexer_arenas"][0]["route"] == "paged_tiled");
  CHECK(report["indexer_arenas"][0]["rows"] == 48);
  CHECK(report["indexer_arenas"][0]["bytes"] == 10'750'976);
  CHECK(report["indexer_arenas"][1]["route"] == "packed_contiguous");
  CHECK(report["indexer_arenas"][1]["bytes"] == 557'999'104);
  CHECK(report["totals"]["indexer_per_rank_bytes"] == 10'750'976 + 557'999'104);
  CHECK(report["totals"]["late_per_rank_bytes"] == 268'380'840);
  CHECK(report["late_allocations"][1]["bytes"] == 268'380'840);
  CHECK(report["late_allocations"][1]["rows"] == 2'730);
  CHECK(report["late_allocations"][1]["slices"] == 6);
  const Output run = run_moeplan("size -c configs/glm52.json");
  CHECK(contains(run.out, "allocated after profiling"));
  CHECK(contains(run.out, "never touched"));
}

TEST_CASE("the gate config's four decode rows take the fused route") {
  const Json report = answer("size -c configs/glm52-gate8192.json");
  CHECK(report["indexer_arenas"][0]["route"] == "paged_fused");
  CHECK(report["indexer_arenas"][0]["bytes"] == 7'487'488);
}

TEST_CASE("a model without index_topk has no indexer arenas, one that misses half of it is refused") {
  const Output dense = run_moeplan(
      "size --format json -c configs/glm52.json --set /model/index_topk=null --set "
      "/model/index_n_heads=null");
  CHECK(dense.exit_code == 0);
  CHECK(!Json::parse(dense.out).contains("indexer_arenas"));
  const Output half = run_moeplan("size -c configs/glm52.json --set /model/index_n_heads=null");
  CHECK(half.exit_code == 3);
  CHECK(contains(half.err, "/model/index_n_heads"));
}

TEST_CASE("finding: the indexer is not planned where its settings are not stated") {
  for (const char* setting : {"max_num_seqs", "max_model_len"}) {
    const Json report = size_glm52(std::string("--set /deployment/") + setting + "=null");
    CHECK(!report.contains("indexer_arenas"));
    const auto found = findings(report, "indexer-not-planned");
    REQUIRE(found.size() == 1);
    CHECK(found[0]["pointer"] == std::string("/deployment/") + setting);
  }
}

TEST_CASE("a malformed indexer variable points at its place in the config") {
  const Output run =
      run_moeplan("size -c configs/glm52.json " + set_env("SPARKINFER_INDEXER_TWO_LEVEL_FOLD", "maybe"));
  CHECK(run.exit_code == 3);
  CHECK(contains(run.err, "error[invalid_environment]"));
  CHECK(contains(run.err, "/deployment/env/SPARKINFER_INDEXER_TWO_LEVEL_FOLD"));
}

TEST_CASE("finding: reserve that the route never touches") {
  const auto found = findings(answer("size -c configs/glm52-gate8192.json"), "indexer-untouched-reserve");
  REQUIRE(found.size() == 1);
  CHECK(found[0]["bytes"] > 4'000'000);
  CHECK(contains(found[0]["message"], "tile_logits"));
}

TEST_CASE("finding: late allocation, gone when the fold is off") {
  CHECK(findings(size_glm52(), "indexer-late-allocation").size() == 2);
  CHECK(findings(size_glm52(set_env("SPARKINFER_INDEXER_TWO_LEVEL_FOLD", "off")), "indexer-late-allocation")
            .empty());
}

TEST_CASE("finding: the fold's cap is none between 524,352 and 1,046,528 tokens") {
  CHECK(findings(size_glm52(), "indexer-fold-cap").empty());
  const auto found = findings(size_glm52("--set /deployment/max_model_len=1000000"), "indexer-fold-cap");
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0]["message"], "61 slices"));
  CHECK(found[0]["bytes"] == 47'972'544 - 25'166'016);
}

TEST_CASE("finding: a stated supertile beyond the context, with what it costs") {
  const std::string short_context = "--set /deployment/max_model_len=1024 ";
  CHECK(findings(size_glm52(short_context), "indexer-supertile-beyond-context").empty());
  const auto found =
      findings(size_glm52(short_context + set_env("SPARKINFER_PAGED_INDEX_SUPERTILE_K", "32768")),
               "indexer-supertile-beyond-context");
  REQUIRE(found.size() == 2);
  CHECK(found[0]["bytes"] == 64 * (32'768 - 1'024) * 4);
}

TEST_CASE("finding: variables of the other prefix are silently ignored") {
  CHECK(findings(size_glm52(set_env("B12X_FUSED_INDEXER", "0")), "indexer-ignored-variable").size() == 1);
  CHECK(findings(size_glm52(set_env("SPARKINFER_FUSED_INDEXER", "0")), "indexer-ignored-variable").empty());
  CHECK(findings(size_glm52("--contract b12x-36bce2c " + set_env("SPARKINFER_FUSED_INDEXER", "0")),
                 "indexer-ignored-variable")
            .size() == 1);
}

TEST_CASE("finding: texts that mean something else than they seem to") {
  const std::pair<const char*, const char*> kMisleading[] = {
      {"SPARKINFER_FUSED_INDEXER", "\"false\""},
      {"SPARKINFER_FUSED_INDEXER", "\" 0\""},
      {"SPARKINFER_INDEXER_STREAM_SCORER", "\"enabled\""},
      {"SPARKINFER_INDEXER_DIRECT_K", "\"off\""},
      {"SPARKINFER_NSA_CONTIGUOUS_PREFILL_THRESHOLD", "256"},
      {"SPARKINFER_PAGED_INDEX_SUPERTILE_K", "-1"},
      {"VLLM_EXL3_PREFILL_TRELLIS", "\"true\""},
  };
  for (const auto& [name, text] : kMisleading) {
    INFO(name << "=" << text);
    const auto found = findings(size_glm52(set_env(name, text)), "misleading-variable");
    REQUIRE(found.size() == 1);
    CHECK(found[0]["pointer"] == std::string("/deployment/env/") + name);
    CHECK(!found[0]["remedy"].get<std::string>().empty());
  }
  for (const auto& [name, text] : {std::pair{"SPARKINFER_FUSED_INDEXER", "0"},
                                   {"SPARKINFER_FUSED_INDEXER", "1"},
                                   {"SPARKINFER_INDEXER_STREAM_SCORER", "\"off\""},
                                   {"SPARKINFER_NSA_CONTIGUOUS_PREFILL_THRESHOLD", "1"},
                                   {"VLLM_EXL3_PREFILL_TRELLIS", "1"}}) {
    INFO(name << "=" << text);
    CHECK(findings(size_glm52(set_env(name, text)), "misleading-variable").empty());
  }
}

TEST_CASE("explain indexer says which route, by which rule, and what the others would take") {
  const Output run = run_moeplan("explain indexer --config configs/glm52.json");
  CHECK(run.exit_code == 0);
  CHECK(run.out.starts_with(
      "glm52: indexer decode takes paged_tiled, indexer prefill takes packed_contiguous"));
  CHECK(contains(run.out, "48 rows pass the 16 that fused takes for 32 heads with top-k 2048"));
  CHECK(contains(run.out, "unless folded in two levels"));
  const Json report = answer("explain indexer -c configs/glm52.json");
  CHECK(report["routes"].size() == 6);
  CHECK(report["routes"][1]["taken"] == true);
  CHECK(report["routes"][2]["bytes"] == 15'076'352);
}

TEST_CASE("explain indexer --step counts launches, allocations and environment reads") {
  const Json report = answer("explain indexer -c configs/glm52.json --step");
  const Json& decode = report["steps"][0];
  CHECK(decode["chunks"] == 16);
  CHECK(decode["launches"] == 33);
  CHECK(decode["allocated_bytes"] == 25'166'016);
  CHECK(decode["env_reads"] == 34);
  CHECK(decode["env_reads_per_step"] == 714);
  CHECK(report["steps"][1]["env_reads"] == 18);
}

TEST_CASE("explain says when the indexer is not planned, and why") {
  const Output run = run_moeplan("explain indexer -c configs/glm52.json --set /deployment/max_num_seqs=null");
  CHECK(run.exit_code == 0);
  CHECK(contains(run.out, "is not planned"));
  CHECK(contains(run.out, "max_num_seqs is not stated"));
}

TEST_CASE("explain refuses topics it does not know with code 2") {
  CHECK(run_moeplan("explain nothing -c configs/glm52.json").exit_code == 2);
  CHECK(run_moeplan("explain -c configs/glm52.json").exit_code == 2);
}

TEST_CASE("any recorded indexer arena can be stated as a plan of a config") {
  Json config = {{"schema_version", 1}, {"contract", "sparkinfer-de04125"}, {"plans", Json::array()}};
  std::vector<std::int64_t> totals;
  for (const Json& recorded : read_lines("tests/golden/indexer.jsonl")) {
    if (!recorded["response"].contains("layout")) continue;
    config["plans"].push_back(recorded["request"]);
    totals.push_back(recorded["response"]["layout"]["total_bytes"]);
  }
  const Output run = run_moeplan("size --format json -c -", config.dump());
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const Json report = Json::parse(run.out);
  REQUIRE(report["indexer_arenas"].size() == totals.size());
  for (std::size_t i = 0; i < totals.size(); ++i) CHECK(report["indexer_arenas"][i]["bytes"] == totals[i]);
}
