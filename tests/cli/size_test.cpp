// moeplan size, run as a user runs it.
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/support.hpp"

using namespace moeplan::test;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Json size_json(const std::string& arguments, const std::string& input = "") {
  const Output run = run_moeplan("size --format json " + arguments, input);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return Json::parse(run.out);
}

Json glm52() { return Json::parse(read_source("configs/glm52.json")); }

// What `size -c -` says of a config that is wrong.
Output refuse(const Json& config) {
  Output run = run_moeplan("size -c -", config.dump(2));
  CHECK(run.exit_code == 3);
  CHECK(run.out.empty());
  return run;
}

}  // namespace

TEST_CASE("size prints the verdict first and both arenas of the GLM-5.2 deployment") {
  const Output run = run_moeplan("size --config configs/glm52.json");
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
  CHECK(run.out.starts_with("glm52: 1,150,998,080 B (1,097.68 MiB) of MoE scratch per rank · 2 arenas"));
  CHECK(contains(run.out, "45,628,520     43.51"));
  CHECK(contains(run.out, "1,105,369,560  1,054.16"));
  CHECK(contains(run.out, "kernel_workspace"));
}

TEST_CASE("the 160-expert config gives the report's bytes") {
  const Json report = size_json("-c configs/glm52-e160.json");
  CHECK(report["arenas"][0]["bytes"] == 45'624'728);
  CHECK(report["arenas"][1]["bytes"] == 1'105'344'232);
  CHECK(report["totals"]["per_rank_bytes"] == 1'150'968'960);
}

TEST_CASE("the gate config plans 32 decode tokens and 8,192 prefill tokens") {
  const Json report = size_json("-c configs/glm52-gate8192.json");
  CHECK(report["arenas"][0]["max_tokens"] == 32);
  CHECK(report["arenas"][1]["max_tokens"] == 8192);
}

TEST_CASE("option --set raises the prefill arena to 2,654.32 MiB") {
  const Output run = run_moeplan("size -c configs/glm52.json --set /deployment/max_num_batched_tokens=8192");
  CHECK(run.exit_code == 0);
  CHECK(contains(run.out, "2,654.32"));
}

TEST_CASE("tensors of the JSON answer add up to their arena") {
  const Json report = size_json("-c configs/glm52.json");
  for (const Json& arena : report["arenas"]) {
    std::int64_t end = 0;
    for (const Json& tensor : arena["tensors"]) {
      CHECK(tensor["offset"] >= end);
      CHECK(tensor["offset"].get<std::int64_t>() - end < 16);
      end = tensor["offset"].get<std::int64_t>() + tensor["bytes"].get<std::int64_t>();
    }
    CHECK(end == arena["bytes"]);
  }
}

TEST_CASE("the same config gives the same bytes, from a file and from standard input") {
  const std::string text = read_source("configs/glm52.json");
  const Output once = run_moeplan("size -c configs/glm52.json --format json");
  const Output again = run_moeplan("size -c configs/glm52.json --format json");
  const Output piped = run_moeplan("size -c - --format json", text);
  CHECK(once.out == again.out);
  CHECK(once.out == piped.out);
}

TEST_CASE("several configs are answered in their order") {
  const Json both = size_json("-c configs/glm52-e160.json -c configs/glm52.json");
  CHECK(both["reports"][0]["name"] == "glm52-e160");
  CHECK(both["reports"][1]["name"] == "glm52");
}

TEST_CASE("one wrong config of several loses nothing of the others") {
  const Output run = run_moeplan("size -q -c configs/glm52.json -c /nowhere.json -c configs/glm52-e160.json");
  CHECK(run.exit_code == 3);
  CHECK(contains(run.out, "glm52: "));
  CHECK(contains(run.out, "glm52-e160: "));
  CHECK(contains(run.err, "error[unreadable]: cannot read /nowhere.json"));
}

TEST_CASE("option --contract plans the same deployment under another contract") {
  const Json report = size_json("-c configs/glm52.json --contract b12x-36bce2c");
  CHECK(report["contract"] == "b12x-36bce2c");
  CHECK(report["arenas"][0]["weight_layout"] == "trellis_t256");
}

TEST_CASE("an EXL3 draft owns a second set of arenas") {
  const Json report = size_json("-c configs/glm52.json --set /deployment/draft_is_exl3=true");
  CHECK(report["arenas"].size() == 4);
  CHECK(report["totals"]["per_rank_bytes"] == 2 * 1'150'998'080ll);
  const Json silent = size_json(
      "-c configs/glm52.json --set /deployment/draft_is_exl3=true"
      " --set /deployment/num_speculative_tokens=0");
  CHECK(silent["arenas"].size() == 2);
}

TEST_CASE("the prefill plan exists only for exactly \"1\" and more tokens than the decode plan") {
  const auto arenas = [](const char* set) {
    return size_json(std::string("-c configs/glm52.json --set '/deployment/") + set + "'")["arenas"].size();
  };
  CHECK(arenas("env/VLLM_EXL3_PREFILL_TRELLIS=1") == 2);
  CHECK(arenas("env/VLLM_EXL3_PREFILL_TRELLIS=0") == 1);
  CHECK(arenas("env/VLLM_EXL3_PREFILL_TRELLIS=\"true\"") == 1);
  CHECK(arenas("max_num_batched_tokens=64") == 1);
}

TEST_CASE("prefill capacity bounds the prefill plan and may not exceed the scheduler") {
  const Json report = size_json("-c configs/glm52.json --set /deployment/env/VLLM_EXL3_PREFILL_CAPACITY=512");
  CHECK(report["arenas"][1]["max_tokens"] == 512);
  const Output run =
      run_moeplan("size -c configs/glm52.json --set /deployment/env/VLLM_EXL3_PREFILL_CAPACITY=4096");
  CHECK(run.exit_code == 3);
  CHECK(contains(run.err, "must be at most max_num_batched_tokens 3072, got 4096"));
  CHECK(contains(run.err, "--> --set:1:1"));
}

TEST_CASE("any recorded request can be stated as a plan of a config") {
  std::vector<Json> sample;
  for (const char* path : {"tests/golden/moe_w4a16.jsonl", "tests/golden/moe_micro_dynamic.jsonl"}) {
    for (Json& recorded : read_lines(path)) sample.push_back(std::move(recorded));
  }
  Json config = {{"schema_version", 1}, {"contract", "sparkinfer-de04125"}, {"plans", Json::array()}};
  std::vector<std::int64_t> totals;
  for (const Json& recorded : sample) {
    if (!recorded["response"].contains("layout")) continue;
    config["plans"].push_back(recorded["request"]);
    totals.push_back(recorded["response"]["layout"]["total_bytes"]);
  }
  const Json report = size_json("-c -", config.dump());
  REQUIRE(report["arenas"].size() == totals.size());
  for (std::size_t i = 0; i < totals.size(); ++i) CHECK(report["arenas"][i]["bytes"] == totals[i]);
}

TEST_CASE("stated plans take contract and device from their config and may be unpinned") {
  Json plan = {{"id", "ad hoc"},
               {"kind", "moe_tp"},
               {"weights",
                {{"quant_mode", "w4a16"},
                 {"source_format", "compressed_tensors"},
                 {"activation", "silu"},
                 {"io_dtype", "bfloat16"},
                 {"experts", 160},
                 {"hidden_size", 6144},
                 {"intermediate_size", 512}}},
               {"capacity", {{"max_tokens", 64}, {"top_k", 8}, {"block_size_m", nullptr}}}};
  const Json config = {{"schema_version", 1},
                       {"plans", {plan}},
                       {"contract", "sparkinfer-c2f135c"},
                       {"device", {{"sm_count", 188}}}};
  const Json report = size_json("-c -", config.dump());
  CHECK(report["arenas"][0]["bytes"] == 31'491'908);
  CHECK(report["arenas"][0]["pinned"] == false);
}

TEST_CASE("an unknown key names its place and what was probably meant") {
  Json config = glm52();
  config["deployment"]["max_num_batch_tokens"] = 1;
  const Output run = refuse(config);
  CHECK(contains(run.err, "error[unknown_key]: unknown key \"max_num_batch_tokens\""));
  CHECK(contains(run.err, "/deployment/max_num_batch_tokens"));
  CHECK(contains(run.err, "help: did you mean \"max_num_batched_tokens\"?"));
}

TEST_CASE("keys that start with x- are free") {
  Json config = glm52();
  config["x-owner"] = "serving";
  config["deployment"]["x-note"] = {1, 2};
  CHECK(run_moeplan("size -c -", config.dump()).exit_code == 0);
}

TEST_CASE("a quoted number is pointed at and unquoted") {
  const Output run = run_moeplan("size -c -",
                                 "{\n  \"schema_version\": 1,\n  \"contract\": \"sparkinfer-de04125\",\n"
                                 "  \"model\": {\"n_routed_experts\": \"160 \"}\n}\n");
  CHECK(run.exit_code == 3);
  CHECK(contains(run.err, "error[wrong_type]: n_routed_experts must be an integer, got \"160 \""));
  CHECK(contains(run.err, "--> stdin:4:33   /model/n_routed_experts"));
  CHECK(contains(run.err, "help: write 160 (no quotes)"));
}

TEST_CASE("every mistake of a config is reported in one run") {
  Json config = glm52();
  config["model"]["hidden_size"] = "big";
  config["parallel"]["tp"] = 0;
  config["deployment"]["dtype"] = "bfloat";
  const Output run = refuse(config);
  CHECK(contains(run.err, "hidden_size must be an integer"));
  CHECK(contains(run.err, "tp must be 1..1024, got 0"));
  CHECK(contains(run.err, "did you mean \"bfloat16\"?"));
}

TEST_CASE("every mistake of an EXL3 deployment is reported in one run") {
  Json config = glm52();
  config["parallel"]["tp"] = 6;
  config["deployment"]["env"] = {{"VLLM_EXL3_TRELIS_MAX_M", 64},
                                 {"VLLM_EXL3_PREFIL_BLOCK_M", 64},
                                 {"VLLM_EXL3_PREFILL_CHUNK", "abc"},
                                 {"VLLM_EXL3_R7_FUSED", 1}};
  const Output run = refuse(config);
  for (const char* part : {"got 2048 / 6", "VLLM_EXL3_TRELIS_MAX_M", "VLLM_EXL3_PREFIL_BLOCK_M",
                           "VLLM_EXL3_PREFILL_CHUNK must be a positive integer", "R7 kernels"})
    CHECK(contains(run.err, part));
}

TEST_CASE("shapes are never defaulted") {
  for (const char* field :
       {"hidden_size", "moe_intermediate_size", "n_routed_experts", "num_experts_per_tok"}) {
    Json config = glm52();
    config["model"].erase(field);
    const Output run = refuse(config);
    INFO(run.err);
    CHECK(contains(run.err, std::string("error[missing_field]: ") + field + " is missing"));
    CHECK(contains(run.err, std::string("/model/") + field));
  }
}

TEST_CASE("a tensor-parallel size that does not divide names those that do") {
  const Output run = run_moeplan("size -c configs/glm52.json --set /parallel/tp=6");
  CHECK(run.exit_code == 3);
  CHECK(contains(run.err, "got 2048 / 6"));
  CHECK(contains(run.err, "tp 1, 2, 4, 8, 16 work here"));
}

TEST_CASE("a misspelt EXL3 variable is an error, not a silent default") {
  const Output run =
      run_moeplan("size -c configs/glm52.json --set /deployment/env/VLLM_EXL3_TRELIS_MAX_M=64");
  CHECK(run.exit_code == 3);
  CHECK(contains(run.err, "did you mean \"VLLM_EXL3_TRELLIS_MAX_M\"?"));
}

TEST_CASE("a block size no kernel has points at its variable") {
  const Output run =
      run_moeplan("size -c configs/glm52.json --set /deployment/env/VLLM_EXL3_PREFILL_BLOCK_M=24");
  CHECK(run.exit_code == 3);
  CHECK(contains(run.err, "block_size_m must be one of 8, 16, 32, 48, 64, got 24"));
  CHECK(contains(run.err, "/deployment/env/VLLM_EXL3_PREFILL_BLOCK_M"));
}

TEST_CASE("variables are read only where the command line allows them") {
  Json config = glm52();
  config["deployment"]["max_num_batched_tokens"] = "${MOEPLAN_TEST_TOKENS:-2048}";
  const Json fallback = size_json("-c - --allow-env MOEPLAN_TEST_TOKENS", config.dump());
  CHECK(fallback["arenas"][1]["max_tokens"] == 2048);
  setenv("MOEPLAN_TEST_TOKENS", "4096", 1);
  const Json set = size_json("-c - --allow-env MOEPLAN_TEST_TOKENS", config.dump());
  CHECK(set["arenas"][1]["max_tokens"] == 4096);
  refuse(config);  // the default is no way around the permission
  config["deployment"]["max_num_batched_tokens"] = "${MOEPLAN_TEST_TOKENS}";
  const Output run = refuse(config);
  CHECK(contains(run.err, "allow it with --allow-env MOEPLAN_TEST_TOKENS"));
  CHECK(!contains(run.err, "4096"));
  unsetenv("MOEPLAN_TEST_TOKENS");
}

TEST_CASE("malformed texts are refused with code 3 and their place") {
  const std::pair<const char*, const char*> kTexts[] = {
      {"", "error[invalid_json]"},
      {"{\"schema_version\": 1,}", "error[invalid_json]"},
      {"{\"schema_version\": 1} trailing", "error[invalid_json]"},
      {"{\"schema_version\": 1, \"schema_version\": 1}", "error[duplicate_key]"},
      {"{\"schema_version\": 1e3}", "floating-point number 1e3"},
      {"{\"schema_version\": 99999999999999999999}", "error[out_of_range]"},
      {"{\"schema_version\": 2}", "error[unknown_schema_version]"},
      {"{\"name\": \"\xff\"}", "error[invalid_json]"},
      {"[]", "a config must be an object"},
      {"{\"schema_version\": 1, \"contract\": \"sparkinfer\"}", "error[unknown_contract]"},
      {"{\"schema_version\": 1, \"contract\": \"sparkinfer-de04125\"}", "describes no deployment"},
      {"{}", "error[missing_field]"},
  };
  for (const auto& [text, expected] : kTexts) {
    const Output run = run_moeplan("size -c -", text);
    INFO(text << "\n" << run.err);
    CHECK(run.exit_code == 3);
    CHECK(run.out.empty());
    CHECK(contains(run.err, expected));
    CHECK(contains(run.err, "stdin:1:"));
  }
}

TEST_CASE("nesting beyond 64 levels and texts beyond 16 MiB are refused") {
  const Output deep = run_moeplan("size -c -", std::string(100, '['));
  CHECK(deep.exit_code == 3);
  CHECK(contains(deep.err, "error[too_deep]"));
  CHECK(contains(deep.err, "stdin:1:65"));
  const Output large = run_moeplan("size -c -", std::string((16u << 20) + 1, ' '));
  CHECK(large.exit_code == 3);
  CHECK(contains(large.err, "error[too_large]"));
}

TEST_CASE("control bytes of an input never reach the terminal") {
  const Output run = run_moeplan("size -c -", "{\"\\u001b[31mred\": 1}");
  CHECK(run.exit_code == 3);
  CHECK(!contains(run.err, "\x1b"));
  CHECK(contains(run.err, "\\x1b[31mred"));
}

TEST_CASE("problems in JSON carry code, pointer, file, line and column") {
  const Output run = run_moeplan("size --format json -c -", "{\n  \"schema_version\": \"1\"\n}");
  CHECK(run.exit_code == 3);
  const Json error = Json::parse(run.out)["errors"][0];
  CHECK(error["code"] == "wrong_type");
  CHECK(error["pointer"] == "/schema_version");
  CHECK(error["file"] == "stdin");
  CHECK(error["line"] == 2);
  CHECK(error["column"] == 21);
}

TEST_CASE("the command line is checked with code 2") {
  for (const char* arguments : {"size", "size -c", "sise", "size -c configs/glm52.json --format pdf",
                                "size -c configs/glm52.json --nope", "batch --input"}) {
    INFO(arguments);
    CHECK(run_moeplan(arguments).exit_code == 2);
  }
  CHECK(run_moeplan("").exit_code == 2);
  CHECK(run_moeplan("--help").exit_code == 0);
  CHECK(run_moeplan("size --help").exit_code == 0);
}

TEST_CASE("option --set is refused where it leads nowhere") {
  CHECK(run_moeplan("size -c configs/glm52.json --set nothing").exit_code == 2);
  CHECK(run_moeplan("size -c configs/glm52.json --set deployment=1").exit_code == 2);
  for (const char* set : {"/name/inner=1", "/plans/7=1", "'/x-a~2=1'", "'/parallel={\"tp\":4,\"tp\":2}'"}) {
    const Output run = run_moeplan(std::string("size -c configs/glm52.json --set ") + set);
    INFO(set << run.err);
    CHECK(run.exit_code == 3);
    CHECK(run.out.empty());
  }
}

TEST_CASE("a null contract is a missing one") {
  const Output run = run_moeplan("size -c configs/glm52.json --set /contract=null");
  CHECK(run.exit_code == 3);
  CHECK(contains(run.err, "error[missing_field]: contract is missing"));
  CHECK(run_moeplan("size -c configs/glm52.json --contract nope").exit_code == 2);
  CHECK(run_moeplan("size -c configs/glm52.json --contract ''").exit_code == 2);
}

TEST_CASE("what stands behind a NUL byte is not ignored") {
  const std::string text = read_source("configs/glm52.json");
  const Output run = run_moeplan("size -c -", text + std::string("\0 more", 6));
  CHECK(run.exit_code == 3);
  CHECK(contains(run.err, "the text goes on behind a NUL byte"));
}

TEST_CASE("the verdict names the contracts of the plans, and their sum may not overflow") {
  Json plan = {{"kind", "moe_tp"},
               {"contract", "b12x-36bce2c"},
               {"weights",
                {{"quant_mode", "w4a16"},
                 {"source_format", "compressed_tensors"},
                 {"activation", "silu"},
                 {"io_dtype", "bfloat16"},
                 {"experts", 65536},
                 {"hidden_size", 1 << 20},
                 {"intermediate_size", 1 << 20}}},
               {"capacity", {{"max_tokens", 1 << 24}, {"top_k", 4096}}}};
  Json config = {{"schema_version", 1},
                 {"contract", "sparkinfer-c2f135c"},
                 {"device", {{"sm_count", 4096}}},
                 {"plans", {plan}}};
  CHECK(contains(run_moeplan("size -q -c -", config.dump()).out, "contract b12x-36bce2c"));
  for (int i = 0; i < 30; ++i) config["plans"].push_back(plan);
  const Output run = run_moeplan("size -q -c -", config.dump());
  CHECK(run.exit_code == 3);
  CHECK(contains(run.err, "error[out_of_range]: these plans together pass"));
}

TEST_CASE("a compute capability that nothing compares with is refused") {
  for (const char* text : {"sm_121", "12.1 ", "121", ""}) {
    Json config = glm52();
    config["device"]["compute_capability"] = text;
    CHECK(contains(refuse(config).err, "error[invalid_value]: compute_capability cannot be"));
  }
}

TEST_CASE("a failed check exits with the code of a bug") {
  CHECK(run_moeplan("batch </dev/zero >/dev/null & pid=$!; sleep 0.2; kill -ABRT $pid; wait $pid; echo $?")
            .out == "70\n");
}

TEST_CASE("a text without quotes and a width that no kernel reads are told with what would work") {
  const Output quotes = run_moeplan("size -c configs/glm52.json --set /device/compute_capability=9.0");
  CHECK(quotes.exit_code == 3);
  CHECK(contains(quotes.err,
                 "help: write \"9.0\", with quotes; in a shell --set "
                 "'/device/compute_capability=\"9.0\"'\n"));
  const Output bits = run_moeplan("size -c configs/glm52.json --set /quant/bits=2");
  CHECK(bits.exit_code == 3);
  CHECK(contains(bits.err, "help: state the checkpoint's own width"));
}

TEST_CASE("help explains every error word") {
  CHECK(contains(run_moeplan("help unknown_key").out, "a key that its object does not have"));
  CHECK(contains(run_moeplan("help errors").out, "misaligned_shape"));
  CHECK(run_moeplan("help unknown_kye").exit_code == 2);
}

TEST_CASE("a full disk is noticed") {
  CHECK(run_moeplan("size -c configs/glm52.json > /dev/full; echo $?").out == "3\n");
}

TEST_CASE("version says what the build is made of") {
  CHECK(run_moeplan("--version").out.starts_with("moeplan "));
  const Output run = run_moeplan("version -v");
  CHECK(run.exit_code == 0);
  CHECK(contains(run.out, "sparkinfer-c2f135c"));
  CHECK(contains(run.out, "nlohmann-json"));
}

TEST_CASE("the published schema is the one the field tables make") {
  CHECK(run_moeplan("schema").out == read_source("configs/schema/moeplan.config.v1.schema.json"));
}
