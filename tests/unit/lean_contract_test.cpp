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

TEST_CASE("a lean decode plan of 64 tokens takes 8 MiB for GLM-5.2, whatever its experts") {
  // 512 routes: 6,291,456 B hold all 48 blocks of 128 columns of each.
  const std::vector<Tensor> tensors = {{"full_rotation_output", DType::float32, 64 * 6144},
                                       {"intermediate_cache2", DType::float16, 64 * 8 * 512},
                                       {"expert_rows", DType::float16, 64 * 8 * 48 * 128}};
  for (i64 experts : {160, 256}) {
    check_arena(glm(experts, 64), tensors, 1'572'864 + 524'288 + 6'291'456);
    const auto layout = plan_moe(glm(experts, 64));
    CHECK(layout->total_bytes == 8'388'608);
    CHECK_FALSE(layout->route_block_size_m);
    CHECK(layout->route_slots == 0);
  }
}

TEST_CASE("a lean decode plan of 1 token takes 128 KiB for GLM-5.2") {
  check_arena(glm(160, 1),
              {{"full_rotation_output", DType::float32, 6144},
               {"intermediate_cache2", DType::float16, 8 * 512},
               {"expert_rows", DType::float16, 8 * 6144}},
              24'576 + 8'192 + 98'304);
  CHECK(plan_moe(glm(160, 1))->total_bytes == 131'072);
}

TEST_CASE("a lean prefill plan of 3,072 tokens takes 120 MiB for GLM-5.2 and what its routes' blocks take") {
  // 24,576 routes: 24 MiB hold 4 blocks of 128 columns of each. Any expert's last block may have one row.
  for (i64 experts : {160, 256}) {
    const i64 slots = 24'576 + experts * (kLeanBlock - 1), blocks = ceil_div(slots, kLeanBlock);
    const i64 routes_bytes = align_up(4 * slots, 16) + align_up(4 * blocks, 16) + 16 +
                             align_up(4 * (experts + 1), 16) + align_up(4 * experts, 16);
    check_arena(glm(experts, 3072),
                {{"full_rotation_output", DType::float32, 3072 * 6144},
                 {"intermediate_cache2", DType::float16, 3072 * 8 * 512},
                 {"expert_rows", DType::float16, 3072 * 8 * 4 * 128},
                 {"packed_route_indices", DType::int32, slots},
                 {"block_expert_ids", DType::int32, blocks},
                 {"packed_route_count", DType::int32, 1},
                 {"expert_offsets", DType::int32, experts + 1},
                 {"expert_counts", DType::int32, experts},
                 {"kernel_workspace", DType::int32, 4}},
                75'497'472 + 25'165'824 + 25'165'824 + routes_bytes + 16);
    const auto layout = plan_moe(glm(experts, 3072));
    CHECK(layout->total_bytes <= 160 << 20);
    CHECK(layout->route_block_size_m == kLeanBlock);
    CHECK(layout->route_slots == slots);
  }
}

TEST_CASE("64 tokens are the last of lean decode plans, 65 the first of prefill plans") {
  for (const char* name : {"packed_route_indices", "block_expert_ids", "packed_route_count", "expert_offsets",
                           "expert_counts", "kernel_workspace"}) {
    INFO(name);
    CHECK_FALSE(find_tensor(*plan_moe(glm(256, 64)), name));
    CHECK(find_tensor(*plan_moe(glm(256, 65)), name));
  }
}

TEST_CASE("gate and up lie in a lean plan's output, which is as large as they where that is more") {
  // 8 routes of 2 x 2,048 halves a token are 16,384 floats, the output's row 6,144.
  for (i64 tokens : {1, 64, 100}) {
    MoeRequest request = glm(256, tokens);
    CHECK(find_tensor(*plan_moe(request), "full_rotation_output")->shape.elements() == tokens * 6144);
    request.weights.intermediate_size = 2048;
    CHECK(find_tensor(*plan_moe(request), "full_rotation_output")->shape.elements() == tokens * 16'384);
  }
}

TEST_CASE("a lean slice has one block of columns at least and the hidden size at most") {
  CHECK(find_tensor(*plan_moe(glm(256, 1)), "expert_rows")->shape.elements() == 8 * 6144);
  CHECK(find_tensor(*plan_moe(glm(256, 1 << 20)), "expert_rows")->shape.elements() == (i64{8} << 20) * 128);
  // 64 tokens of 24 experts: 1,536 routes of 16 blocks fill the room of a decode plan.
  MoeRequest request = glm(256, 64);
  request.capacity.top_k = 24;
  CHECK(find_tensor(*plan_moe(request), "expert_rows")->shape.elements() == 1536 * 16 * 128);
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
