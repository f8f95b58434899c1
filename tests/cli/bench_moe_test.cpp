// moeplan bench moe without a GPU: what is refused before a GPU is needed, and what its absence comes to.
#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/support.hpp"
#include "tests/temporary_folder.hpp"

using namespace moeplan::test;

namespace {

// Without a compiler nothing is run, whatever the machine has.
constexpr const char* kNothing = "MOEPLAN_NVRTC=/nowhere/libnvrtc.so.13";

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

Output bench(const std::string& arguments, const std::string& input = "") {
  return run_moeplan("bench moe " + arguments, input, kNothing);
}

const std::string kConfig = "-c configs/glm52-e160.json ";

}  // namespace

TEST_CASE("without what it takes to run kernels bench moe exits 4 and says what is missing") {
  for (const std::string& arguments :
       {kConfig, kConfig + "--tokens 1,2,4,8,16,32,64,512,1024,3072", kConfig + "--tokens 8 --plan prefill",
        kConfig + "--executor faithful,sparkinfer-c2f135c --tokens 1,1,1",
        kConfig + "--capacity 512,1024,1536,3072",
        kConfig + "--capacity 100 --tokens 3072 --decode-rate 4.1 --flop-rate 630 --bandwidth-gb-s 4300"}) {
    INFO(arguments);
    const Output output = bench(arguments);
    CHECK(output.exit_code == 4);
    CHECK(output.out.empty());
    CHECK(output.err.starts_with("error[no_nvrtc]: "));
  }
}

TEST_CASE("with --if-available bench moe exits 0 and says that nothing was run, in every format") {
  const Output output = bench(kConfig + "--if-available");
  CHECK(output.exit_code == 0);
  CHECK(output.out.starts_with("glm52-e160: SKIPPED · nothing was run: "));
  const Json report = Json::parse(bench(kConfig + "--if-available --capacity 512 -o json").out);
  CHECK(report["schema"] == "moeplan.bench_moe/1");
  CHECK(report["name"] == "glm52-e160");
  CHECK(report["contract"] == "sparkinfer-de04125");
  CHECK(report["skipped"].is_string());
  CHECK(report["timings"].empty());
  CHECK(report["capacities"].empty());
  const Json both =
      Json::parse(bench(kConfig + "--executor faithful,sparkinfer-c2f135c --if-available -o json").out);
  CHECK(both["contract"] == "sparkinfer-de04125, sparkinfer-c2f135c");
}

TEST_CASE("bench moe refuses what it could not time, with the option and a remedy, ahead of a missing GPU") {
  const std::pair<std::string, std::string> refused[] = {
      {"", "bench moe times the plans of a config, and none is given"},
      {kConfig + "--tokens 0", "--tokens 0: item 1, 0, has to be a whole number from 1 to 16,777,216"},
      {kConfig + "--tokens 1,,2", "--tokens 1,,2: item 2 is empty"},
      {kConfig + "--tokens ''", "--tokens: the list is empty"},
      {kConfig + "--tokens 1,x", "--tokens 1,x: item 2, x, has to be"},
      {kConfig + "--tokens $(seq -s, 1 65)", "more than 64 numbers"},
      {kConfig + "--tokens 3073",
       "--tokens: 3,073 are more than plan prefill of executor faithful holds, 3,072"},
      {kConfig + "--tokens 65 --plan decode",
       "--tokens: 65 are more than plan decode of executor faithful holds, 64"},
      {kConfig + "--tokens 513 --set /deployment/env/VLLM_EXL3_PREFILL_CAPACITY=512",
       "give at most 512, or raise VLLM_EXL3_PREFILL_CAPACITY"},
      {kConfig + "--executor faithful,sparkinfer-de04125",
       "faithful and sparkinfer-de04125 both run the plans of sparkinfer-de04125"},
      {kConfig + "--contract moeplan-lean-1 --executor faithful,lean",
       "faithful and lean both run the plans of moeplan-lean-1"},
      {kConfig + "--capacity 512,4096", "--capacity 4096: a chunk has at most 3,072 tokens"},
      {kConfig + "--capacity 99999999", "--capacity 99999999: item 1, 99999999, has to be a whole number"},
      {kConfig + "--capacity 0", "--capacity 0: item 1, 0, has to be"},
      {kConfig + "--executor faithfull", "--executor faithfull: there is no such executor"},
      {kConfig + "--executor lean,lean", "--executor lean,lean: lean is named twice"},
      {kConfig + "--executor ''", "--executor : the list is empty"},
      {kConfig + "--decode-rate 0", "--decode-rate 0: has to be T weights/s from 0.001 to 1,000,000"},
      {kConfig + "--decode-rate ''", "--decode-rate: has to be T weights/s"},
      {kConfig + "--flop-rate fast", "--flop-rate fast: has to be TFLOP/s from 0.001"},
      {kConfig + "--flop-rate 1000001", "--flop-rate 1000001: has to be"},
      {kConfig + "--bandwidth-gb-s 0", "--bandwidth-gb-s 0: has to be a whole number"},
      {kConfig + "--rows 4", "--rows is an option of bench indexer, not of bench moe"},
      {kConfig + "--context 8k", "--context is an option of bench indexer"},
      {kConfig + "--group 4", "--group is an option of bench indexer"},
      {kConfig + "-c configs/glm52.json --evidence never.json", "--evidence is a record of one config"}};
  for (const auto& [arguments, message] : refused) {
    INFO(arguments);
    const Output output = bench(arguments + " --if-available");
    CHECK(output.exit_code == 2);
    CHECK(output.out.empty());
    CHECK(output.err.starts_with("error["));
    INFO(output.err);
    CHECK(contains(output.err, message));
    CHECK(contains(output.err, "\n  help: "));
  }
  const Output indexer = run_moeplan("bench indexer -c configs/glm52.json --tokens 1", "", kNothing);
  CHECK(indexer.exit_code == 2);
  CHECK(contains(indexer.err, "--tokens is an option of bench moe, not of bench indexer"));
  const Output alone =
      run_moeplan("bench indexer --rows 1 --context 8k --heads 32 --executor faithful", "", kNothing);
  CHECK(alone.exit_code == 2);
  CHECK(contains(alone.err, "--executor requires --config"));
}

