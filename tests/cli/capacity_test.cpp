// moeplan capacity, run as a user runs it.
#include "tests/cli/process.hpp"
#include "tests/deployment_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Json capacity_json(const Json& config, int exit_code = 0, const std::string& options = "") {
  const Output run = run_moeplan("capacity --format json -c - " + options, config.dump());
  INFO(run.err);
  REQUIRE(run.exit_code == exit_code);
  return Json::parse(run.out);
}

Json row_of(const Json& table, const std::string& key, const Json& value) {
  for (const Json& row : table) {
    if (row[key] == value) return row;
  }
  FAIL("no row " << value);
  return {};
}

// Everything an engine prints, so that nothing stays open.
Json glm52_measured(const char* available) {
  Json config = glm52_json();
  config["measured"] = {{"source", "a start log"},       {"model_loading", "75.85 GiB"},
                        {"peak_activation", "1.90 GiB"}, {"non_torch", "0.24 GiB"},
                        {"graph_estimate", "0.27 GiB"},  {"graph_actual", "0.14 GiB"},
                        {"requested", "87.41 GiB"},      {"available_kv", available},
                        {"free_memory", "93.61 GiB"},    {"total_memory", "95.01 GiB"}};
  return config;
}

}  // namespace

TEST_CASE("with nothing measured capacity prints what is derivable and leaves the rest open") {
  const Output run = run_moeplan("capacity -c configs/glm52.json");
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
  CHECK(run.out.starts_with("glm52: UNDECIDED · KV cache of at most "));
  CHECK(contains(run.out, "1,234,128,464 B (1,176.96 MiB) of MoE scratch per rank"));
  for (const char* figure : {"43.51", "1,054.16", "79.28", "not stated", "add measured.peak_activation"})
    CHECK(contains(run.out, figure));
  CHECK(contains(run.out, "KV: 31,976 B a token and rank, 65.6 tokens/MiB at DCP 2"));
}

