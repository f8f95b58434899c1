// The planner's 64 bits against a reference in 128: at the largest accepted inputs and at random ones.
#include "planner/core/limits.hpp"

#include <random>

#include "planner/launch/launch_key.hpp"
#include "planner/moe/geometry.hpp"
#include "tests/catch.hpp"
#include "tests/property/reference.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

constexpr i64 kMost = INT64_MAX;

void check_total(const MoeRequest& request, Wide expected) {
  const auto layout = plan_moe(request);
  REQUIRE(layout);
  CHECK(expected <= kMost / 2);
  CHECK(layout->total_bytes == static_cast<i64>(expected));
  CHECK(layout->arena.end <= layout->total_bytes);
}

MoeRequest largest(MoeRequest request) {
  request.weights.experts = kMaxExperts;
  request.weights.hidden_size = kMaxDimension;
  request.weights.intermediate_size = kMaxDimension;
  request.device.sm_count = kMaxMultiprocessors;
  request.capacity.max_tokens = kMaxTokens;
  request.capacity.top_k = kMaxTopK;
  if (request.kind == MoeKind::expert_parallel) request.capacity.global_experts = kMaxExperts;
  return request;
}

}  // namespace

TEST_CASE("the largest accepted inputs stay within 62 bits and equal a 128-bit reference") {
  for (const char* contract : kContractIds) {
    INFO(contract);
    const MoeRequest packed = largest(packed_request(contract, 1, 1, 1, 1, 1, 1));
    check_total(packed, reference_w4a16(packed));
    const MoeRequest native = largest(native_request(contract, 1, 1, 1, 1, 1, 1));
    check_total(native, reference_w4a16(native));
    MoeRequest trellis = largest(trellis_request(contract, 1, 1, 1, 1, 1, 1));
    trellis.capacity.route_experts = kMaxExperts;
    check_total(trellis, reference_w4a16(trellis));
    const MoeRequest parallel = largest(expert_parallel_request(contract, 1, 1, 1, 1, 1, 1, 1));
    check_total(parallel, reference_expert_parallel(parallel));
    MoeRequest mx = largest(packed_request(contract, 1, 1, 1, 1, 1, 1));
    mx.weights.quant_mode = QuantMode::w6a8_mx;
    mx.weights.source_format = SourceFormat::mxfp6_e2m3;
    mx.capacity.deterministic_output = true;
    check_total(mx, reference_w6a8_mx(mx));
  }
}

TEST_CASE("the largest accepted inputs of a lean plan stay within 62 bits and equal a 128-bit reference") {
  MoeRequest request = largest(trellis_request(kLeanContractId, 1, 1, 1, 1, 1, 1));
  for (i64 route_experts : {i64{0}, kMaxExperts}) {
    request.capacity.route_experts = route_experts;
    for (i64 tokens : {i64{1}, i64{64}, i64{65}, kMaxTokens}) {
      request.capacity.max_tokens = tokens;
      check_total(request, reference_lean(request));
    }
  }
}

