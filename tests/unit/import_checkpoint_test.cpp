// Checkpoints: config.json, safetensors headers, and models known by name.
#include "cli/import/engine_contracts.hpp"
#include "cli/import/shipped.hpp"
#include "cli/import/sources.hpp"
#include "tests/catch.hpp"
#include "tests/unit/import_support.hpp"

using namespace moeplan;
using test::first_problem;
using test::value_at;

namespace {

Import import_json(std::string_view text) {
  Import import;
  import_hf_text(import, "config.json", text);
  return import;
}

Import import_header(std::string_view text, bool is_whole = true) {
  Import import;
  import_safetensors_header(import, "m.safetensors", text, is_whole);
  return import;
}

std::string stem_of(std::string_view name) {
  const ShippedFile* file = shipped_model_of(name);
  return file ? std::string(file->stem) : "";
}

}  // namespace

TEST_CASE("every spelling of the expert count is read, also nested in text_config") {
  const char* const texts[] = {
      R"({"hidden_size": 64, "moe_intermediate_size": 32, "n_routed_experts": 8, "num_experts_per_tok": 2})",
      R"({"hidden_size": 64, "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2})",
      R"({"hidden_size": 64, "moe_intermediate_size": 32, "num_local_experts": 8, "experts_per_token": 2})",
      R"({"text_config": {"hidden_size": 64, "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2}})",
      R"({"model_type": "mixtral", "hidden_size": 64, "intermediate_size": 32, "num_local_experts": 8, "num_experts_per_tok": 2})",
      R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text", "hidden_size": 64, "intermediate_size": 32, "intermediate_size_mlp": 99, "num_local_experts": 8, "num_experts_per_tok": 2}})",
  };
  for (const char* text : texts) {
    INFO(text);
    const Import import = import_json(text);
    CHECK(first_problem(import) == "");
    CHECK(value_at(import, "/model/hidden_size") == "64");
    CHECK(value_at(import, "/model/moe_intermediate_size") == "32");
    CHECK(value_at(import, "/model/n_routed_experts") == "8");
    CHECK(value_at(import, "/model/num_experts_per_tok") == "2");
  }
}

TEST_CASE("indexer types and patterns count the layers that index themselves") {
  const std::string base = R"({"hidden_size": 64, "moe_intermediate_size": 32, "n_routed_experts": 8, )";
  CHECK(value_at(import_json(base + R"("indexer_types": ["full", "full", "shared", "full"]})"),
                 "/model/index_full_layers") == "3");
  CHECK(value_at(import_json(base + R"("index_topk_pattern": "FFSFS"})"), "/model/index_full_layers") == "3");
  CHECK(first_problem(import_json(base + "\n\"indexer_types\": [\"half\"]}")).find("config.json:2:19:") == 0);
}

TEST_CASE("quantisations become what plans are made of, or say what can be imported") {
  const std::string base = R"({"hidden_size": 64, "moe_intermediate_size": 32, "n_routed_experts": 8, )";
  const auto quant = [&](const std::string& config) {
    return import_json(base + "\"quantization_config\": " + config + "}");
  };
  const Import exl3 = quant(
      R"({"quant_method": "exl3", "hybrid_tr3_tail": {"format": "exl3-trellis", "bits": 3, "codebook": "mcg",
          "experts_per_layer": 8, "moe_layers": [3, 77], "tp": 4}})");
  CHECK(first_problem(exl3) == "");
  CHECK(value_at(exl3, "/quant/source_format") == "\"exl3_trellis_mcg\"");
  CHECK(value_at(exl3, "/quant/bits") == "3");
  CHECK(value_at(exl3, "/quant/checkpoint_tp") == "4");
  CHECK(value_at(quant(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})"), "/quant/source_format") ==
        "\"modelopt_nvfp4\"");
  CHECK(value_at(quant(R"({"quant_method": "mxfp4"})"), "/quant/source_format") == "\"fp4_e8m0_k32\"");
  CHECK(value_at(quant(R"({"quant_method": "compressed-tensors", "format": "pack-quantized"})"),
                 "/quant/source_format") == "\"compressed_tensors\"");
  CHECK(value_at(quant(R"({"quant_method": "fp8"})"), "/quant/weights") == "\"fp8\"");
  const Import awq = quant(R"({"quant_method": "awq"})");
  CHECK(first_problem(awq).find("quantisation awq is not supported") != std::string::npos);
  CHECK(awq.problems[0].error.help.find("exl3") != std::string::npos);
}

TEST_CASE("a tail that contradicts its model is refused") {
  Import import = import_json(
      R"({"hidden_size": 64, "moe_intermediate_size": 32, "n_routed_experts": 8, "quantization_config":
          {"quant_method": "exl3", "hybrid_tr3_tail": {"format": "exl3-trellis", "codebook": "mcg", "experts_per_layer": 16}}})");
  settle(import);
  CHECK(first_problem(import).find("/model/n_routed_experts is 8 in config.json:1") != std::string::npos);
}

TEST_CASE("dense models, GGUF files and broken JSON are refused with a place") {
  CHECK(first_problem(import_json(R"({"hidden_size": 64, "intermediate_size": 32})"))
            .find("config.json:1:1: a dense model") == 0);
  CHECK(first_problem(import_json("GGUF\x03")).find("a GGUF file") != std::string::npos);
  CHECK(first_problem(import_json("{\n  \"hidden_size\": 64,,")).find("config.json:2:") == 0);
  CHECK(first_problem(
            import_json(R"({"hidden_size": "64", "n_routed_experts": 8, "moe_intermediate_size": 8})"))
            .find("config.json:1:17: hidden_size must be a whole number") == 0);
}

