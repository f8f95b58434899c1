// The lean contract: its tensors to the byte, and what it refuses.
#include "planner/moe/lean_geometry.hpp"

#include "planner/core/error_code.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

// GLM-5.2 on four ranks.
MoeRequest glm(i64 experts, i64 tokens) {
  return trellis_request(kLeanContractId, experts, 6144, 512, 8, tokens, 188);
}

struct Tensor {
  const char* name;
  DType dtype;
  i64 elements;
};

// Each at the next multiple of 16, in this order, and nothing behind the last.
void check_arena(const MoeRequest& request, const std::vector<Tensor>& expected, i64 total) {
  const auto layout = plan_moe(request);
  REQUIRE(layout);
  REQUIRE(layout->arena.tensors.size() == expected.size());
  i64 end = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const TensorSpec& tensor = layout->arena.tensors[i];
    INFO(expected[i].name);
    CHECK(tensor.name == expected[i].name);
    CHECK(tensor.dtype == expected[i].dtype);
    CHECK(tensor.shape.elements() == expected[i].elements);
    CHECK(tensor.offset == align_up(end, 16));
    end = align_up(end, 16) + expected[i].elements * item_bytes(expected[i].dtype);
  }
  CHECK(end == total);
  CHECK(layout->total_bytes == total);
  CHECK(layout->core_bytes == total);
  REQUIRE(layout->by_tokens.size() == 1);
  CHECK(layout->by_tokens[0].tokens == request.capacity.max_tokens);
}

Error refused(const MoeRequest& request) {
  const auto layout = plan_moe(request);
  REQUIRE(!layout);
  CHECK_FALSE(layout.error().help.empty());
  return layout.error();
}

}  // namespace

TEST_CASE("a lean decode plan of 64 tokens takes 3.75 MiB for GLM-5.2, whatever its experts") {
  // 512 routes: 1,310,720 B hold 10 blocks of 128 columns of each.
  const std::vector<Tensor> tensors = {{"full_rotation_output", DType::float32, 64 * 6144},
                                       {"gate_up", DType::float16, 64 * 8 * 2 * 512},
                                       {"expert_rows", DType::float16, 64 * 8 * 10 * 128},
                                       {"kernel_workspace", DType::int32, 6144 / 128 + 4}};
  for (i64 experts : {160, 256}) {
    check_arena(glm(experts, 64), tensors, 1'572'864 + 1'048'576 + 1'310'720 + 208);
    const auto layout = plan_moe(glm(experts, 64));
    CHECK(layout->total_bytes == 3'932'368);
    CHECK(layout->total_bytes <= 4 << 20);
    CHECK_FALSE(layout->route_block_size_m);
    CHECK(layout->route_slots == 0);
  }
}