TEST_CASE("5,000 random requests of the lean contract equal the reference") {
  std::mt19937_64 random(20261130);
  const auto in = [&](i64 low, i64 high) {
    return low + static_cast<i64>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int i = 0; i < 5'000; ++i) {
    MoeRequest request = trellis_request(kLeanContractId, in(1, 400), 128 * in(1, 64), 128 * in(1, 20),
                                         in(1, 40), i % 2 ? in(1, 64) : in(65, 9'000), in(1, 200));
    if (i % 3 == 0) request.capacity.route_experts = in(0, 512);
    if (i % 5 == 0) request.capacity.route_experts.reset();
    if (i % 7 == 0) request.capacity.block_size_m = kBlockSizes[in(0, 4)];
    INFO("E=" << request.weights.experts << " k=" << request.weights.hidden_size
              << " n=" << request.weights.intermediate_size << " topk=" << request.capacity.top_k
              << " tokens=" << request.capacity.max_tokens);
    check_total(request, reference_lean(request));
  }
}

TEST_CASE("offsets stay ordered in every mode at the largest accepted inputs") {
  const std::pair<QuantMode, SourceFormat> modes[] = {{QuantMode::nvfp4, SourceFormat::modelopt_nvfp4},
                                                      {QuantMode::w4a8_nvfp4, SourceFormat::modelopt_nvfp4},
                                                      {QuantMode::w4a8_mx, SourceFormat::fp4_e8m0_k32}};
  for (const auto& [mode, source] : modes) {
    MoeRequest request = largest(packed_request("b12x-36bce2c", 1, 1, 1, 1, 1, 1));
    request.weights.quant_mode = mode;
    request.weights.source_format = source;
    request.capacity.deterministic_output = true;
    for (i64 tokens : {i64{1}, i64{4}, i64{8}, kMaxTokens}) {
      request.capacity.max_tokens = tokens;
      const auto layout = plan_moe(request);
      REQUIRE(layout);
      i64 before = 0;
      for (const TensorSpec& tensor : layout->arena.tensors) {
        CHECK(tensor.offset >= before);
        CHECK(tensor.bytes >= 0);
        CHECK(tensor.bytes < kMost / 4);
        before = tensor.offset + tensor.bytes;
      }
      CHECK(layout->total_bytes >= before);
    }
  }
}

TEST_CASE("20,000 random requests equal the reference") {
  std::mt19937_64 random(20260730);
  const auto pick = [&](std::initializer_list<i64> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
  };
  for (int i = 0; i < 20'000; ++i) {
    const char* contract = kContractIds[random() % 3];
    const i64 experts = pick({1, 2, 4, 8, 16, 64, 128, 160, 256, 384});
    const i64 hidden = 128 * pick({1, 2, 5, 16, 48, 56});
    const i64 intermediate = pick({16, 24, 48, 80, 96, 128, 320, 352, 512, 768, 2048});
    const i64 top_k = pick({1, 2, 4, 6, 8, 10, 22, 40, 65});
    const i64 tokens =
        1 + static_cast<i64>(random() % static_cast<std::uint64_t>(pick({2, 9, 70, 700, 9000})));
    const i64 sms = pick({1, 48, 132, 188});
    MoeRequest request;
    switch (random() % 4) {
      case 0:
        request = packed_request(contract, experts, hidden, intermediate, top_k, tokens, sms);
        break;
      case 1:
        request = native_request(contract, experts, hidden, intermediate, top_k, tokens, sms);
        break;
      case 2:
        request =
            trellis_request(contract, experts, hidden, 128 * (1 + intermediate / 128), top_k, tokens, sms);
        break;
      default:
        request = expert_parallel_request(contract, experts, experts * pick({1, 2, 8}), hidden, intermediate,
                                          top_k, tokens, sms);
    }
    if (random() % 3 == 0) request.weights.activation = Activation::relu2;
    if (request.weights.activation == Activation::relu2 &&
        request.weights.source_format == request.contract->trellis_source)
      request.weights.activation = Activation::situ;
    if (request.kind == MoeKind::tensor_parallel) {
      if (random() % 2) request.capacity.block_size_m = kBlockSizes[random() % 5];
      if (random() % 2) request.capacity.route_experts = pick({0, 1, 32, 160, 512});
      if (random() % 4 == 0) request.weights.io_dtype = DType::float16;
    }
    INFO(contract << " E=" << experts << " k=" << hidden << " n=" << request.weights.intermediate_size
                  << " topk=" << top_k << " tokens=" << tokens << " sms=" << sms);
    check_total(request, request.kind == MoeKind::expert_parallel ? reference_expert_parallel(request)
                                                                  : reference_w4a16(request));
  }
}

TEST_CASE("the largest launches stay within 62 bits: work, shared memory and blocks") {
  constexpr Wide kBits62 = Wide{1} << 62;
  const Wide rows = Wide{kMaxTokens} * 2 * kMaxTopK;  // of the bucket above the most tokens
  const Wide columns = 2 * Wide{kMaxDimension};
  CHECK(columns / 64 * rows * 4 < kBits62);                          // work of the smallest tile
  CHECK(rows + Wide{kMaxExperts} * 63 < kBits62);                    // route slots
  CHECK(4 * Wide{kMaxDimension} * kMaxDimension * 8 / 8 < kBits62);  // weight stages of a stated tile
  CHECK(4 * (8 * Wide{kMaxDimension} / 16 * (kMaxDimension / 16)) * 4 * 8 < kBits62);  // the kernel's count

  // Where the bounds allow a plan at all, its keys agree with 128 bits.
  MoeRequest request =
      trellis_request("sparkinfer-de04125", kMaxExperts, 1 << 14, 1 << 13, 64, kMaxTokens, 188);
  request.capacity.block_size_m = 64;
  request.weights.trellis_tile_config = {64, 128, 64, 128};
  const auto layout = plan_moe(request);
  REQUIRE(layout);
  const auto plan = launch_plan(request, *layout, 232'448);
  REQUIRE(plan);
  for (i64 m : {i64{1}, i64{1000}, (i64{1} << 23) + 1, kMaxTokens}) {
    const Wide expected = cd(slots(bucket(m) * 64, 64, kMaxExperts), 64);
    CHECK(Wide{max_m_blocks(*plan, m)} == expected);
  }
}
