// moeplan launches, run as a user runs it.
#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/support.hpp"

using namespace moeplan::test;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Json launches_json(const std::string& arguments, int expected_exit = 0, const std::string& input = "") {
  const Output run = run_moeplan("launches --format json " + arguments, input);
  INFO(run.err);
  REQUIRE(run.exit_code == expected_exit);
  return Json::parse(run.out);
}

const Json& plan_of(const Json& report, const std::string& id) {
  for (const Json& plan : report["plans"]) {
    if (plan["id"] == id) return plan;
  }
  FAIL("no plan " << id);
  return report;
}

std::string slices(int capacity, int scheduled) {
  return "-c configs/glm52.json --set /deployment/max_num_batched_tokens=" + std::to_string(scheduled) +
         " --set /deployment/env/VLLM_EXL3_PREFILL_CAPACITY=" + std::to_string(capacity);
}

}  // namespace

TEST_CASE("launches of GLM-5.2: 7 decode keys without cover, 133 prefill keys of which one is warmed") {
  const Json report = launches_json("-c configs/glm52.json");
  const Json& decode = plan_of(report, "decode");
  CHECK(decode["live_tokens"] == 64);
  CHECK(decode["prewarmed_tokens"] == 0);
  CHECK(decode["keys"] == 7);
  const Json& prefill = plan_of(report, "prefill");
  CHECK(prefill["prewarmed_tokens"] == 8);
  CHECK(prefill["live_tokens"] == 3008);
  const Json& last = prefill["runs"].back();
  CHECK(last["first_tokens"] == 3065);
  CHECK(last["last_tokens"] == 3072);
  CHECK((last["prewarmed"] == true && last["profiled"] == true && last["cold"] == false));
  CHECK(report["totals"]["keys"] == 140);
  CHECK(report["totals"]["cold_keys"] == 139);
  const Output table = run_moeplan("launches -c configs/glm52.json");
  CHECK(contains(table.out, "decode 0/64, prefill 8/3,008"));
}

TEST_CASE("graphs of 4 to 64 rows warm all decode keys but those of one and two tokens") {
  const Json report =
      launches_json("-c configs/glm52.json --set '/deployment/cudagraph_capture_sizes=[4,8,16,32,48,64]'");
  CHECK(report["totals"]["cold_keys"] == 134);
  const Json& keys = plan_of(report, "decode")["runs"];
  for (const Json& run : keys) CHECK(run["cold"] == (run["last_tokens"] <= 2));
  bool latent = false;
  for (const Json& finding : report["findings"])
    latent = latent || finding["rule"] == "launch-capture-compile";
  CHECK(latent);
}

TEST_CASE("without stated capture sizes no decode key counts as warm, and that is said") {
  const Json report = launches_json("-c configs/glm52-gate8192.json");
  CHECK(plan_of(report, "decode")["prewarmed_tokens"] == 0);
  const Json& keys = plan_of(report, "prefill")["runs"];
  CHECK(keys.back()["first_tokens"] == 4097);
  CHECK(keys.back()["prewarmed"] == true);
  bool said = false;
  for (const Json& note : report["notes"])
    said = said || contains(note, "cudagraph_capture_sizes is not stated");
  CHECK(said);
}