TEST_CASE("a lean prefill plan of 3,072 tokens takes 120.22 MiB for GLM-5.2 with 256 experts") {
  // 24,576 routes: 24 MiB hold 4 blocks of 128 columns of each. 24,576 + 256 x 127 slots of 128 rows a block.
  check_arena(
      glm(256, 3072),
      {{"full_rotation_output", DType::float32, 3072 * 6144},
       {"intermediate_cache2", DType::float16, 3072 * 8 * 512},
       {"expert_rows", DType::float16, 3072 * 8 * 4 * 128},
       {"packed_route_indices", DType::int32, 24'576 + 256 * 127},
       {"block_expert_ids", DType::int32, 446},
       {"packed_route_count", DType::int32, 1},
       {"expert_offsets", DType::int32, 257},
       {"expert_counts", DType::int32, 256},
       {"kernel_workspace", DType::int32, 52}},
      75'497'472 + 25'165'824 + 25'165'824 + 228'352 + (1'784 + 8) + (4 + 12) + (1'028 + 12) + 1'024 + 208);
  const auto layout = plan_moe(glm(256, 3072));
  CHECK(layout->total_bytes == 126'061'552);
  CHECK(layout->total_bytes <= 160 << 20);
  CHECK(layout->route_block_size_m == kLeanBlock);
  CHECK(layout->route_slots == 57'088);
}

TEST_CASE("a lean prefill plan of 3,072 tokens takes 120.17 MiB for GLM-5.2 with 160 experts") {
  check_arena(
      glm(160, 3072),
      {{"full_rotation_output", DType::float32, 3072 * 6144},
       {"intermediate_cache2", DType::float16, 3072 * 8 * 512},
       {"expert_rows", DType::float16, 3072 * 8 * 4 * 128},
       {"packed_route_indices", DType::int32, 24'576 + 160 * 127},
       {"block_expert_ids", DType::int32, 351},
       {"packed_route_count", DType::int32, 1},
       {"expert_offsets", DType::int32, 161},
       {"expert_counts", DType::int32, 160},
       {"kernel_workspace", DType::int32, 52}},
      75'497'472 + 25'165'824 + 25'165'824 + 179'584 + (1'404 + 4) + (4 + 12) + (644 + 12) + 640 + 208);
  CHECK(plan_moe(glm(160, 3072))->total_bytes == 126'011'632);
}

TEST_CASE("64 tokens are the last of lean decode plans, 65 the first of prefill plans") {
  CHECK(find_tensor(*plan_moe(glm(256, 64)), "gate_up"));
  CHECK_FALSE(find_tensor(*plan_moe(glm(256, 64)), "intermediate_cache2"));
  CHECK_FALSE(find_tensor(*plan_moe(glm(256, 65)), "gate_up"));
  CHECK(find_tensor(*plan_moe(glm(256, 65)), "intermediate_cache2"));
}

TEST_CASE("gate and up lie in a lean prefill plan's output, which is as large as they where that is more") {
  // 8 routes of 2 x 2,048 halves a token are 16,384 floats, the output's row 6,144.
  MoeRequest request = glm(256, 100);
  request.weights.intermediate_size = 2048;
  CHECK(find_tensor(*plan_moe(request), "full_rotation_output")->shape.elements() == 100 * 16'384);
  request.capacity.max_tokens = 64;
  CHECK(find_tensor(*plan_moe(request), "full_rotation_output")->shape.elements() == 64 * 6144);
}

TEST_CASE("a lean slice has one block of columns at least and the hidden size at most") {
  CHECK(find_tensor(*plan_moe(glm(256, 1)), "expert_rows")->shape.elements() == 8 * 6144);
  CHECK(find_tensor(*plan_moe(glm(256, 1 << 20)), "expert_rows")->shape.elements() == (i64{8} << 20) * 128);
}

TEST_CASE("a lean plan counts the router's experts, and ignores a pin") {
  MoeRequest request = glm(64, 3072);
  request.capacity.route_experts = 256;
  const auto layout = plan_moe(request);
  REQUIRE(layout);
  CHECK(layout->route_experts == 256);
  CHECK(find_tensor(*layout, "expert_counts")->shape.elements() == 256);
  for (i64 block : {8, 16, 32, 48, 64}) {
    MoeRequest pinned = request;
    pinned.capacity.block_size_m = block;
    CHECK(plan_moe(pinned)->total_bytes == layout->total_bytes);
    CHECK(plan_moe(pinned)->route_block_size_m == kLeanBlock);
  }
}

TEST_CASE("what the lean executor does not run is refused with its place") {
  MoeRequest request = glm(256, 64);
  request.weights.activation = Activation::situ;
  CHECK(refused(request).code == ErrorCode::activation_mode_mismatch);
  CHECK(refused(request).pointer == "/weights/activation");

  for (SourceFormat source :
       {SourceFormat::modelopt_nvfp4, SourceFormat::compressed_tensors, SourceFormat::fp4_e8m0_k32}) {
    request = glm(256, 64);
    request.weights.source_format = source;
    CHECK(refused(request).code == ErrorCode::source_mode_mismatch);
    CHECK(refused(request).pointer == "/weights/source_format");
  }
  request = glm(256, 64);
  request.weights.source_format = SourceFormat::btx;
  CHECK(refused(request).code == ErrorCode::unsupported_source_format);
  for (QuantMode mode : {QuantMode::nvfp4, QuantMode::w4a8_mx, QuantMode::w4a8_nvfp4, QuantMode::w6a8_mx}) {
    request = glm(256, 64);
    request.weights.quant_mode = mode;
    CHECK(refused(request).code == ErrorCode::source_mode_mismatch);
  }
  for (i64 bits : {2, 7}) {
    request = glm(256, 64);
    request.weights.trellis_bits = bits;
    CHECK(refused(request).code == ErrorCode::trellis_bits);
  }
  for (i64 bits : {3, 4, 5, 6}) {
    request.weights.trellis_bits = bits;
    CHECK(plan_moe(request));
  }
  request = glm(256, 64);
  request.weights.trellis_rate_structure = TrellisRates::per_expert_pair;
  CHECK(refused(request).code == ErrorCode::field_not_in_contract);
  request = glm(256, 64);
  request.weights.intermediate_size = 192;
  CHECK(refused(request).code == ErrorCode::misaligned_shape);

  request = expert_parallel_request(kLeanContractId, 64, 256, 6144, 512, 8, 64, 188);
  CHECK(refused(request).code == ErrorCode::field_not_in_contract);
  CHECK(refused(request).pointer == "/kind");
  request = glm(256, 64);
  request.capacity.swiglu_limit = SwigluLimit::positive;
  CHECK(refused(request).code == ErrorCode::swiglu_limit);
  request = glm(256, 64);
  request.capacity.apply_router_weight_on_input = true;
  CHECK(refused(request).pointer == "/capacity/apply_router_weight_on_input");
  request.capacity.apply_router_weight_on_input = false;
  CHECK(plan_moe(request));
  request.capacity.core_token_counts = {64};
  CHECK(refused(request).pointer == "/capacity/core_token_counts");
}
