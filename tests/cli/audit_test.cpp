// moeplan audit, run as a user runs it.
#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/support.hpp"

using namespace moeplan::test;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Json audit_json(const std::string& arguments, int expected_exit, const std::string& input = "") {
  const Output run = run_moeplan("audit --format json " + arguments, input);
  INFO(run.err);
  REQUIRE(run.exit_code == expected_exit);
  return Json::parse(run.out);
}

const Json& row_of(const Json& rows, const char* key, const std::string& value) {
  for (const Json& row : rows) {
    if (row[key] == value) return row;
  }
  FAIL("no row " << value);
  return rows;
}

// A config that states one plan.
std::string stated(const char* contract, const char* source, const char* io_dtype, Json weights,
                   Json capacity) {
  weights.update(
      {{"quant_mode", "w4a16"}, {"source_format", source}, {"activation", "silu"}, {"io_dtype", io_dtype}});
  return Json{{"schema_version", 1},
              {"contract", contract},
              {"device", {{"sm_count", 188}}},
              {"plans", {{{"id", "p"}, {"kind", "moe_tp"}, {"weights", weights}, {"capacity", capacity}}}}}
      .dump();
}

const std::string kSmallM = stated("sparkinfer-c2f135c", "modelopt_nvfp4", "bfloat16",
                                   {{"experts", 128}, {"hidden_size", 2048}, {"intermediate_size", 96}},
                                   {{"max_tokens", 16}, {"top_k", 8}});
const std::string kThreeTokens = stated("sparkinfer-c2f135c", "exl3_trellis_mcg", "float16",
                                        {{"experts", 4}, {"hidden_size", 128}, {"intermediate_size", 128}},
                                        {{"max_tokens", 3}, {"top_k", 10}, {"route_experts", 0}});

}  // namespace

TEST_CASE("audit proves the GLM-5.2 deployment sound and names 94 MiB of scratch that is never written") {
  const Json report = audit_json("-c configs/glm52.json", 0);
  CHECK(report["sound"] == true);
  CHECK(report["verdict"].get<std::string>().starts_with("glm52: SOUND"));
  REQUIRE(report["plans"].size() == 2);
  for (const Json& plan : report["plans"]) {
    CHECK(plan["exhaustive"] == true);
    CHECK(plan["counter_example"].is_null());
    for (const Json& tensor : plan["tensors"])
      CHECK(tensor["slack_bytes"] ==
            tensor["planned_bytes"].get<long long>() - tensor["needed_bytes"].get<long long>());
  }
  const Json& prefill = row_of(report["plans"], "id", "prefill");
  CHECK(prefill["capacity"] == 3072);
  CHECK(row_of(prefill["tensors"], "name", "rotation_a_gate")["verdict"] == "tight");
  long long scratch = 0;
  for (const Json& row : report["never_touched"]) {
    if (row["plan"] == "prefill" && row["kind"] == "whole_tiles") scratch += row["bytes"].get<long long>();
  }
  CHECK(scratch == 98'566'144);
  const Output table = run_moeplan("audit -c configs/glm52.json");
  CHECK(contains(table.out, "prefill: 94.00 MiB of fc1_c_tmp and fc2_c_tmp are never touched"));
}

TEST_CASE("audit names the parity staging that no step reaches, and not where MIN_M leaves steps to it") {
  const Json report = audit_json("-c configs/glm52.json", 0);
  CHECK(row_of(report["never_touched"], "kind", "parity_staging")["bytes"] == 83'130'384);
  const Json reached = audit_json("-c configs/glm52.json --set /deployment/env/VLLM_EXL3_TRELLIS_MIN_M=4", 0);
  for (const Json& row : reached["never_touched"]) CHECK(row["kind"] != "parity_staging");
}

TEST_CASE("audit finds a decode plan above what the scheduler brings") {
  const Json report = audit_json(
      "-c configs/glm52.json --set /deployment/max_num_batched_tokens=48 --set "
      "/deployment/cudagraph_capture_sizes=[48]",
      0);
  CHECK(row_of(report["never_touched"], "kind", "unscheduled_tokens")["plan"] == "decode");
}

TEST_CASE("audit on the native plan of 16 tokens at n=96 names m=7 and exits 1") {
  const Output run = run_moeplan("audit -c -", kSmallM);
  CHECK(run.exit_code == 1);
  CHECK(contains(run.out.substr(0, run.out.find('\n')), "m=7"));
  const Json report = audit_json("-c -", 1, kSmallM);
  CHECK(report["sound"] == false);
  CHECK(report["plans"][0]["counter_example"] == 7);
  CHECK(report["findings"][0]["rule"] == "unsound");
  CHECK(report["findings"][0]["pointer"] == "/plans/0/capacity/max_tokens");
}