TEST_CASE("an unsliced scheduler of a power of two leaves 5 or 6 prefill keys") {
  for (const auto& [tokens, keys] : {std::pair{2048, 5}, {4096, 6}}) {
    const Json report = launches_json("-c configs/glm52.json --set /deployment/max_num_batched_tokens=" +
                                      std::to_string(tokens));
    CHECK(plan_of(report, "prefill")["keys"] == keys);
    CHECK_FALSE(report.contains("schedulers"));
  }
  const Json schedulers = launches_json("-c configs/glm52.json")["schedulers"];
  REQUIRE(schedulers.size() == 2);
  CHECK(schedulers[0]["max_num_batched_tokens"] == 2048);
  CHECK(schedulers[0]["cold_keys"] == 11);
  CHECK(schedulers[1]["cold_keys"] == 12);
  CHECK(schedulers[1]["gained_kv_tokens"] == -20'989);
}

TEST_CASE("launches --live-tokens prints the recorded keys of slices, small tails included") {
  int cases = 0;
  for (const Json& recorded : read_lines("tests/golden/launch_keys.jsonl")) {
    const Json answer = launches_json(slices(recorded["capacity"], 3072) + " --plan prefill --live-tokens " +
                                      recorded["live_tokens"].dump());
    for (const char* member : {"key", "max_m_blocks", "tiles", "blocks_per_sm", "shared_words"})
      CHECK(answer[member] == recorded[member]);
    CHECK(answer["prewarmed"] == false);
    ++cases;
  }
  CHECK(cases == 7);
  CHECK(launches_json("-c configs/glm52.json --plan prefill --live-tokens 3070")["prewarmed"] == true);
}

TEST_CASE("option --max-cold answers no when more keys compile mid-serve") {
  CHECK(run_moeplan("launches -q -c configs/glm52.json --max-cold 139").exit_code == 0);
  const Output run = run_moeplan("launches -q -c configs/glm52.json --max-cold 138");
  CHECK(run.exit_code == 1);
  CHECK(contains(run.out, "COLD · 139 of 140 launch keys compile mid-serve (at most 138 allowed)"));
  CHECK(run_moeplan("launches -q -c configs/glm52.json --plan decode --max-cold 7").exit_code == 0);
}

TEST_CASE("block 16 with the 256-wide pin fails at planning and exits 1") {
  const Output run =
      run_moeplan("launches -c configs/glm52.json --set /deployment/env/VLLM_EXL3_TRELLIS_BLOCK_M=16");
  CHECK(run.exit_code == 1);
  CHECK(contains(run.out,
                 "FAILS · plan decode: the kernels have no register count for tile 64x256 at block 16"));
}

TEST_CASE("the pin of prefill plans holds on parts of 101,376 bytes of shared memory alone") {
  const Json report = launches_json(
      "-c configs/glm52.json --set /device/shared_memory_per_block_optin=232448 --set /device/sm_count=132");
  CHECK(plan_of(report, "prefill")["prewarmed_tokens"] == 0);
  CHECK(plan_of(report, "prefill")["runs"][0]["tiles"] == Json{64, 128, 64, 128});
}

TEST_CASE(
    "the Pareto front of capacities keeps the cheapest, the fewest launches, and nothing worse in all") {
  const Json choices = launches_json("-c configs/glm52.json")["capacities"];
  REQUIRE(choices.size() == 5);
  for (const Json& c : choices) {
    bool dominated = false;
    for (const Json& o : choices) {
      const bool as_good = o["cold_keys"] <= c["cold_keys"] && o["launches"] <= c["launches"] &&
                           o["scratch_bytes"] <= c["scratch_bytes"];
      dominated = dominated || (as_good && o != c);
    }
    CHECK(c["on_front"] == !dominated);
  }
}

TEST_CASE("mixed one-grid kernels are one a state, serial tiers have keys of their own") {
  const Json grid = launches_json("-c configs/glm52-mixed325.json");
  CHECK(plan_of(grid, "mixed prefill state")["cold_keys"] == 0);
  CHECK(plan_of(grid, "draft prefill")["cold_keys"] == 10);
  const Json serial = launches_json("-c configs/glm52-mixed325.json --set /quant/mixed_form=serial");
  CHECK(plan_of(serial, "tier 3 prefill")["cold_keys"] == 10);
  CHECK(plan_of(serial, "tier 4 prefill")["cold_keys"] == 10);
}

TEST_CASE("what launches cannot answer it refuses with a place or a word") {
  Json config = Json::parse(read_source("configs/glm52.json"));
  config["device"].erase("shared_memory_per_block_optin");
  const Output memory = run_moeplan("launches -c -", config.dump(2));
  CHECK(memory.exit_code == 3);
  CHECK(contains(memory.err, "/device/shared_memory_per_block_optin"));
  CHECK(run_moeplan("launches -c configs/glm52.json --live-tokens 0").exit_code == 2);
  const Output above = run_moeplan("launches -c configs/glm52.json --plan decode --live-tokens 65");
  CHECK(above.exit_code == 2);
  CHECK(contains(above.err, "is more than plan decode holds: 64"));
  CHECK(run_moeplan("launches -c configs/glm52.json --live-tokens 5").exit_code == 2);
  const Output b12x = run_moeplan(
      "launches -c configs/glm52.json --contract b12x-36bce2c --set /quant/source_format=btx --plan decode "
      "--live-tokens 5");
  CHECK(b12x.exit_code == 3);
  CHECK(contains(b12x.err, "launch_not_modelled"));
}

TEST_CASE("a kernel that two plans probe is counted once") {
  // Prefill slices of 64 rows at the decode plan's block: their tails probe the decode plan's kernels.
  const Json report = launches_json(
      "-c configs/glm52.json --set /deployment/max_num_batched_tokens=256 --set "
      "/deployment/env/VLLM_EXL3_TRELLIS_MAX_M=32 --set /deployment/env/VLLM_EXL3_PREFILL_BLOCK_M=8 --set "
      "/deployment/env/VLLM_EXL3_PREFILL_CAPACITY=64");
  CHECK(plan_of(report, "decode")["keys"] == 6);
  CHECK(plan_of(report, "prefill")["keys"] == 7);
  CHECK(report["totals"]["keys"] == 7);
}

TEST_CASE("plans that are not modelled are no warm ones, and pass no gate") {
  Json config = Json::parse(read_source("configs/glm52.json"));
  for (const char* section : {"model", "quant", "parallel", "deployment"}) config.erase(section);
  config["contract"] = "sparkinfer-c2f135c";
  config["plans"] = Json::parse(R"([{"id": "p", "kind": "moe_tp", "weights": {"quant_mode": "w4a16",
      "source_format": "compressed_tensors", "activation": "silu", "io_dtype": "bfloat16", "experts": 8,
      "hidden_size": 256, "intermediate_size": 128}, "capacity": {"max_tokens": 16, "top_k": 2}}])");
  const Output open = run_moeplan("launches -c -", config.dump());
  CHECK(open.exit_code == 0);
  CHECK(contains(open.out, "NOT MODELLED"));
  CHECK(run_moeplan("launches -q -c - --max-cold 0", config.dump()).exit_code == 1);
}

