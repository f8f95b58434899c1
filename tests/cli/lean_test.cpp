// The commands under the contract of moeplan's own executor.
#include "planner/core/text.hpp"
#include "planner/moe/lean_geometry.hpp"
#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

constexpr const char* kLean = " -c configs/glm52.json --contract moeplan-lean-1";

// GLM-5.2 on four ranks: k 6,144, n 512, top-k 8, E 256.
constexpr i64 kDecodeBytes = 8'388'608;
// `slice`: columns whose routes' rows take 24 MiB.
constexpr i64 prefill_bytes(i64 tokens, i64 slice) {
  const i64 routes = 8 * tokens, slots = routes + 256 * (kLeanBlock - 1);
  return tokens * 6144 * 4 + routes * 512 * 2 + routes * slice * 2 + align_up(slots * 4, 16) +
         align_up(ceil_div(slots, kLeanBlock) * 4, 16) + 16 + 1040 + 1024 + 16;
}
constexpr i64 kPrefillBytes = prefill_bytes(3072, 512);
// Of sparkinfer-de04125, pinned to blocks of 8 and 64.
constexpr i64 kEngineBytes = 45'628'520 + 1'105'369'560;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string text_of(const std::string& command, int expected_exit = 0) {
  const Output run = run_moeplan(command + kLean);
  INFO(run.err);
  REQUIRE(run.exit_code == expected_exit);
  return run.out;
}

Json json_of(const std::string& command, int expected_exit = 0) {
  return Json::parse(text_of(command + " --format json", expected_exit));
}

const Json& row_of(const Json& rows, const char* column, const std::string& value) {
  for (const Json& row : rows) {
    if (row[column] == value) return row;
  }
  FAIL("no row " << value);
  return rows;
}

}  // namespace

TEST_CASE(
    "size under the lean contract: 8 MiB, and 120 beside the blocks of routes, the indexer's arenas "
    "unchanged") {
  const Json report = json_of("size");
  CHECK(report["totals"]["per_rank_bytes"] == kDecodeBytes + kPrefillBytes);
  CHECK(report["totals"]["indexer_per_rank_bytes"] == 568'750'080);
  const Json& decode = row_of(report["arenas"], "id", "decode");
  CHECK(decode["block_m"].is_null());
  CHECK(decode["route_slots"].is_null());
  CHECK(decode["pinned"] == false);
  const Json& prefill = row_of(report["arenas"], "id", "prefill");
  CHECK(prefill["block_m"] == kLeanBlock);
  CHECK(prefill["route_slots"] == 24'576 + 256 * (kLeanBlock - 1));
  CHECK(prefill["pinned"] == false);
}

TEST_CASE("reports of a contract that no engine runs say so") {
  const std::string diff = "diff configs/glm52.json --contracts sparkinfer-de04125,";
  CHECK(contains(run_moeplan(diff + "moeplan-lean-1").out, "no engine runs plans of moeplan-lean-1"));
  CHECK_FALSE(contains(run_moeplan(diff + "b12x-36bce2c").out, "no engine runs"));
  for (const char* command : {"size", "audit", "capacity", "check"}) {
    INFO(command);
    const std::string engine = concat(command, " -c configs/glm52.json");
    const std::string lean = concat(engine, " --contract moeplan-lean-1");
    const std::string kNote = "no engine runs plans of moeplan-lean-1";
    CHECK(contains(run_moeplan(lean).out, kNote));
    CHECK_FALSE(contains(run_moeplan(engine).out, kNote));
  }
}

TEST_CASE("weights are looked for under the lean contract too") {
  const Output outcome = run_moeplan(
      "validate -c configs/glm52.json --contract moeplan-lean-1 --weights nosuch.safetensors --layer 3");
  CHECK(outcome.exit_code == 3);
  CHECK(contains(outcome.err, "cannot read nosuch.safetensors"));
}

TEST_CASE("pins that a config states are told to change nothing under the lean contract, and only there") {
  for (const char* command : {"size", "check"}) {
    const std::string text = text_of(command);
    CHECK(contains(text, "VLLM_EXL3_TRELLIS_BLOCK_M is for an engine's kernels and changes nothing here"));
    CHECK(contains(text, "VLLM_EXL3_PREFILL_BLOCK_M is for an engine's kernels and changes nothing here"));
    CHECK_FALSE(contains(run_moeplan(std::string(command) + " -c configs/glm52.json").out, "pin-ignored"));
  }
  CHECK(text_of("size --set /deployment/env/VLLM_EXL3_PREFILL_BLOCK_M=8 -q") == text_of("size -q"));

  const Output stated = run_moeplan(
      "size -c -",
      R"({"schema_version": 1, "contract": "moeplan-lean-1", "plans": [{"kind": "moe_tp", "device":
          {"sm_count": 188}, "weights": {"quant_mode": "w4a16", "source_format": "exl3_trellis_mcg",
          "activation": "silu", "io_dtype": "bfloat16", "experts": 8, "hidden_size": 256, "intermediate_size":
          128, "trellis_tile_config": [64, 128, 64, 128]}, "capacity": {"max_tokens": 64, "top_k": 2,
          "route_experts": 0, "block_size_m": 8}}]})");
  CHECK(stated.exit_code == 0);
  CHECK(contains(stated.out, "note[pin-ignored] block_size_m is for"));
  CHECK(contains(stated.out, "note[pin-ignored] trellis_tile_config is for"));
}