TEST_CASE(
    "a config without Trellis plans that kernels of ours run is bad input, with the place and a remedy") {
  const std::string stated =
      R"({"schema_version": 1, "contract": "sparkinfer-de04125", "device": {"sm_count": 188}, "plans": [)";
  const std::string packed =
      stated +
      R"({"id": "p", "kind": "moe_tp", "weights": {"quant_mode": "w4a16", "source_format": "modelopt_nvfp4",
          "activation": "silu", "io_dtype": "bfloat16", "experts": 16, "hidden_size": 256,
          "intermediate_size": 128, "weight_layout": "mma_packed"}, "capacity": {"max_tokens": 64, "top_k": 4}}]})";
  const Output output = bench("-c - --if-available", packed);
  INFO(output.err);
  CHECK(output.exit_code == 3);
  CHECK(contains(output.err, "there is no Trellis plan to time: plan p is not timed: it is no Trellis plan"));
  CHECK(contains(output.err, "/plans/0/weights/source_format"));
  CHECK(contains(output.err, "\n  help: "));
  const Output indexer = bench(kConfig + "--plan 'indexer decode' --if-available");
  CHECK(indexer.exit_code == 3);
  CHECK(contains(indexer.err, "plan indexer decode is no fused-MoE plan"));
  const Output wide = bench(kConfig + "--set /model/n_routed_experts=1025 --if-available");
  INFO(wide.err);
  CHECK(wide.exit_code == 3);
  CHECK(contains(wide.err, "there is no Trellis plan to time: plan decode is not timed: "));
  CHECK(contains(wide.err, "/quant/source_format"));
  CHECK(bench("-c /nowhere.json --if-available").exit_code == 3);
}

TEST_CASE("plans that are not timed beside others that are get a warning, and fail nothing") {
  const Output output = bench("-c configs/glm52-mixed325.json --if-available -o json");
  INFO(output.err);
  CHECK(output.exit_code == 0);
  const Json report = Json::parse(output.out);
  CHECK(contains(report["verdict"], " · not timed: 2 plans"));
  std::vector<std::string> messages;
  for (const Json& finding : report["findings"])
    if (finding["rule"] == "no-kernels") messages.push_back(finding["message"]);
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].starts_with("mixed decode state is not timed: "));
  CHECK(Json::parse(bench(kConfig + "--if-available -o json").out)["findings"].size() == 1);
}

TEST_CASE("capacities need a deployment whose prefill plan could be another") {
  const Output off =
      bench(kConfig + "--set /deployment/env/VLLM_EXL3_PREFILL_TRELLIS=0 --capacity 512 --if-available");
  INFO(off.err);
  CHECK(off.exit_code == 3);
  CHECK(contains(off.err, "--capacity 512 of executor faithful: the deployment has no prefill plan"));
  CHECK(contains(off.err, "VLLM_EXL3_PREFILL_TRELLIS"));
  const std::string stated =
      R"({"schema_version": 1, "contract": "sparkinfer-de04125", "device": {"sm_count": 188}, "plans": [
          {"id": "t", "kind": "moe_tp", "weights": {"quant_mode": "w4a16", "source_format": "exl3_trellis_mcg",
          "activation": "silu", "io_dtype": "bfloat16", "experts": 16, "hidden_size": 256,
          "intermediate_size": 128},
          "capacity": {"max_tokens": 64, "top_k": 4, "block_size_m": 8}}]})";
  const Output plans = bench("-c - --capacity 32 --if-available", stated);
  INFO(plans.err);
  CHECK(plans.exit_code == 3);
  CHECK(contains(plans.err, "describes no deployment"));
  CHECK(bench("-c - --tokens 1,64 --if-available", stated).exit_code == 0);
}

TEST_CASE("help says what a verdict between executors means") {
  for (const char* word : {"FASTER", "SLOWER", "SAME", "UNSURE"}) {
    const Output output = run_moeplan(std::string("help ") + word);
    CHECK(output.exit_code == 0);
    CHECK(contains(output.out, "took turns"));
  }
  const Output help = run_moeplan("bench moe --help");
  CHECK(help.exit_code == 0);
  for (const char* option :
       {"--executor", "--tokens", "--capacity", "--decode-rate", "--flop-rate", "faithful, lean"})
    CHECK(contains(help.out, option));
}

TEST_CASE("a record of bench moe that cannot be written is told before a GPU is looked for") {
  const TemporaryFolder folder;
  const Output output = bench(kConfig + "--if-available --evidence '" + folder.path() + "'");
  CHECK(output.exit_code == 3);
  CHECK(output.err.starts_with("error[unwritable]: cannot write " + folder.path() + ": "));
}