TEST_CASE("audit --assume-blocks last names m=2 on the plan of 3 tokens, 4 experts and top-k 10") {
  const Json assumed = audit_json("-c - --assume-blocks last", 1, kThreeTokens);
  CHECK(assumed["plans"][0]["counter_example"] == 2);
  CHECK(contains(assumed["verdict"], "m=2"));
  CHECK(audit_json("-c -", 0, kThreeTokens)["sound"] == true);
  CHECK(audit_json("-c - --assume-blocks all", 0, kThreeTokens)["sound"] == true);
  CHECK(audit_json("-c - --assume-blocks reachable", 0, kThreeTokens)["sound"] == true);
  CHECK(audit_json("-c - --assume-blocks 16", 1, kThreeTokens)["plans"][0]["counter_example"] == 2);
}

TEST_CASE("an assumption leaves pinned plans as they are") {
  const Json assumed = audit_json("-c configs/glm52.json --assume-blocks 8", 0);
  CHECK(assumed["plans"] == audit_json("-c configs/glm52.json", 0)["plans"]);
}

TEST_CASE("launches that a contract does not have are no assumption, and no green answer") {
  const Output run = run_moeplan("audit -c - --expert-map present", kSmallM);
  CHECK(run.exit_code == 2);
  CHECK(contains(run.err, "never come with an expert map"));
}

TEST_CASE("bytes that are never touched are never more than what is reserved") {
  for (int scheduled : {1, 2, 8, 48, 63}) {
    const Json report = audit_json(
        "-c configs/glm52.json --set /deployment/max_num_batched_tokens=" + std::to_string(scheduled), 0);
    long long unused = 0;
    for (const Json& row : report["never_touched"])
      unused += row["plan"] == "decode" ? row["bytes"].get<long long>() : 0;
    CHECK(unused <= row_of(report["plans"], "id", "decode")["reserved_bytes"].get<long long>());
    CHECK(unused > 24'641'536);  // more than the scratch: rows above the scheduler's too
  }
  const Json unreached = audit_json(
      "-c configs/glm52.json --set /deployment/max_num_batched_tokens=2 --set "
      "/deployment/env/VLLM_EXL3_TRELLIS_MIN_M=4",
      0);
  CHECK(row_of(unreached["never_touched"], "plan", "decode")["bytes"] == 45'628'520);
}

TEST_CASE("option --expert-map restricts the audit of a stated plan to one sort of launch") {
  const std::string half = stated("b12x-36bce2c", "compressed_tensors", "float16",
                                  {{"experts", 4}, {"hidden_size", 256}, {"intermediate_size", 256}},
                                  {{"max_tokens", 8}, {"top_k", 8}});
  const Json both = audit_json("-c -", 1, half);
  CHECK(both["plans"].size() == 2);
  CHECK(both["plans"][1]["counter_example"] == 7);
  CHECK(audit_json("-c - --expert-map absent", 0, half)["plans"].size() == 1);
  CHECK(audit_json("-c - --expert-map present", 1, half)["plans"][0]["counter_example"] == 7);
}

TEST_CASE("micro and dynamic plans are said to be not audited, never sound") {
  Json config = Json::parse(kSmallM);
  config["plans"][0]["weights"]["quant_mode"] = "nvfp4";
  const Json report = audit_json("-c -", 0, config.dump());
  CHECK(report["sound"].is_null());
  CHECK(contains(report["verdict"], "NOT AUDITED"));
}

TEST_CASE(
    "tiers of a serial mixed runtime are audited with their expert map, their shared arena counted once") {
  const Json report = audit_json("-c configs/glm52-mixed325.json --set /quant/mixed_form=serial", 0);
  CHECK(row_of(report["plans"], "id", "tier 4 prefill")["expert_map"] == "present");
  int router = 0;
  for (const Json& row : report["never_touched"]) router += row["kind"] == "router_workspace" ? 1 : 0;
  CHECK(router == 1);
}

TEST_CASE("an audited plan that cannot be launched is warned about, and stays as sound as it is") {
  const Json report =
      audit_json("-c configs/glm52.json --set /deployment/env/VLLM_EXL3_TRELLIS_BLOCK_M=16", 0);
  const Json& warning = row_of(report["findings"], "rule", "launch-fails");
  CHECK(warning["level"] == "warning");
  CHECK(warning["pointer"] == "/deployment");
}

TEST_CASE("option --plan restricts an audit, and an unknown plan is a usage error with a suggestion") {
  CHECK(audit_json("-c configs/glm52.json --plan decode", 0)["plans"].size() == 1);
  const Output run = run_moeplan("audit -c configs/glm52.json --plan prefil");
  CHECK(run.exit_code == 2);
  CHECK(contains(run.err, "did you mean \"prefill\"?"));
}
