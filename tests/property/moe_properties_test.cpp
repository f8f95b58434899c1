// What holds of every plan, over exhaustive small worlds and random large ones.
#include <set>

#include "planner/moe/per_call.hpp"
#include "planner/moe/w4a16.hpp"
#include "tests/catch.hpp"
#include "tests/random.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

// The most padded rows any routing of `rows` pairs over `experts` needs: every way to share them out.
i64 worst_padded_rows(i64 rows, i64 experts, i64 block_size) {
  std::vector<i64> most(static_cast<std::size_t>(rows + 1), -1);
  most[0] = 0;
  for (i64 expert = 0; expert < experts; ++expert) {
    std::vector<i64> next = most;
    for (i64 routed = 0; routed <= rows; ++routed) {
      if (most[static_cast<std::size_t>(routed)] < 0) continue;
      for (i64 share = 1; routed + share <= rows; ++share) {
        i64& best = next[static_cast<std::size_t>(routed + share)];
        best = max_of(best, most[static_cast<std::size_t>(routed)] + align_up(share, block_size));
      }
    }
    most = next;
  }
  return most[static_cast<std::size_t>(rows)];
}

}  // namespace

TEST_CASE("P1 the block size never falls as tokens rise and equals the fill rule in floating point") {
  for (i64 top_k : {1, 2, 4, 6, 8, 10, 22}) {
    for (i64 experts : {1, 2, 3, 8, 64, 128, 160, 256, 384, 512}) {
      i64 before = 0;
      for (i64 m = 1; m <= 4000; ++m) {
        const i64 selected = select_block_size(m, top_k, experts);
        if (selected < before) FAIL("falls at m=" << m << " topk=" << top_k << " E=" << experts);
        before = selected;
        i64 expected = 64;
        for (i64 b : kBlockSizes) {
          if (static_cast<double>(m * top_k) / static_cast<double>(experts) < 0.9 * static_cast<double>(b)) {
            expected = b;
            break;
          }
        }
        if (selected != expected) FAIL("differs at m=" << m << " topk=" << top_k << " E=" << experts);
      }
    }
  }
  SUCCEED();
}

TEST_CASE("P2 route slots cover the worst routing by less than one block more") {
  for (i64 b : kBlockSizes) {
    for (i64 rows = 1; rows <= 24; ++rows) {
      for (i64 experts = 1; experts <= 12; ++experts) {
        const i64 spare = route_slots(rows, b, experts) - worst_padded_rows(rows, experts, b);
        CHECK((spare >= 0 && spare < b));
      }
    }
  }
}

