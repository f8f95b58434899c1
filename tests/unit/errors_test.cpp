// Every error word of requests, each by the mistake that leads to it, with its place.
#include <set>

#include "cli/io/batch.hpp"
#include "planner/core/error_code.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

// What a sound request of each sort looks like.
Json base_of(const std::string& sort) {
  Json request = {{"id", "x"},
                  {"kind", "moe_tp"},
                  {"contract", "sparkinfer-c2f135c"},
                  {"device", {{"sm_count", 188}}},
                  {"weights",
                   {{"quant_mode", "w4a16"},
                    {"source_format", "modelopt_nvfp4"},
                    {"activation", "silu"},
                    {"io_dtype", "bfloat16"},
                    {"experts", 8},
                    {"hidden_size", 512},
                    {"intermediate_size", 256}}},
                  {"capacity", {{"max_tokens", 16}, {"top_k", 2}}}};
  if (sort == "btx") {
    request["contract"] = "b12x-36bce2c";
    request["weights"]["source_format"] = "btx";
    request["weights"]["trellis_codebook"] = "sqg_e4m3";
  } else if (sort == "mx") {
    request["weights"]["quant_mode"] = "w4a8_mx";
    request["weights"]["source_format"] = "fp4_e8m0_k32";
  } else if (sort == "mx6") {
    request["weights"]["quant_mode"] = "w6a8_mx";
    request["weights"]["source_format"] = "mxfp6_e2m3";
  } else if (sort == "trellis") {
    request["weights"]["source_format"] = "exl3_trellis_mcg";
  } else if (sort == "ep") {
    request["kind"] = "moe_ep";
    request["capacity"]["global_experts"] = 16;
  }
  return request;
}

