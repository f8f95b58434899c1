// Recorded values of single functions of the original planners.
#include "planner/moe/per_call.hpp"
#include "planner/moe/w4a16.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

Json call_function(const std::string& name, const Json& inputs) {
  const auto arg = [&](std::size_t i) { return inputs["args"][i].get<i64>(); };
  if (name == "select_route_block_size_m") return select_block_size(arg(0), arg(1), arg(2));
  if (name == "max_packed_route_slots") return route_slots(arg(0), arg(1), arg(2));
  if (name == "route_pack_token_capacity") return pow2_ceil(arg(0));
  if (name == "packed_gemm_scratch_elements") {
    const Json& named = inputs["kwargs"];
    return gemm_scratch_elements(named["size_n"], named["route_slots"], named["moe_block_size"],
                                 named["sms"]);
  }
  if (name == "route_block_sizes_for_capacity") {
    const BlockRange range = reachable_blocks(arg(0), arg(1), arg(2));
    Json sizes = Json::array();
    for (int i = range.first; i <= range.last; ++i) sizes.push_back(kBlockSizes[i]);
    return sizes;
  }
  return nullptr;
}

std::optional<i64> optional_integer(const Json& object, const char* key) {
  if (!object.contains(key) || object[key].is_null()) return std::nullopt;
  return object[key].get<i64>();
}

Json per_call(const Contract& contract, const Json& in) {
  const PerCallBuffers b = size_per_call(contract, {.tokens = in["m"],
                                                    .top_k = in["topk"],
                                                    .experts = in["E"],
                                                    .hidden = in["k"],
                                                    .intermediate = in["n"],
                                                    .multiprocessors = in["sms"],
                                                    .gated = in["is_gated"],
                                                    .full_rotation = in["full_rotation"],
                                                    .route_experts = optional_integer(in, "route_E"),
                                                    .block_size = optional_integer(in, "block_size_m")});
  return {{"routed_rows", b.routed_rows},
          {"fc1_cols", b.fc1_columns},
          {"route_slots", b.route_slots},
          {"route_blocks", b.route_blocks},
          {"fc1_c_tmp_elements", b.fc1_scratch},
          {"fc2_c_tmp_elements", b.fc2_scratch},
          {"intermediate_cache13_elements", b.intermediate_cache13},
          {"intermediate_cache2_elements", b.intermediate_cache2},
          {"block_size_m", b.block_size},
          {"rotation_a_elements", b.rotation_a}};
}

template <class Enum, std::size_t N>
std::optional<Enum> parse(const std::string_view (&names)[N], const std::string& word) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == word) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

bool small_m(const Json& in) {
  const auto activation = parse<Activation>(kActivationNames, in["activation"]);
  const auto scale = parse<ScaleFormat>(kScaleFormatNames, in["scale_format"]);
  REQUIRE((activation && scale));
  const SmallMShape shape{
      .tokens = in["m"],
      .top_k = in["topk"],
      .hidden = in["hidden_size"],
      .intermediate = in["intermediate_size"],
      .experts = in["num_experts"],
      .activation = *activation,
      .io_dtype = in["element_dtype"] == "bf16" ? DType::bfloat16 : DType::float16,
      .layout = in["weight_layout"] == "modelopt" ? WeightLayout::native : WeightLayout::packed,
      .scale_format = *scale,
      .apply_router_weight_on_input = in["apply_router_weight_on_input"],
      .has_swiglu_limit = !in["swiglu_limit"].is_null()};
  return small_m_direct_applies(shape);
}

}  // namespace

TEST_CASE("recorded values of single functions are computed alike") {
  int cases = 0;
  for (const Json& row : read_lines("tests/golden/moe_helpers.jsonl")) {
    INFO(row.dump());
    const Contract* contract = find_contract(row["contract"].get<std::string>());
    REQUIRE(contract);
    const std::string what = row["what"];
    const Json& inputs = row["inputs"];
    ++cases;
    if (what == "function")
      CHECK(call_function(inputs["fn"], inputs) == row["value"]);
    else if (what == "per_call_buffers")
      CHECK(per_call(*contract, inputs) == row["value"]);
    else if (what == "small_m_direct")
      CHECK(small_m(inputs) == row["value"].get<bool>());
    else
      FAIL("an unknown sort of value: " << what);
  }
  CHECK(cases == 468);
}