TEST_CASE("P2 route slots never fall in rows, experts or block size") {
  Random random;
  for (int i = 0; i < 100'000; ++i) {
    const i64 rows = random.in(1, 100'000), experts = random.in(1, 1000);
    const int b = static_cast<int>(random.in(0, 3));
    const i64 slots = route_slots(rows, kBlockSizes[b], experts);
    if (route_slots(rows + 1, kBlockSizes[b], experts) < slots) FAIL("rows");
    if (route_slots(rows, kBlockSizes[b], experts + 1) < slots) FAIL("experts");
    if (route_slots(rows, kBlockSizes[b + 1], experts) < slots) FAIL("block size");
  }
  SUCCEED();
}

TEST_CASE("P3 scratch never falls from block 16 up nor in columns, slots or SMs") {
  Random random;
  for (int i = 0; i < 100'000; ++i) {
    const i64 rows = random.in(1, 50'000), experts = random.in(1, 512), columns = 16 * random.in(1, 512);
    const i64 sms = random.in(1, 200);
    const auto elements = [&](i64 b) {
      return gemm_scratch_elements(columns, route_slots(rows, b, experts), b, sms);
    };
    for (int b = 1; b + 1 < kBlockSizeCount; ++b) {
      if (elements(kBlockSizes[b]) > elements(kBlockSizes[b + 1])) FAIL("block size " << kBlockSizes[b]);
    }
    const i64 block = kBlockSizes[random.in(0, 4)], slots = random.in(1, 1'000'000);
    const i64 here = gemm_scratch_elements(columns, slots, block, sms);
    if (gemm_scratch_elements(columns + 16, slots, block, sms) < here) FAIL("columns");
    if (gemm_scratch_elements(columns, slots + 1, block, sms) < here) FAIL("slots");
    if (gemm_scratch_elements(columns, slots, block, sms + 1) < here) FAIL("SMs");
  }
  SUCCEED();
}

TEST_CASE("P4 totals never fall as tokens rise, unpinned Trellis of b12x aside") {
  Random random;
  const auto check_rises = [](MoeRequest request, i64 most) {
    i64 before = 0;
    for (i64 tokens = 1; tokens <= most; ++tokens) {
      request.capacity.max_tokens = tokens;
      const i64 total = plan_moe(request)->total_bytes;
      if (total < before) FAIL(request.contract->id << " falls at " << tokens << " tokens");
      before = total;
    }
  };
  for (const char* contract : kContractIds) {
    for (int i = 0; i < 40; ++i) {
      const i64 experts = random.of({1, 2, 4, 8, 64, 160}), hidden = 128 * random.in(1, 12);
      const i64 top_k = random.in(1, 12), sms = random.of({1, 48, 132, 188});
      const i64 intermediate = random.of({16, 48, 96, 128, 352, 512});
      check_rises(packed_request(contract, experts, hidden, intermediate, top_k, 1, sms), 80);
      check_rises(native_request(contract, experts, hidden, intermediate, top_k, 1, sms), 80);
      check_rises(
          expert_parallel_request(contract, experts, experts * 2, hidden, intermediate, top_k, 1, sms), 80);
      MoeRequest trellis = trellis_request(contract, experts, hidden, 512, top_k, 1, sms);
      if (trellis.contract->trellis_unpinned_is_one) trellis.capacity.block_size_m = random.of({8, 32, 64});
      check_rises(trellis, 80);
    }
  }
  SUCCEED();
}

TEST_CASE("P5 the reserved interval contains every block size some token count reaches") {
  for (i64 top_k = 1; top_k <= 24; ++top_k) {
    for (i64 experts = 1; experts <= 40; ++experts) {
      for (i64 capacity : {1, 2, 3, 7, 20, 100, 300}) {
        const BlockRange range = reachable_blocks(capacity, top_k, experts);
        for (i64 m = 1; m <= capacity; ++m) {
          const int index = select_block_index(m, top_k, experts);
          if (index < range.first || index > range.last) FAIL("m=" << m);
        }
      }
    }
  }
  // It may hold more: with one expert and top-k 22 no token count reaches block 48.
  const BlockRange range = reachable_blocks(3, 22, 1);
  CHECK(kBlockSizes[range.first] == 32);
  CHECK(kBlockSizes[range.last] == 64);
  for (i64 m = 1; m <= 3; ++m) CHECK(select_block_size(m, 22, 1) != 48);
}

TEST_CASE("P6 offsets are multiples of 16, tensors are disjoint and end within the total") {
  Random random;
  for (int i = 0; i < 3000; ++i) {
    const char* contract = kContractIds[random.in(0, 2)];
    const i64 experts = random.in(1, 300), hidden = 128 * random.in(1, 20), top_k = random.in(1, 12);
    const i64 tokens = random.in(1, 5000), intermediate = 16 * random.in(1, 40);
    MoeRequest requests[] = {
        packed_request(contract, experts, hidden, intermediate, top_k, tokens, 188),
        native_request(contract, experts, hidden, intermediate, top_k, tokens, 188),
        trellis_request(contract, experts, hidden, 128 * random.in(1, 8), top_k, tokens, 188),
        expert_parallel_request(contract, experts, experts, hidden, intermediate, top_k, tokens, 188),
        native_request(contract, experts, hidden, intermediate, top_k, tokens, 188),
        native_request(contract, experts, hidden, intermediate, top_k, tokens, 188),
        trellis_request(kLeanContractId, experts, hidden, 128 * random.in(1, 8), top_k, tokens, 188),
        trellis_request(kLeanContractId, experts, hidden, 128 * random.in(1, 8), top_k, random.in(1, 64),
                        188)};
    requests[4].weights.quant_mode = QuantMode::nvfp4;
    requests[5].weights.quant_mode = QuantMode::w4a8_nvfp4;
    for (const MoeRequest& request : requests) {
      const auto layout = plan_moe(request);
      REQUIRE(layout);
      i64 end = 0;
      for (const TensorSpec& tensor : layout->arena.tensors) {
        if (tensor.offset % 16 != 0) FAIL(tensor.name << " at " << tensor.offset);
        if (tensor.offset < end) FAIL(tensor.name << " overlaps its neighbour");
        if (tensor.bytes != tensor.shape.elements() * item_bytes(tensor.dtype)) FAIL(tensor.name << " bytes");
        end = tensor.offset + tensor.bytes;
      }
      if (end > layout->total_bytes) FAIL("tensors end behind the total");
    }
  }
  SUCCEED();
}

TEST_CASE("P7 the reachable interval never costs more where R agrees and direct top-k is off") {
  Random random;
  for (int i = 0; i < 5000; ++i) {
    const auto total = [&](const char* contract, auto make) { return plan_moe(make(contract))->total_bytes; };
    const i64 experts = random.in(1, 300), hidden = 128 * random.in(1, 20), top_k = random.in(1, 12);
    const i64 tokens = random.in(1, 5000), intermediate = 16 * random.in(1, 40);
    const auto native = [&](const char* c) {
      return native_request(c, experts, hidden, intermediate, top_k, tokens, 188);
    };
    const auto trellis = [&](const char* c) {
      return trellis_request(c, experts, hidden, 512, top_k, tokens, 188);
    };
    if (total("sparkinfer-c2f135c", native) > total("sparkinfer-de04125", native)) FAIL("native");
    if (total("sparkinfer-c2f135c", trellis) > total("sparkinfer-de04125", trellis)) FAIL("Trellis");
  }
  SUCCEED();
}

TEST_CASE("P7 with direct top-k active it can cost more: 811,860 against 462,420 bytes") {
  CHECK(plan_moe(packed_request("sparkinfer-de04125", 4, 128, 128, 8, 4, 188))->total_bytes == 462'420);
  CHECK(plan_moe(packed_request("sparkinfer-c2f135c", 4, 128, 128, 8, 4, 188))->total_bytes == 811'860);
}

TEST_CASE("P8 every live token count fits a packed plan of sparkinfer-c2f135c, pinned or not") {
  Random random;
  for (int i = 0; i < 4000; ++i) {
    MoeRequest request = packed_request("sparkinfer-c2f135c", random.of({1, 2, 4, 16, 64, 160, 256}),
                                        128 * random.in(1, 16), 16 * random.in(1, 40), random.in(1, 22),
                                        random.in(1, 600), random.of({1, 48, 132, 188}));
    if (random.in(0, 1)) request.capacity.block_size_m = kBlockSizes[random.in(0, 4)];
    if (random.in(0, 2) == 0) request.weights.io_dtype = DType::float16;
    const auto layout = plan_moe(request);
    REQUIRE(layout);
    const auto elements = [&](const char* name) { return find_tensor(*layout, name)->shape.elements(); };
    const i64 direct_cap = direct_token_cap(request.weights.io_dtype == DType::bfloat16);
    for (i64 m = 1; m <= request.capacity.max_tokens; m += random.in(1, 40)) {
      const PerCallBuffers need =
          size_per_call(*request.contract, {.tokens = m,
                                            .top_k = request.capacity.top_k,
                                            .experts = request.weights.experts,
                                            .hidden = request.weights.hidden_size,
                                            .intermediate = request.weights.intermediate_size,
                                            .multiprocessors = *request.device.sm_count,
                                            .gated = true,
                                            .full_rotation = false,
                                            .route_experts = {},
                                            .block_size = request.capacity.block_size_m});
      i64 slots = need.route_slots;
      if (m <= direct_cap)
        slots = max_of(slots, direct_route_slots(m, request.capacity.top_k, need.block_size));
      const auto scratch = [&](i64 columns) {
        return gemm_scratch_elements(columns, slots, need.block_size, *request.device.sm_count);
      };
      if (scratch(need.fc1_columns) > elements("fc1_c_tmp")) FAIL("fc1_c_tmp at m=" << m);
      if (scratch(request.weights.hidden_size) > elements("fc2_c_tmp")) FAIL("fc2_c_tmp at m=" << m);
      if (need.route_slots > elements("packed_route_indices")) FAIL("packed_route_indices at m=" << m);
      if (need.route_blocks > elements("block_expert_ids")) FAIL("block_expert_ids at m=" << m);
      if (need.intermediate_cache13 > elements("intermediate_cache13"))
        FAIL("intermediate_cache13 at m=" << m);
      if (need.intermediate_cache2 > elements("intermediate_cache2")) FAIL("intermediate_cache2 at m=" << m);
    }
  }
  SUCCEED();
}