TEST_CASE("no finding about an engine's kernels appears under the lean contract") {
  for (const char* command : {"audit", "check", "capacity", "explain prefill"}) {
    const std::string text = text_of(command);
    INFO(command);
    for (const char* word : {"split-K", "SM cap", "c_tmp", "block-8-doubles", "unpinned", "pin block"})
      CHECK_FALSE(contains(text, word));
  }
  CHECK(contains(text_of("audit"),
                 "SOUND · every live token count fits, tensor by tensor: decode 1..64, "
                 "prefill 1..3,072"));
}

TEST_CASE("explain prints the lean formulas with their values, and what engines' contracts would reserve") {
  const std::string text = text_of("explain prefill");
  CHECK(contains(text, "min(6,144, max(25,165,824 / (2 x 24,576) / 128 = 4, 1) x 128 = 512) = 512"));
  CHECK(contains(text, "max(3,072 x 6,144 = 18,874,368, cd(24,576 x 1,024 = 25,165,824, 2) = 12,582,912)"));
  CHECK(contains(text, "contract sparkinfer-de04125  1,105,369,560"));
  CHECK(contains(text, "the lean executor has blocks of its own, whatever is pinned"));
  CHECK(contains(text, "source: docs/contracts.md; moeplan-lean-1, ours: planner/moe/lean_geometry.hpp"));
  CHECK_FALSE(contains(text, "the block a launch takes by itself"));
  CHECK(contains(run_moeplan("explain decode -c configs/glm52.json").out, "contract moeplan-lean-1"));
}

TEST_CASE("launches says that no engine launches lean plans, and a gate does not pass on it") {
  const Json report = json_of("launches");
  CHECK(contains(report["verdict"], "NOT MODELLED"));
  CHECK(report["totals"]["plans_not_modelled"] == 2);
  CHECK_FALSE(report.contains("capacities"));
  CHECK_FALSE(report.contains("schedulers"));
  for (const Json& finding : report["findings"]) CHECK(finding["rule"] == "launch-not-modelled");
  text_of("launches --max-cold 0", 1);
  const Output key = run_moeplan(std::string("launches --plan decode --live-tokens 5") + kLean);
  CHECK(key.exit_code == 3);
  CHECK(contains(key.err, "no engine launches plans of moeplan-lean-1"));
}

TEST_CASE(
    "diff and sweep tell what the lean contract saves of an engine's arenas, keys are not counted off") {
  const Output run =
      run_moeplan("diff --format json configs/glm52.json --contracts sparkinfer-de04125,moeplan-lean-1");
  REQUIRE(run.exit_code == 0);
  const Json report = Json::parse(run.out);
  CHECK(report["totals"]["growth_bytes"] == kDecodeBytes + kPrefillBytes - kEngineBytes);
  const Json& keys = row_of(report["totals_change"], "what", "launch keys");
  CHECK(keys["before"] == 140);
  CHECK(keys["after"].is_null());
  CHECK(keys["change"].is_null());
  const Output sweep = run_moeplan(
      "sweep --format json -c configs/glm52.json --axis contract=sparkinfer-de04125,moeplan-lean-1");
  REQUIRE(sweep.exit_code == 0);
  CHECK(contains(sweep.out, std::to_string(kDecodeBytes + kPrefillBytes - kEngineBytes)));
}

TEST_CASE("a sweep over blocks of a lean plan is refused with the reason") {
  const Output run = run_moeplan(std::string("sweep --arena prefill --axis block=8,64") + kLean);
  CHECK(run.exit_code == 2);
  CHECK(contains(run.err, "the arena \"prefill\" has no block to pin"));
  CHECK(contains(run.err, "the lean executor has blocks of its own"));
}

TEST_CASE("a baseline of an engine's contract does not ask a lean config for cold kernels") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/baseline.json";
  REQUIRE(run_moeplan("baseline write -c configs/glm52.json --baseline " + path).exit_code == 0);
  const std::string text = text_of("check --baseline " + path);
  CHECK(contains(text, "the baseline was written under sparkinfer-de04125"));
  CHECK_FALSE(contains(text, "no longer follow from this config"));
}

TEST_CASE("mixed bit widths under the lean contract are an error at their place") {
  for (const char* command : {"size", "capacity", "audit", "launches", "check", "explain total"}) {
    const Output run =
        run_moeplan(std::string(command) + " -c configs/glm52-mixed325.json --contract moeplan-lean-1");
    INFO(command);
    CHECK(run.exit_code == 3);
    CHECK(contains(run.err, "error[unsupported_deployment]: contract moeplan-lean-1 plans one bit width"));
    CHECK(contains(run.err, "/quant/tiers"));
  }
}

TEST_CASE("a lean prefill capacity costs launches and saves bytes: 80.08 MiB at 512 tokens") {
  const std::string text = text_of("sweep --arena prefill --axis capacity=512,3072");
  CHECK(contains(text, grouped(prefill_bytes(512, 24 * 128))));
  CHECK(contains(text, "-80.08"));
  CHECK(contains(text_of("capacity"), "VLLM_EXL3_PREFILL_CAPACITY"));
}