struct Mistake {
  const char* sort;
  Json patch;  // merged into the sound request
  const char* code;
  const char* pointer;
};

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> rows = {
      {"native", {{"kind", "moe"}}, "unknown_kind", "/kind"},
      {"native", {{"contract", "sparkinfer"}}, "unknown_contract", "/contract"},
      {"native", {{"weight", 1}}, "unknown_key", "/weight"},
      {"native", {{"capacity", {{"global_experts", 8}}}}, "field_not_in_kind", "/capacity/global_experts"},
      {"native",
       {{"weights", {{"coupled_hadamard", false}}}},
       "field_not_in_contract",
       "/weights/coupled_hadamard"},
      {"native", {{"weights", {{"experts", nullptr}}}}, "missing_field", "/weights/experts"},
      {"native", {{"weights", {{"experts", "8"}}}}, "wrong_type", "/weights/experts"},
      {"native", {{"capacity", {{"max_tokens", 1 << 25}}}}, "out_of_range", "/capacity/max_tokens"},
      {"native", {{"device", {{"type", "tpu"}}}}, "unknown_value", "/device/type"},
      {"native",
       {{"device", {{"compute_capability", "sm_120"}}}},
       "invalid_value",
       "/device/compute_capability"},
      {"native",
       {{"weights", {{"source_format", "awq"}}}},
       "unsupported_source_format",
       "/weights/source_format"},
      {"native",
       {{"weights", {{"source_format", "btx"}}}},
       "unsupported_source_format",
       "/weights/source_format"},
      {"native", {{"weights", {{"activation", "gelu"}}}}, "unsupported_activation", "/weights/activation"},
      {"native", {{"weights", {{"w13_layout", "w32"}}}}, "unsupported_w13_layout", "/weights/w13_layout"},
      {"native", {{"weights", {{"quant_mode", "w8a8"}}}}, "unsupported_quant_mode", "/weights/quant_mode"},
      {"native",
       {{"weights", {{"weight_quant_modes", {"w8a8"}}}}},
       "unsupported_quant_mode",
       "/weights/weight_quant_modes/0"},
      {"native",
       {{"weights", {{"weight_layout", "packed"}}}},
       "unsupported_weight_layout",
       "/weights/weight_layout"},
      {"native",
       {{"weights", {{"weight_layout", "trellis_native"}}}},
       "layout_source_mismatch",
       "/weights/weight_layout"},
      {"native", {{"weights", {{"io_dtype", "float32"}}}}, "unsupported_io_dtype", "/weights/io_dtype"},
      {"native",
       {{"weights", {{"weight_quant_modes", Json::array()}}}},
       "empty_mode_list",
       "/weights/weight_quant_modes"},
      {"native",
       {{"weights", {{"quant_mode", "w4a8_mx"}}}},
       "source_mode_mismatch",
       "/weights/source_format"},
      {"native", {{"weights", {{"hidden_size", 0}}}}, "not_positive", "/weights/hidden_size"},
      {"native",
       {{"weights", {{"weight_quant_modes", {"nvfp4"}}}}},
       "mode_not_in_weight_plan",
       "/weights/quant_mode"},
      {"native",
       {{"weights", {{"weight_quant_modes", {"w4a16", "w4a16"}}}}},
       "duplicate_mode",
       "/weights/weight_quant_modes"},
      {"native",
       {{"weights", {{"weight_layout", "mma_packed"}, {"weight_quant_modes", {"w4a16", "nvfp4"}}}}},
       "incompatible_modes",
       "/weights/weight_quant_modes"},
      {"native",
       {{"weights", {{"trellis_bits", 3}}}},
       "trellis_setting_without_trellis",
       "/weights/trellis_bits"},
      {"native", {{"capacity", {{"swiglu_limit", 0}}}}, "swiglu_limit", "/capacity/swiglu_limit"},
      {"native", {{"capacity", {{"swiglu_alpha", 2}}}}, "swiglu_scale", "/capacity/swiglu_alpha"},
      {"native", {{"capacity", {{"block_size_m", 24}}}}, "block_size", "/capacity/block_size_m"},
      {"native",
       {{"weights", {{"quant_mode", "w4a8_nvfp4"}, {"activation", "swigluoai_uninterleave"}}}},
       "activation_mode_mismatch",
       "/weights/activation"},
      {"mx", {{"weights", {{"activation", "relu2"}}}}, "activation_mode_mismatch", "/weights/activation"},
      {"mx", {{"weights", {{"hidden_size", 384}}}}, "misaligned_shape", "/weights/hidden_size"},
      {"mx", {{"weights", {{"intermediate_size", 272}}}}, "misaligned_shape", "/weights/intermediate_size"},
      {"mx6", {{"weights", {{"activation", "situ"}}}}, "activation_mode_mismatch", "/weights/activation"},
      {"mx6", {{"weights", {{"intermediate_size", 192}}}}, "misaligned_shape", "/weights/intermediate_size"},
      {"trellis",
       {{"weights", {{"activation", "relu2"}}}},
       "activation_mode_mismatch",
       "/weights/activation"},
      {"trellis",
       {{"weights", {{"weight_layout", "mma_packed"}}}},
       "layout_source_mismatch",
       "/weights/weight_layout"},
      {"trellis", {{"weights", {{"trellis_bits", 2}}}}, "trellis_bits", "/weights/trellis_bits"},
      {"trellis",
       {{"weights", {{"trellis_tile_config", {64, 256, 64}}}}},
       "trellis_tile_config",
       "/weights/trellis_tile_config"},
      {"trellis", {{"weights", {{"hidden_size", 192}}}}, "misaligned_shape", "/weights/hidden_size"},
      {"trellis", {{"purpose", "launch"}}, "launch_needs_block_size", "/capacity/block_size_m"},
      {"btx",
       {{"weights", {{"trellis_codebook", nullptr}}}},
       "trellis_codebook",
       "/weights/trellis_codebook"},
      {"btx",
       {{"weights", {{"quant_mode", "w4a8_mx"}, {"trellis_codebook", "mcg"}}}},
       "trellis_codebook",
       "/weights/trellis_codebook"},
      {"btx",
       {{"weights", {{"quant_mode", "w4a8_mx"}, {"trellis_rate_structure", "per_expert_pair"}}}},
       "trellis_rates",
       "/weights/trellis_rate_structure"},
      {"btx",
       {{"weights", {{"quant_mode", "w4a8_mx"}, {"intermediate_size", 320}}}},
       "misaligned_shape",
       "/weights/intermediate_size"},
      {"btx", {{"weights", {{"trellis_bits", 5}}}}, "trellis_bits", "/weights/trellis_bits"},
      {"btx",
       {{"weights", {{"trellis_codebook", "mcg"}, {"coupled_hadamard", true}}}},
       "trellis_coupled_hadamard",
       "/weights/coupled_hadamard"},
      {"btx",
       {{"weights", {{"trellis_pair_kinds", Json::array()}}}},
       "trellis_rates",
       "/weights/trellis_pair_kinds"},
      {"ep", {{"capacity", {{"global_experts", 4}}}}, "too_many_local_experts", "/weights/experts"},
      {"ep", {{"capacity", {{"global_experts", 0}}}}, "not_positive", "/capacity/global_experts"},
      {"ep", {{"weights", {{"io_dtype", "float16"}}}}, "unsupported_io_dtype", "/weights/io_dtype"},
      {"ep",
       {{"weights", {{"weight_quant_modes", {"nvfp4"}}}}},
       "mode_not_in_weight_plan",
       "/weights/quant_mode"},
  };
  return rows;
}

