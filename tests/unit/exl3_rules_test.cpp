#include "planner/deployment/exl3_rules.hpp"

#include "tests/deployment_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

std::vector<std::string> rules_of(const Json& config) {
  std::vector<std::string> rules;
  for (const Finding& finding : exl3_findings(deployment_of(config)))
    rules.push_back(finding.rule + " " + finding.level);
  return rules;
}

using Rules = std::vector<std::string>;

}  // namespace

TEST_CASE("ten rules stand over an EXL3 deployment, and the shipped configs break none") {
  CHECK(exl3_rules().size() == 10);
  for (const char* config : {"configs/glm52.json", "configs/glm52-e160.json", "configs/glm52-gate8192.json"})
    CHECK(rules_of(Json::parse(read_source(config))).empty());
}

TEST_CASE("each rule fires on the setting it is about") {
  struct Case {
    const char* patch;
    Rules rules;
  };
  const Case cases[] = {
      {R"({"deployment": {"env": {"VLLM_EXL3_TRELLIS_MIN_M": 65}}})", {"exl3-decode-order error"}},
      {R"({"deployment": {"env": {"VLLM_EXL3_PREFILL_CAPACITY": 4096}}})", {"exl3-prefill-capacity error"}},
      {R"({"deployment": {"cudagraph_capture_sizes": [6, 12, 48, 64]}})", {}},
      {R"({"deployment": {"cudagraph_capture_sizes": [48, 72]}})", {"exl3-capture-sizes warning"}},
      {R"({"deployment": {"cudagraph_capture_sizes": [48, 4000]}})", {"exl3-capture-sizes error"}},
      {R"({"deployment": {"env": {"VLLM_EXL3_TRELLIS_MIN_M": 4}, "cudagraph_capture_sizes": [1, 48]}})",
       {"exl3-capture-sizes error"}},
      {R"({"deployment": {"max_num_seqs": 11}})", {"exl3-decode-window warning"}},
      {R"({"deployment": {"cudagraph_capture_sizes": [6, 42]}})", {"exl3-decode-window warning"}},
      {R"({"deployment": {"env": {"VLLM_EXL3_PREFILL_TRELLIS": "true"}}})", {"exl3-prefill-switch warning"}},
      {R"({"deployment": {"env": {"VLLM_EXL3_PREFILL_TRELLIS": 0}}})", {}},
      {R"({"deployment": {"env": {"VLLM_EXL3_PREFILL_BLOCK_M": 24}}})", {"exl3-block-size error"}},
      {R"({"quant": {"checkpoint_tp": 8}})", {"exl3-checkpoint-tp error"}},
      {R"({"quant": {"checkpoint_tp": 4}})", {}},
      {R"({"deployment": {"env": {"VLLM_EXL3_TRELLIS_MIN_M": 40, "VLLM_EXL3_PREFILL_CHUNK": 38}}})",
       {"exl3-parity-rows error"}},
      {R"({"deployment": {"env": {"VLLM_EXL3_TRELLIS_MIN_M": 40, "VLLM_EXL3_PREFILL_CHUNK": 39}}})", {}},
      {R"({"quant": {"tiers": [{"bits": 3, "experts": 256}]},
           "deployment": {"env": {"VLLM_EXL3_PREFILL_TRELLIS": "0"}}})",
       {"exl3-mixed-prefill error"}},
      {R"({"deployment": {"draft_is_exl3": true}})", {"exl3-draft-runtime note"}},
  };
  for (const Case& c : cases) {
    Json config = glm52_json();
    config.merge_patch(Json::parse(c.patch));
    INFO(c.patch);
    CHECK(rules_of(config) == c.rules);
  }
}

TEST_CASE("what stops the engine at start is an error wherever the settings are read") {
  for (const char* patch : {R"({"VLLM_EXL3_TRELLIS_MIN_M": 65})", R"({"VLLM_EXL3_PREFILL_CAPACITY": 4096})",
                            R"({"VLLM_EXL3_TRELLIS_MIN_M": 40, "VLLM_EXL3_PREFILL_CHUNK": 38})"}) {
    Json config = glm52_json();
    config["deployment"]["env"].merge_patch(Json::parse(patch));
    const auto settings = read_exl3_settings(*deployment_of(config).engine);
    INFO(patch);
    REQUIRE(!settings);
    CHECK(settings.error().code == ErrorCode::invalid_environment);
    CHECK(!settings.error().pointer.empty());
  }
}