TEST_CASE("prefill capacities of 512, 1,024 and 1,536 buy 52,473, 41,978 and 31,484 KV tokens") {
  const Json report = capacity_json(glm52_json());
  const std::tuple<i64, i64, i64, i64> choices[] = {{512, 838'944'000, 52'473, 6},
                                                    {1024, 671'155'200, 41'978, 3},
                                                    {1536, 503'366'400, 31'484, 2},
                                                    {3072, 0, 0, 1}};
  for (const auto& [capacity, bytes, tokens, launches] : choices) {
    const Json row = row_of(report["prefill_capacities"], "capacity", capacity);
    CHECK(row["gained_bytes"] == bytes);
    CHECK(row["gained_kv_tokens"] == tokens);
    CHECK(row["launches_per_layer"] == launches);
  }
  CHECK(row_of(report["prefill_capacities"], "capacity", 2048)["tail_rows"] == 1024);
}

TEST_CASE("a draft with EXL3 experts doubles the scratch and what a capacity buys") {
  Json config = glm52_json();
  config["deployment"]["draft_is_exl3"] = true;
  const Json report = capacity_json(config);
  CHECK(report["totals"]["scratch_bytes"] == 2 * 1'234'128'464ll);
  CHECK(row_of(report["prefill_capacities"], "capacity", 512)["gained_bytes"] == 2 * 838'944'000ll);
  CHECK(report["findings"][0]["rule"] == "exl3-draft-runtime");
}

TEST_CASE("a deployment whose request fits says FITS with an interval of tokens") {
  const Json config = glm52_measured("9.15 GiB");
  const Json report = capacity_json(config);
  CHECK(report["verdict"].get<std::string>().find("FITS · KV cache of 614,144..614,784 tokens") !=
        std::string::npos);
  CHECK(report["fit"] == "fits");
  const Json exact = [&] {
    Json stated = config;
    stated["measured"]["available_kv"] = 9'824'737'689;
    return capacity_json(stated);
  }();
  CHECK(exact["totals"]["kv_tokens_lo"] == exact["totals"]["kv_tokens_hi"]);
}

TEST_CASE("a deployment whose request does not fit exits 1 and says which setting would") {
  const Json report = capacity_json(glm52_measured("1.91 GiB"), 1);
  CHECK(report["verdict"].get<std::string>().starts_with("glm52: DOES NOT FIT"));
  const Json longest = row_of(report["largest"], "setting", "deployment.max_model_len");
  CHECK(longest["certain"].get<i64>() < 524'288);
  Json shorter = glm52_measured("1.91 GiB");
  shorter["deployment"]["max_model_len"] = longest["certain"];
  CHECK(capacity_json(shorter)["fit"] == "fits");
  shorter["deployment"]["max_model_len"] = longest["possible"].get<i64>() + 1;
  CHECK(capacity_json(shorter, 1)["fit"] == "does not fit");
}

TEST_CASE("the largest batched tokens fit, and one more does not") {
  Json config = glm52_json();
  config["budget"] = {{"weights", "80 GiB"},
                      {"base_activation", "0.5 GiB"},
                      {"non_torch", "0.24 GiB"},
                      {"graph_pool", "0.2 GiB"},
                      {"margin", "4 GiB"}};
  config["measured"]["requested"] = 95'000'000'000;
  config["deployment"]["max_model_len"] = 131'072;
  const Json largest =
      row_of(capacity_json(config)["largest"], "setting", "deployment.max_num_batched_tokens");
  CHECK(largest["certain"] == largest["possible"]);
  config["deployment"]["max_num_batched_tokens"] = largest["certain"];
  CHECK(capacity_json(config)["fit"] == "fits");
  config["deployment"]["max_num_batched_tokens"] = largest["certain"].get<i64>() + 1;
  CHECK(capacity_json(config, 1)["fit"] == "does not fit");
}

TEST_CASE("an engine path that is not modelled hides behind no total") {
  Json config = glm52_json();
  config["quant"] = {{"source_format", "modelopt_nvfp4"}};
  config["parallel"]["tp"] = 8;
  const Json report = capacity_json(config);
  CHECK(report["verdict"].get<std::string>().find("MoE workspace not modelled") != std::string::npos);
  CHECK(report["totals"]["scratch_bytes"] == nullptr);
  CHECK(report["moe_modelled"] == false);
  CHECK(!report.contains("prefill_capacities"));
}

TEST_CASE("ranks that differ stand side by side and the bottleneck is named") {
  Json config = glm52_measured("9.15 GiB");
  config["deployment"]["max_model_len"] = 65'536;
  config["ranks"] =
      Json::array({{{"name", "stage 0"}, {"layers", 40}, {"measured", {{"available_kv", "9.15 GiB"}}}},
                   {{"name", "stage 1"}, {"layers", 39}, {"measured", {{"available_kv", "3.18 GiB"}}}}});
  const Json report = capacity_json(config);
  CHECK(report["bottleneck"] == "stage 1");
  CHECK(report["inside_profile"][0].contains("rank_1_lo"));
  CHECK(report["verdict"].get<std::string>().find("bottleneck stage 1") != std::string::npos);
}

TEST_CASE("buffers outside the arenas are listed on request") {
  const Json report = capacity_json(glm52_json(), 0, "--buffers");
  i64 bytes = 0;
  for (const Json& row : report["buffers"]) bytes += row["bytes"].get<i64>();
  CHECK(bytes == 83'130'384);
  CHECK(report["runtime_keys"].size() == 17);
}

TEST_CASE("probing a machine without a GPU exits 4 with the reason") {
  const Output run = run_moeplan("capacity --probe -c configs/glm52.json");
  if (run.exit_code == 4) {
    CHECK(run.out.empty());
    CHECK(run.err.starts_with("error[no_device]: "));
  } else {
    CHECK(contains(run.out, "THIS MACHINE"));
  }
}

TEST_CASE("capacity refuses what it cannot answer and points at it") {
  struct Case {
    const char* patch;
    const char* pointer;
  };
  const Case cases[] = {
      {R"({"budget": {"margin": -1}})", "/budget/margin"},
      {R"({"budget": {"margin": "-4.1 GiB"}})", "/budget/margin"},
      {R"({"measured": {"kv_tokens": -1}})", "/measured/kv_tokens"},
      {R"({"measured": {"requested": "87.41"}})", "/measured/requested"},
      {R"({"parallel": {"tp": 3}})", "/parallel/tp"},
      {R"({"parallel": {"tp": 0}})", "/parallel/tp"},
      {R"({"quant": {"source_format": "gguf"}})", "/quant/source_format"},
      {R"({"model": {"n_routed_experts": null}})", "/model/n_routed_experts"},
      {R"({"deployment": {"kv_cache_dtype": "fp4"}})", "/deployment/kv_cache_dtype"},
      {R"({"quant": {"tiers": [{"bits": 2, "experts": 256}]}})", "/quant/tiers/0/bits"},
      {R"({"deployment": {"cudagraph_capture_sizes": [0]}})", "/deployment/cudagraph_capture_sizes/0"},
      {R"({"deployment": {"env": {"VLLM_EXL3_TRELLIS_MIN_M": 65}}})",
       "/deployment/env/VLLM_EXL3_TRELLIS_MIN_M"}};
  for (const Case& c : cases) {
    Json config = glm52_json();
    config.merge_patch(Json::parse(c.patch));
    const Output run = run_moeplan("capacity -c -", config.dump(2));
    INFO(c.patch << "\n" << run.err);
    CHECK(run.exit_code == 3);
    CHECK(run.out.empty());
    CHECK(contains(run.err, c.pointer));
  }
  CHECK(
      run_moeplan("capacity -c -", R"({"schema_version": 1, "contract": "sparkinfer-de04125"})").exit_code ==
      3);
}

TEST_CASE("size counts the buffers of mixed bit widths") {
  Json config = glm52_mixed_json();
  config["deployment"]["env"]["VLLM_EXL3_PREFILL_CAPACITY"] = 1024;
  const Output run = run_moeplan("size --format json -c -", config.dump());
  REQUIRE(run.exit_code == 0);
  const Json report = Json::parse(run.out);
  CHECK(report["totals"]["per_rank_bytes"] == 16'947'856 + 276'349'776);
  CHECK(report["mixed_buffers"][1]["tensors"].size() == 13);
}