TEST_CASE("a deployment whose decode plan no step reaches has no keys there") {
  const std::string sets =
      " -c configs/glm52.json --set /deployment/max_num_batched_tokens=2 --set "
      "/deployment/env/VLLM_EXL3_TRELLIS_MIN_M=4";
  const Json report = launches_json(sets);
  CHECK(plan_of(report, "decode")["keys"] == 0);
  CHECK(run_moeplan("launches" + sets).out == run_moeplan("launches" + sets).out);
}

TEST_CASE("b12x launches its pinned tiles: what it compiles for 64 tokens serves the upper bucket") {
  const Json report =
      launches_json("-c configs/glm52.json --contract b12x-36bce2c --set /quant/source_format=btx");
  CHECK(plan_of(report, "decode")["prewarmed_tokens"] == 32);
  for (const Json& finding : report["findings"]) CHECK(finding["rule"] != "launch-prewarm-dead");
}

TEST_CASE("a key that no step of the deployment brings is printed, and said to be so") {
  const Json answer = launches_json("-c configs/glm52.json --plan prefill --live-tokens 7");
  CHECK(answer["reached"] == false);
  CHECK(answer["cold"].is_null());
  const Json reached = launches_json("-c configs/glm52.json --plan prefill --live-tokens 700");
  CHECK((reached["reached"] == true && reached["cold"] == true));
}

TEST_CASE("counts on the command line are whole numbers, and one answer at a time") {
  for (const char* bad :
       {"--max-cold -1", "--max-cold 99999999999999999999", "--max-cold 1.5", "--live-tokens x",
        "--plan decode --live-tokens 3 --max-cold 0", "--plan decode --live-tokens 0"}) {
    INFO(bad);
    const Output run = run_moeplan(std::string("launches -c configs/glm52.json ") + bad);
    CHECK(run.exit_code == 2);
    CHECK(run.err.size() < 400);
  }
}

TEST_CASE("thousands of captured sizes and of plans are answered in a moment") {
  Json sizes = Json::array();
  for (int i = 0; i < 4096; ++i) sizes.push_back(8'388'608 + 2000 * i + 1);
  Json config = Json::parse(read_source("configs/glm52.json"));
  config["deployment"]["max_num_batched_tokens"] = 16'777'215;
  config["deployment"]["cudagraph_capture_sizes"] = sizes;
  CHECK(run_moeplan("launches -q -c -", config.dump()).exit_code == 0);
  CHECK(run_moeplan("audit -q -c -", config.dump()).exit_code == 0);
}