TEST_CASE("safetensors headers give experts, shapes, formats and mixed widths") {
  const Import exl3 = import_header(
      R"({"__metadata__": {"format": "pt"},
          "model.layers.3.mlp.experts.0.gate_proj.trellis": {"dtype": "I16", "shape": [384, 128, 48], "data_offsets": [0, 1]},
          "model.layers.3.mlp.experts.1.gate_proj.trellis": {"dtype": "I16", "shape": [384, 128, 64], "data_offsets": [0, 1]},
          "model.layers.3.mlp.experts.1.gate_proj.suh": {"dtype": "F16", "shape": [6144], "data_offsets": [0, 1]}})");
  CHECK(first_problem(exl3) == "");
  CHECK(value_at(exl3, "/model/n_routed_experts") == "2");
  CHECK(value_at(exl3, "/model/hidden_size") == "6144");
  CHECK(value_at(exl3, "/model/moe_intermediate_size") == "2048");
  CHECK(value_at(exl3, "/quant/tiers") == R"([{"bits": 3, "experts": 1}, {"bits": 4, "experts": 1}])");
  const char* const nvfp4 =
      R"({"model.layers.0.mlp.experts.7.gate_proj.weight": {"dtype": "U8", "shape": [512, 1024], "data_offsets": [0, 1]},
          "model.layers.0.mlp.experts.7.gate_proj.weight_scale_2": {"dtype": "F32", "shape": [], "data_offsets": [0, 1]}})";
  CHECK(value_at(import_header(nvfp4), "/model/hidden_size") == "2048");
  CHECK(value_at(import_header(nvfp4), "/quant/source_format") == "\"modelopt_nvfp4\"");
  CHECK(value_at(import_header(nvfp4, false), "/model/n_routed_experts") == "");  // a shard may hold some
  CHECK(first_problem(import_header(R"({"a": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]}})"))
            .find("no expert tensors") != std::string::npos);
  CHECK(first_problem(import_header("{\"a\": ")).find("no JSON of tensors") != std::string::npos);
}

TEST_CASE("a model is assumed from its name only when every word of the name is understood") {
  CHECK(stem_of("/models/GLM-5.2-EXL3-TR3-3.25bpw") == "glm-5.2");
  CHECK(stem_of("zai-org/GLM-5.2-FP8") == "glm-5.2");
  CHECK(stem_of("example/GLM-5.1-NVFP4-MTP") == "glm-5.2");
  CHECK(stem_of("deepseek-ai/DeepSeek-V3.2") == "deepseek-v3.2");
  CHECK(stem_of("deepseek-ai/DeepSeek-R1-0528") == "deepseek-v3");
  CHECK(stem_of("Qwen/Qwen3-30B-A3B-Instruct-2507") == "qwen3-30b-a3b");
  CHECK(stem_of("zai-org/GLM-4.5-Air-FP8") == "glm-4.5-air");
  for (const char* name : {"GLM-5.2-NVFP4-REAP-469B", "GLM-5.3-Flash", "GLM-4.5",
                           "DeepSeek-R1-Distill-Llama-70B", "DeepSeek-V2-Lite", "llama-3", "", "/"}) {
    INFO(name);
    CHECK(stem_of(name) == "");
  }
  for (const ShippedFile& file : shipped_models()) CHECK(stem_of(file.stem) == file.stem);
}

TEST_CASE("an engine build names its contract, and an unknown one names none") {
  CHECK(contract_of_engine("v0.11.2.dev280+gilded.gnosis.v20.vllm749050e.si8110e3e.cu132.20260730.r14") ==
        "sparkinfer-de04125");
  CHECK(contract_of_engine("1.0+sic2f135c4.r14") == "sparkinfer-c2f135c");
  CHECK(contract_of_engine("b12x-36bce2c") == "b12x-36bce2c");
  CHECK(contract_of_engine("v0.20.2rc1.dev249+glmkimirebase20260514") == "");
  CHECK(contract_of_engine("x.r140") == "");
}

TEST_CASE("every shipped model's fields are read from a config.json that has them") {
  for (const ShippedFile& file : shipped_models()) {
    INFO(file.stem);
    Import shipped, import;
    REQUIRE(add_model(shipped, std::string(file.stem), Rank::checkpoint));
    import_hf_text(import, "config.json", file.text);
    CHECK(first_problem(import) == "");
    for (const ImportRow& row : shipped.rows) {
      if (row.pointer == "/model/name" || row.pointer == "/model/index_full_layers") continue;  // not theirs
      INFO(row.pointer);
      CHECK(value_at(import, row.pointer) == row.json);
    }
  }
}

TEST_CASE("headers nested without end are refused") {
  std::string objects;
  for (int i = 0; i < 30'000; ++i) objects += "{\"a\":";
  for (const std::string& text : {objects, std::string(300'000, '[')}) {
    const Import import = import_header(text);
    REQUIRE(import.problems.size() == 1);
    CHECK(import.problems[0].error.code == ErrorCode::too_deep);
  }
}
