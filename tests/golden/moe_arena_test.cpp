// Recorded arenas of the original planners, field for field.
#include "tests/golden/recorded.hpp"

using namespace moeplan;
using namespace moeplan::test;

TEST_CASE("every recorded W4A16 arena is planned alike") {
  CHECK(compare_recorded("tests/golden/moe_w4a16.jsonl") == 213);
}

TEST_CASE("every recorded micro and dynamic arena is planned alike") {
  CHECK(compare_recorded("tests/golden/moe_micro_dynamic.jsonl") == 79);
}

TEST_CASE("recorded errors are answered with the code of their condition") {
  // The original's words tell the condition; these parts of them are stable.
  const std::pair<const char*, const char*> kConditions[] = {
      {"local expert count cannot exceed", "too_many_local_experts"},
      {"requires BF16 activations", "unsupported_io_dtype"},
      {"global_num_experts must be positive", "not_positive"},
      {"w4a16_block_size_m must be one of", "block_size"},
      {"unsupported activation", "unsupported_activation"},
      {"source_format must be one of", "unsupported_source_format"},
      {"has been removed", "unsupported_source_format"},
      {"is absent from the weight plan", "mode_not_in_weight_plan"},
      {"unsupported quant_mode", "unsupported_quant_mode"},
      {"unsupported MoE plan dtype", "unsupported_io_dtype"},
      {"divisible by 128", "misaligned_shape"},
      {"hidden_size % 256", "misaligned_shape"},
      {"requires silu or situ", "activation_mode_mismatch"},
      {"is not supported for W4A8", "activation_mode_mismatch"},
      {"must contain four positive multiples", "trellis_tile_config"},
      {"require source_format='exl3", "trellis_setting_without_trellis"},
      {"require a trellis source format", "trellis_setting_without_trellis"},
      {"requires the packed MMA layout", "layout_source_mismatch"},
      {"requires trellis_native layout", "layout_source_mismatch"},
      {"trellis_native layout requires", "layout_source_mismatch"},
      {"num_experts must be positive, got 0", "not_positive"},
      {"intermediate_size must be positive", "not_positive"},
      {"swiglu_limit", "swiglu_limit"},
      {"swiglu_alpha is only", "swiglu_scale"},
      {"swiglu_beta is only", "swiglu_scale"},
      {"requires the arena's route_block_size_m", "launch_needs_block_size"},
      {"source-native weights and a model-sized repack", "incompatible_modes"},
      {"multiple incompatible model-sized", "incompatible_modes"},
      {"per-expert-pair", "trellis_rates"},
      {"P44", "trellis_rates"},
      {"uniform btx rates declare no", "trellis_rates"},
      {"coupled-Hadamard", "trellis_coupled_hadamard"},
      {"duplicate quant_mode", "duplicate_mode"},
      {"mcg btx weights require trellis_bits>=3", "out_of_range_or_bits"},
      {"trellis_bits must be one of", "out_of_range_or_bits"},
      {"sqg_fp16 is defined only", "trellis_bits"},
      {"missing 1 required keyword", "missing_field"},
      {"with quant_mode=", "source_mode_mismatch"},
      {"got an unexpected keyword argument 'trellis_codebook'", "field_not_in_contract"},
      {"got an unexpected keyword argument 'coupled_hadamard'", "field_not_in_contract"},
      {"got an unexpected keyword argument", "field_not_in_kind"},
  };
  BatchAnswerer answerer;
  int errors = 0;
  for (const char* path : {"tests/golden/moe_w4a16.jsonl", "tests/golden/moe_micro_dynamic.jsonl"}) {
    for (const Json& recorded : read_lines(path)) {
      if (!recorded["response"].contains("error")) continue;
      ++errors;
      const std::string original = recorded["response"]["error"]["message"];
      std::string text;
      answerer.answer(recorded["request"].dump(), 1, text);
      const Json error = Json::parse(text)["error"];
      INFO(original << "\n" << text);
      CHECK(error["pointer"].get<std::string>().starts_with("/"));
      const auto* condition =
          std::find_if(std::begin(kConditions), std::end(kConditions),
                       [&](const auto& row) { return original.find(row.first) != std::string::npos; });
      REQUIRE(condition != std::end(kConditions));
      // Bits beyond every contract are refused by the request's own bounds.
      if (std::string_view(condition->second) == "out_of_range_or_bits")
        CHECK((error["code"] == "out_of_range" || error["code"] == "trellis_bits"));
      else
        CHECK(error["code"] == condition->second);
    }
  }
  CHECK(errors == 57);
}