Json answer(const Json& request) {
  static BatchAnswerer answerer;
  std::string out;
  answerer.answer(request.dump(), 1, out);
  return Json::parse(out);
}

}  // namespace

TEST_CASE("each mistake of a request is answered with its word, its place and a remedy") {
  for (const char* sort : {"native", "btx", "mx", "mx6", "trellis", "ep"})
    CHECK(answer(base_of(sort)).contains("layout"));
  for (const Mistake& mistake : mistakes()) {
    Json request = base_of(mistake.sort);
    request.merge_patch(mistake.patch);
    // A merged null deletes: exactly what "not given" means.
    const Json error = answer(request)["error"];
    INFO(mistake.sort << " " << mistake.patch.dump() << "\n" << error.dump());
    CHECK(error["code"] == mistake.code);
    CHECK(error["pointer"] == mistake.pointer);
    CHECK(!error["message"].get<std::string>().empty());
  }
}

TEST_CASE("finite swiglu scales pass on swigluoai and only there") {
  Json request = base_of("native");
  request["capacity"]["swiglu_alpha"] = 1.702;
  CHECK(answer(request)["error"]["code"] == "swiglu_scale");
  request["weights"]["activation"] = "swigluoai_uninterleave";
  CHECK(answer(request).contains("layout"));
}

TEST_CASE("of two mistakes the weights' names come before their shapes, and weights before capacity") {
  Json request = base_of("native");
  request["weights"]["hidden_size"] = 0;
  request["capacity"]["block_size_m"] = 24;
  CHECK(answer(request)["error"]["code"] == "not_positive");
  request["weights"]["source_format"] = "btx";
  CHECK(answer(request)["error"]["code"] == "unsupported_source_format");
}

TEST_CASE("every error word of weights and capacities is met by some mistake") {
  std::set<std::string> met;
  for (const Mistake& mistake : mistakes()) met.insert(mistake.code);
  const auto first = static_cast<int>(ErrorCode::unknown_key),
             last = static_cast<int>(ErrorCode::too_many_local_experts);
  for (int code = first; code <= last; ++code) {
    const std::string word(kErrorCodes[code].word);
    // These belong to configs and are met in tests of the command line.
    if (word == "invalid_pointer" || word == "unresolved_variable" || word == "unknown_schema_version")
      continue;
    INFO(word);
    CHECK(met.contains(word));
  }
}
