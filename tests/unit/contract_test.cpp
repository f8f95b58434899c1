// Contracts as data, and errors each with its own condition.
#include <set>

#include "planner/core/contract.hpp"
#include "planner/core/error_code.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

ErrorCode code_of(const MoeRequest& request) {
  const auto layout = plan_moe(request);
  REQUIRE(!layout);
  CHECK(!layout.error().message.empty());
  CHECK(layout.error().pointer.starts_with("/"));
  return layout.error().code;
}

MoeRequest packed() { return packed_request("sparkinfer-c2f135c", 8, 256, 128, 2, 16, 188); }
MoeRequest btx() { return trellis_request("b12x-36bce2c", 8, 256, 256, 2, 16, 188); }

}  // namespace

TEST_CASE("contracts are found by id and only by id") {
  std::set<std::string_view> ids;
  for (const Contract& contract : contracts()) {
    CHECK(find_contract(contract.id) == &contract);
    ids.insert(contract.id);
  }
  CHECK(ids.size() == contracts().size());
  CHECK(find_contract("sparkinfer") == nullptr);
}

TEST_CASE("error words are distinct") {
  std::set<std::string_view> words;
  for (const ErrorCodeRow& row : kErrorCodes) words.insert(row.word);
  CHECK(words.size() == std::size(kErrorCodes));
}

TEST_CASE("weights that cannot be planned are refused by their condition") {
  MoeRequest request = packed();
  request.weights.source_format = SourceFormat::btx;
  CHECK(code_of(request) == ErrorCode::unsupported_source_format);
  request = packed();
  request.weights.weight_quant_modes.emplace();
  CHECK(code_of(request) == ErrorCode::empty_mode_list);
  request = packed();
  request.weights.quant_mode = QuantMode::w6a8_mx;
  CHECK(code_of(request) == ErrorCode::source_mode_mismatch);
  request = packed();
  request.weights.hidden_size = 0;
  CHECK(code_of(request) == ErrorCode::not_positive);
  request = packed();
  request.weights.weight_layout = LayoutOverride::source_native;
  CHECK(code_of(request) == ErrorCode::layout_source_mismatch);
  request = packed();
  request.weights.weight_quant_modes = {QuantMode::w4a16, QuantMode::w4a16};
  CHECK(code_of(request) == ErrorCode::incompatible_modes);
  request = native_request("sparkinfer-c2f135c", 8, 256, 128, 2, 16, 188);
  request.weights.weight_quant_modes = {QuantMode::w4a16, QuantMode::nvfp4, QuantMode::w4a16};
  CHECK(code_of(request) == ErrorCode::duplicate_mode);
  request.weights.weight_quant_modes = {QuantMode::nvfp4};
  CHECK(code_of(request) == ErrorCode::mode_not_in_weight_plan);
  request = packed();
  request.weights.io_dtype = DType::float32;
  CHECK(code_of(request) == ErrorCode::unsupported_io_dtype);
}

TEST_CASE("b12x Trellis settings are checked against each other") {
  MoeRequest request = btx();
  request.weights.trellis_codebook.reset();
  CHECK(code_of(request) == ErrorCode::trellis_codebook);
  request = btx();
  request.weights.trellis_bits = 2;
  CHECK(code_of(request) == ErrorCode::trellis_bits);
  request = btx();
  request.weights.coupled_hadamard = true;
  CHECK(code_of(request) == ErrorCode::trellis_coupled_hadamard);
  request = btx();
  request.weights.trellis_tile_config = {64, 256, 64};
  CHECK(code_of(request) == ErrorCode::trellis_tile_config);
  request = btx();
  request.weights.trellis_rate_structure = TrellisRates::per_expert_pair;
  for (const std::vector<TrellisPair>& refused : {std::vector<TrellisPair>{},
                                                  {TrellisPair::P24},
                                                  {TrellisPair::P33, TrellisPair::P24, TrellisPair::P43}}) {
    request.weights.trellis_pair_kinds = refused;
    CHECK(code_of(request) == ErrorCode::trellis_rates);
  }
  request.weights.trellis_pair_kinds = {TrellisPair::P43, TrellisPair::P33};
  CHECK(plan_moe(request));
  request.weights.trellis_bits = 4;
  CHECK(code_of(request) == ErrorCode::trellis_rates);
  request.weights.trellis_bits = 3;
  request.weights.intermediate_size = 512;
  CHECK(code_of(request) == ErrorCode::trellis_rates);
}

TEST_CASE("coupled Hadamard drops the up rotation, which is then the gate's") {
  MoeRequest request = btx();
  request.weights.trellis_codebook = TrellisCodebook::sqg_e4m3;
  const auto apart = plan_moe(request);
  request.weights.coupled_hadamard = true;
  const auto coupled = plan_moe(request);
  REQUIRE((apart && coupled));
  CHECK(find_tensor(*apart, "rotation_a_up"));
  CHECK(!find_tensor(*coupled, "rotation_a_up"));
  CHECK(coupled->total_bytes < apart->total_bytes);
}

TEST_CASE("launch planning refuses an unpinned Trellis plan, the size query does not") {
  MoeRequest request = trellis_request("sparkinfer-c2f135c", 8, 256, 256, 2, 16, 188);
  CHECK(plan_moe(request));
  request.purpose = Purpose::launch;
  CHECK(code_of(request) == ErrorCode::launch_needs_block_size);
  request.device.type = DeviceType::cpu;
  CHECK(plan_moe(request));
  request.device.type.reset();
  request.capacity.block_size_m = 8;
  CHECK(plan_moe(request));
}

TEST_CASE("the micro cut-over moves the token list of W4A16 plans too") {
  MoeRequest request = packed();
  request.capacity.max_tokens = 64;
  CHECK(plan_moe(request)->by_tokens.back().tokens == 32);
  request.capacity.micro_cutover_pairs = 16;
  CHECK(plan_moe(request)->by_tokens.back().tokens == 8);
}
