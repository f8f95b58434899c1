#include "planner/deployment/weights.hpp"

#include "planner/deployment/engine_figures.hpp"
#include "tests/deployment_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

Weights weights(const Json& config) {
  auto made = weights_of(deployment_of(config));
  if (!made) FAIL(made.error().pointer << " " << made.error().message);
  return *made;
}

Json nvfp4_tp8(i64 speculative) {
  Json config = glm52_json();
  config["quant"] = {{"source_format", "modelopt_nvfp4"}};
  config["parallel"] = {{"tp", 8}};
  config["deployment"]["num_speculative_tokens"] = speculative;
  config["deployment"]["indexer_cache"] = "all_layers";
  config["deployment"]["env"] = Json::object();
  return config;
}

}  // namespace

TEST_CASE("the weights formula gives the recorded GiB, and its bounds hold what the engines loaded") {
  Json exl3 = glm52_json();
  exl3["deployment"]["draft_is_exl3"] = true;
  Json mixed = glm52_mixed_json();
  mixed["deployment"]["num_speculative_tokens"] = 0;
  Json mixed_mtp = glm52_mixed_json();
  mixed_mtp["deployment"]["draft_is_exl3"] = true;
  struct Line {
    Json config;
    i64 formula, logged;  // hundredths of a GiB
  };
  const Line lines[] = {{nvfp4_tp8(0), 5584, 5567},
                        {nvfp4_tp8(3), 5671, 5662},
                        {exl3, 7680, 7766},
                        {mixed, 8094, 8193},
                        {mixed_mtp, 8208, 8357}};
  for (const Line& line : lines) {
    const Weights made = weights(line.config);
    INFO(line.formula);
    CHECK(made.formula_bytes().is_exact());
    CHECK(hundredths_of_gibibytes(made.formula_bytes().lo) == line.formula);
    CHECK(hundredths_of_gibibytes(made.bytes().lo) <= line.logged);
    CHECK(hundredths_of_gibibytes(made.bytes().hi) >= line.logged);
  }
}

TEST_CASE("one EXL3 expert at 3 bits takes its matrices, 39,936 B of signs, 3,072 B of copies and pointers") {
  CHECK(exl3_expert_bytes(6144, 512, 3) == 3 * 6144 * 512 * 3 / 8 + 39'936 + 3'072 + 72);
}

TEST_CASE("the whole model in bf16 on one rank is the published checkpoint to 1 %") {
  Json config = glm52_json();
  config["quant"] = {{"weights", "bfloat16"}};
  config["parallel"] = {{"tp", 1}};
  const Weights made = weights(config);
  i64 bytes = made.formula_bytes().lo;
  // The checkpoint does not hold the absorbed copy of the key and value up-projection.
  bytes -= i64{79} * 2 * 512 * 64 * (192 + 256);
  const i64 published = 1'506'659'919'872;
  INFO(bytes);
  CHECK(bytes > published - published / 100);
  CHECK(bytes < published + published / 100);
}

TEST_CASE("an unknown draft format leaves the weights an interval") {
  const Weights made = weights(glm52_json());
  CHECK(!made.formula_bytes().is_exact());
  CHECK(made.parts.back().name == "MTP layer");
}

TEST_CASE("weights that cannot be derived say what is missing") {
  struct Case {
    const char* patch;
    const char* pointer;
  };
  const Case cases[] = {{R"({"quant": {"source_format": "compressed_tensors"}})", "/quant/weights"},
                        {R"({"quant": {"source_format": null}})", "/quant/weights"},
                        {R"({"quant": {"bits": null}})", "/quant/bits"},
                        {R"({"model": {"vocab_size": null}})", "/model/vocab_size"},
                        {R"({"model": {"v_head_dim": null}})", "/model/v_head_dim"},
                        {R"({"model": {"index_n_heads": null}})", "/model/index_n_heads"},
                        {R"({"parallel": {"tp": 3}})", "/parallel/tp"},
                        {R"({"model": {"hidden_size": 1048576, "moe_intermediate_size": 1048576,
                             "n_routed_experts": 65536, "num_hidden_layers": 4096}})",
                         "/model"}};
  for (const Case& c : cases) {
    Json config = glm52_json();
    config.merge_patch(Json::parse(c.patch));
    const auto made = weights_of(deployment_of(config));
    INFO(c.patch);
    REQUIRE(!made);
    CHECK(made.error().pointer == c.pointer);
  }
}
