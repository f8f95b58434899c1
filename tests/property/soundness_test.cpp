// Audits find what is known to be too small on their own, and prove what holds.
#include "planner/moe/soundness.hpp"
#include "planner/moe/reach.hpp"
#include "planner/moe/soundness_advice.hpp"
#include "tests/catch.hpp"
#include "tests/property/reference.hpp"
#include "tests/random.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

MoeAudit audit(const MoeRequest& request, ExpertMap map = ExpertMap::absent) {
  const auto layout = plan_moe(request);
  REQUIRE(layout);
  return audit_moe(request, *layout, map, AuditSearch::exhaustive);
}

// The reserve of a planner that sizes for the block selected at capacity alone.
MoeAudit audit_last_block(const MoeRequest& request) {
  MoeRequest assumed = request;
  assumed.assumed_blocks = UnpinnedBlocks::last;
  const auto layout = plan_moe(assumed);
  REQUIRE(layout);
  return audit_moe(request, *layout, ExpertMap::absent);
}

const TensorAudit& tensor_of(const MoeAudit& audit, std::string_view name) {
  const auto found = std::ranges::find(audit.tensors, name, &TensorAudit::name);
  REQUIRE(found != audit.tensors.end());
  return *found;
}

bool equal(const MoeAudit& a, const MoeAudit& b) {
  return std::ranges::equal(a.tensors, b.tensors,
                            [](const TensorAudit& x, const TensorAudit& y) {
                              return x.name == y.name && x.planned == y.planned && x.needed == y.needed &&
                                     x.needed_at == y.needed_at && x.short_at == y.short_at &&
                                     x.short_need == y.short_need && x.consequence == y.consequence;
                            }) &&
         std::ranges::equal(a.blocks, b.blocks, [](const LiveBlocks& x, const LiveBlocks& y) {
           return x.block_size == y.block_size && x.tokens == y.tokens;
         });
}

// Of a lean plan: exact routes, blocks of kLeanBlock rows, and slices of as many columns as the planned rows
// hold.
Wide reference_lean_need(const MoeRequest& request, const MoeLayout& layout, std::string_view name, Wide m) {
  const Wide k = request.weights.hidden_size, n = request.weights.intermediate_size;
  const Wide rows = m * request.capacity.top_k, R = layout.route_experts;
  if (name == "full_rotation_output") return std::max(m * k, rows * n);
  if (name == "intermediate_cache2") return rows * n;
  if (name == "expert_rows") {
    const Wide planned = find_tensor(layout, "expert_rows")->shape.elements();
    return std::max(rows * 128, std::min(rows * k, planned));
  }
  if (name == "packed_route_indices") return slots(rows, kLeanBlock, R);
  if (name == "block_expert_ids") return cd(slots(rows, kLeanBlock, R), kLeanBlock);
  if (name == "packed_route_count") return 1;
  if (name == "expert_offsets") return R + 1;
  if (name == "expert_counts") return R;
  return 4;  // kernel_workspace
}

// The need of one tensor at m live tokens, written down once more in 128 bits without any code of the
// planner.
Wide reference_need(const MoeRequest& request, const MoeLayout& layout, ExpertMap map, std::string_view name,
                    Wide m) {
  if (request.contract->lean_executor) return reference_lean_need(request, layout, name, m);
  const int contract = number_of(*request.contract);
  const Kind kind = kind_of(request);
  const bool expert_parallel = request.kind == MoeKind::expert_parallel;
  const bool gated = request.weights.activation != Activation::relu2;
  const bool bf16 = request.weights.io_dtype == DType::bfloat16;
  const Wide k = request.weights.hidden_size, n = request.weights.intermediate_size;
  const Wide topk = request.capacity.top_k, sms = *request.device.sm_count, rows = m * topk;
  const Wide c1 = gated ? 2 * n : n;
  const bool of_plan =
      expert_parallel || map == ExpertMap::present || (kind == Kind::trellis && contract < 3);
  const Wide experts = of_plan ? layout.route_experts : request.weights.experts;
  const Wide b = layout.route_block_size_m ? *layout.route_block_size_m : select(m, topk, experts);

  Wide s = slots(bucket(m) * topk, b, experts);
  const auto planned = [&](const char* tensor) { return find_tensor(layout, tensor)->shape.elements(); };
  if (s > planned("packed_route_indices") || cd(s, b) > planned("block_expert_ids"))
    s = slots(rows, b, experts);
  Wide direct = 0;
  if (kind == Kind::packed)
    direct = map == ExpertMap::present ? (contract == 3 ? 8 : 0) : gated && bf16 ? 8 : 6;
  const bool is_direct = m <= direct;
  const Wide staged = is_direct ? rows * b : s;

  if (name == "intermediate_cache13") return rows * std::max(c1, k);
  if (name == "intermediate_cache2") {
    const bool small_m = kind == Kind::native && !expert_parallel && map == ExpertMap::absent && bf16 &&
                         m <= 8 && k % 128 == 0 && k <= 6144 && n % 16 == 0 && topk <= 32;
    return small_m ? std::max(rows * n, rows * cd(n / 2, 128) * 256) : rows * n;
  }
  if (name == "fc1_c_tmp") return scratch(c1, staged, b, sms);
  if (name == "fc2_c_tmp") return scratch(k, staged, b, sms);
  if (name == "packed_route_indices") return is_direct ? 0 : s;
  if (name == "block_expert_ids") return is_direct ? 0 : cd(s, b);
  if (name == "packed_route_count") return 1;
  if (name == "expert_offsets") return experts + 1;
  if (name == "expert_counts") return experts;
  if (name == "full_rotation_output") return m * k;
  if (name == "kernel_workspace") return 4 * sms + 2;
  return rows * k;  // rotation_a_gate, rotation_a_up
}

// Plans of every layout, contract and kind, small enough to look at each live count.
MoeRequest any_request(Random& random) {
  const char* contract = kContractIds[random.in(0, 2)];
  const i64 experts = random.of({1, 2, 4, 16, 64, 160, 256}), hidden = 128 * random.in(1, 16);
  const i64 top_k = random.in(1, 22), tokens = random.in(1, 400), sms = random.of({1, 48, 132, 188});
  MoeRequest request;
  switch (random.in(0, 4)) {
    case 0:
      request = packed_request(contract, experts, hidden, 16 * random.in(1, 40), top_k, tokens, sms);
      break;
    case 1:
      request = native_request(contract, experts, hidden, 16 * random.in(1, 40), top_k, tokens, sms);
      break;
    case 2:
      request = trellis_request(contract, experts, hidden, 128 * random.in(1, 6), top_k, tokens, sms);
      break;
    case 3:
      request = trellis_request(kLeanContractId, experts, hidden, 128 * random.in(1, 6), top_k,
                                random.in(0, 1) ? tokens : random.in(1, 64), sms);
      if (random.in(0, 2) == 0) request.capacity.route_experts = random.in(0, 2 * experts);
      return request;
    default:
      return expert_parallel_request(contract, experts, experts * random.in(1, 3), hidden,
                                     16 * random.in(1, 40), top_k, tokens, sms);
  }
  if (random.in(0, 2) == 0) request.capacity.block_size_m = kBlockSizes[random.in(0, 4)];
  if (random.in(0, 2) == 0) request.weights.io_dtype = DType::float16;
  if (random.in(0, 3) == 0) request.capacity.route_experts = random.in(0, 2 * experts);
  if (random.in(0, 5) == 0) request.capacity.core_token_counts = {random.in(1, 600)};
  return request;
}

}  // namespace

TEST_CASE("H1 a native plan of 16 tokens at n=96 is short for the small-m kernel from 7 tokens on") {
  for (const char* contract : kContractIds) {
    const MoeAudit found = audit(native_request(contract, 128, 2048, 96, 8, 16, 188));
    CHECK(found.counter_example() == 7);
    const TensorAudit& cache = tensor_of(found, "intermediate_cache2");
    CHECK(cache.short_at == 7);
    CHECK(cache.short_need == 14'336);
    CHECK(cache.planned == 12'288);
    CHECK(cache.needed == 16'384);
    CHECK(cache.needed_at == 8);
    CHECK(cache.consequence == Consequence::refused);
    // Up to 8 tokens the plan covers it.
    CHECK_FALSE(audit(native_request(contract, 128, 2048, 96, 8, 8, 188)).counter_example());
  }
}

TEST_CASE("H2 sparkinfer-de04125 is short for direct top-k where routes outnumber experts, c2f135c is not") {
  const MoeAudit found = audit(packed_request("sparkinfer-de04125", 4, 128, 128, 8, 4, 188));
  REQUIRE(found.counter_example());
  CHECK(tensor_of(found, "fc1_c_tmp").short_at);
  CHECK(tensor_of(found, "fc1_c_tmp").consequence == Consequence::allocates);
  CHECK_FALSE(audit(packed_request("sparkinfer-c2f135c", 4, 128, 128, 8, 4, 188)).counter_example());
}

TEST_CASE("H2 sparkinfer-de04125 is short in its route buffers for a router narrower than the weights") {
  for (const auto& make : {packed_request, native_request}) {
    MoeRequest request = make("sparkinfer-de04125", 64, 256, 128, 8, 64, 188);
    request.capacity.route_experts = 16;
    request.capacity.block_size_m = 16;
    const MoeAudit found = audit(request);
    CHECK(tensor_of(found, "packed_route_indices").short_at);
    CHECK(tensor_of(found, "packed_route_indices").consequence == Consequence::refused);
    CHECK(tensor_of(found, "expert_offsets").short_at == 1);
    request.contract = find_contract("sparkinfer-c2f135c");
    CHECK_FALSE(audit(request).counter_example());
  }
}

TEST_CASE("H3 an expert-parallel plan of b12x is short for mapped direct top-k at 5 tokens") {
  const MoeAudit found =
      audit(expert_parallel_request("b12x-36bce2c", 8, 16, 256, 256, 8, 5, 188), ExpertMap::present);
  const TensorAudit& scratch = tensor_of(found, "fc1_c_tmp");
  CHECK(scratch.planned == 180'224);
  CHECK(scratch.needed == 327'680);
  CHECK(scratch.needed_at == 5);
  CHECK(scratch.consequence == Consequence::allocates);
  for (const char* contract : {"sparkinfer-de04125", "sparkinfer-c2f135c"})
    CHECK_FALSE(audit(expert_parallel_request(contract, 8, 16, 256, 256, 8, 5, 188), ExpertMap::present)
                    .counter_example());
}

TEST_CASE("H4 a float16 plan of b12x is short for mapped direct top-k at 7 tokens") {
  MoeRequest request = packed_request("b12x-36bce2c", 4, 256, 256, 8, 8, 188);
  request.weights.io_dtype = DType::float16;
  CHECK_FALSE(audit(request, ExpertMap::absent).counter_example());
  CHECK(audit(request, ExpertMap::present).counter_example() == 7);
  request.weights.io_dtype = DType::bfloat16;
  CHECK_FALSE(audit(request, ExpertMap::present).counter_example());
}

TEST_CASE("H4 a router wider than the weights lets unmapped launches of b12x pick larger blocks") {
  MoeRequest request = native_request("b12x-36bce2c", 8, 256, 512, 8, 64, 4);
  request.capacity.route_experts = 64;
  const MoeAudit unmapped = audit(request, ExpertMap::absent);
  CHECK(unmapped.counter_example());
  CHECK(unmapped.blocks.back().block_size == 64);
  const MoeAudit mapped = audit(request, ExpertMap::present);
  CHECK_FALSE(mapped.counter_example());
  CHECK(mapped.blocks.back().block_size == 16);
}

TEST_CASE("F1 sized for block 16 alone, a plan is short where launches still select 8") {
  // Eight ranks: n = 256; the reserve of block 16, which 144 tokens are the first to select.
  MoeRequest request = trellis_request("sparkinfer-c2f135c", 160, 6144, 256, 8, 144, 188);
  const MoeAudit found = audit_last_block(request);
  const TensorAudit& scratch = tensor_of(found, "fc1_c_tmp");
  CHECK(scratch.planned == 1'818'624);
  CHECK(scratch.needed == 2'318'336);
  CHECK(scratch.needed_at == 143);
  CHECK_FALSE(audit(request).counter_example());
}

TEST_CASE("F2 sized for the last block alone, 3 tokens of 4 experts are short at 2") {
  const MoeRequest request = trellis_request("sparkinfer-c2f135c", 4, 128, 128, 10, 3, 188);
  const MoeAudit found = audit_last_block(request);
  CHECK(found.counter_example() == 2);
  CHECK(tensor_of(found, "fc1_c_tmp").short_at == 2);
  CHECK_FALSE(audit(request).counter_example());
}

TEST_CASE("F3 sized for the last block alone, block ids are short before the capacity is reached") {
  const MoeRequest request = trellis_request("sparkinfer-c2f135c", 2, 128, 128, 2, 8, 188);
  const TensorAudit& ids = tensor_of(audit_last_block(request), "block_expert_ids");
  CHECK(ids.planned == 3);
  CHECK(ids.needed == 4);
  CHECK(ids.short_at == 6);
  CHECK(ids.consequence == Consequence::refused);
}

TEST_CASE("every packed plan of sparkinfer-c2f135c is sound at every live count") {
  Random random;
  for (int i = 0; i < 2000; ++i) {
    MoeRequest request = packed_request("sparkinfer-c2f135c", random.of({1, 2, 4, 16, 64, 160, 256}),
                                        128 * random.in(1, 16), 16 * random.in(1, 40), random.in(1, 22),
                                        random.in(1, 600), random.of({1, 48, 132, 188}));
    if (random.in(0, 1)) request.capacity.block_size_m = kBlockSizes[random.in(0, 4)];
    if (random.in(0, 2) == 0) request.weights.io_dtype = DType::float16;
    if (random.in(0, 3) == 0) request.weights.activation = Activation::relu2;
    if (const auto m = audit(request).counter_example()) FAIL("plan " << i << " is short at m=" << *m);
  }
  SUCCEED();
}

TEST_CASE("every lean plan is sound at every live count, and tight where a launch is full") {
  for (i64 experts : {1, 2, 5}) {
    for (i64 top_k : {1, 3, 8}) {
      for (i64 hidden : {128, 384, 6144}) {
        for (i64 tokens : {1, 2, 7, 63, 64, 65, 66, 100, 300}) {
          for (i64 intermediate : {128, 2048}) {
            const MoeRequest request =
                trellis_request(kLeanContractId, experts, hidden, intermediate, top_k, tokens, 2);
            const auto layout = plan_moe(request);
            REQUIRE(layout);
            INFO("E " << experts << " topk " << top_k << " k " << hidden << " n " << intermediate << " m "
                      << tokens);
            for (const TensorSpec& tensor : layout->arena.tensors) {
              INFO(tensor.name);
              Wide most = 0;
              for (i64 m = 1; m <= tokens; ++m)
                most = std::max(most, reference_lean_need(request, *layout, tensor.name, m));
              CHECK(most == tensor.shape.elements());
            }
            for (AuditSearch search : {AuditSearch::exhaustive, AuditSearch::peaks}) {
              const MoeAudit found = audit_moe(request, *layout, ExpertMap::absent, search);
              CHECK_FALSE(found.counter_example());
              for (const TensorAudit& tensor : found.tensors) CHECK(tensor.slack_bytes() == 0);
              REQUIRE(found.blocks.size() == 1);
              CHECK(found.blocks[0].block_size == (tokens <= 64 ? 8 : kLeanBlock));
              CHECK(found.blocks[0].tokens == LiveRange{1, tokens});
            }
            const MoeAudit audits[] = {audit_moe(request, *layout, ExpertMap::absent)};
            CHECK(unused_bytes(request, *layout, audits, true).empty());
          }
        }
      }
    }
  }
}

TEST_CASE("a lean launch of m tokens needs what the reference says, tensor by tensor, and it never falls") {
  for (i64 tokens : {5, 64, 65, 200}) {
    for (i64 top_k : {1, 6}) {
      const MoeRequest request = trellis_request(kLeanContractId, 3, 6144, 256, top_k, tokens, 2);
      const auto layout = plan_moe(request);
      REQUIRE(layout);
      const CoreElements planned = planned_elements(*layout);
      const LiveRuntime runtime = live_runtime(request, *layout, ExpertMap::absent);
      REQUIRE(rising_ranges(runtime) == std::vector<LiveRange>{{1, tokens}});
      CoreElements before{};
      for (i64 m = 1; m <= tokens; ++m) {
        const LiveNeed need = live_need(runtime, planned, m);
        CHECK(need.block_size == (tokens <= 64 ? 8 : kLeanBlock));
        for (int i = 0; i < kCoreTensorCount; ++i) {
          const auto t = static_cast<std::size_t>(i);
          const std::string_view name = name_of(static_cast<CoreTensor>(i));
          if (!find_tensor(*layout, name)) {
            CHECK(need.elements[t] == -1);
            continue;
          }
          INFO(name << " at m=" << m << " of " << tokens);
          CHECK(Wide{need.elements[t]} == reference_lean_need(request, *layout, name, m));
          CHECK(need.elements[t] >= before[t]);
          before[t] = need.elements[t];
        }
      }
    }
  }
}

TEST_CASE("a lean launch is refused where a tensor is too small, narrower slices aside") {
  const MoeRequest request = trellis_request(kLeanContractId, 256, 6144, 512, 8, 64, 188);
  MoeLayout shrunk = *plan_moe(request);
  const auto shrink = [&](std::string_view name, i64 elements) {
    std::ranges::find(shrunk.arena.tensors, name, &TensorSpec::name)->shape = shape(elements);
    return audit_moe(request, shrunk, ExpertMap::absent);
  };
  const MoeAudit activated = shrink("intermediate_cache2", 64 * 8 * 512 - 1);
  CHECK(activated.counter_example() == 64);
  CHECK(tensor_of(activated, "intermediate_cache2").consequence == Consequence::refused);
  shrunk = *plan_moe(request);
  // 512 routes of one block of columns are the least that a launch can go on with.
  CHECK_FALSE(shrink("expert_rows", 512 * 128).counter_example());
  CHECK(shrink("expert_rows", 512 * 128 - 1).counter_example() == 64);
}

TEST_CASE("looking at peaks alone finds what looking at every live count finds") {
  Random random;
  for (int i = 0; i < 1500; ++i) {
    const MoeRequest request = any_request(random);
    // Half of the reserves are those of a smaller request, so that many are short.
    MoeRequest reserved = request;
    if (random.in(0, 1)) reserved.capacity.max_tokens = random.in(1, request.capacity.max_tokens);
    const auto layout = plan_moe(reserved);
    REQUIRE(layout);
    for (ExpertMap map : {ExpertMap::absent, ExpertMap::present}) {
      const MoeAudit every = audit_moe(request, *layout, map, AuditSearch::exhaustive);
      const MoeAudit peaks = audit_moe(request, *layout, map, AuditSearch::peaks);
      if (!equal(every, peaks)) FAIL("plan " << i << " under " << request.contract->id);
    }
  }
  SUCCEED();
}

TEST_CASE("one element less of any tensor that a live count needs in full is found") {
  Random random;
  int needed_in_full = 0;
  std::vector<int> seen(kCoreTensorCount);
  for (int i = 0; i < 600; ++i) {
    const MoeRequest request = any_request(random);
    const auto layout = plan_moe(request);
    REQUIRE(layout);
    for (ExpertMap map : {ExpertMap::absent, ExpertMap::present}) {
      if (!may_have(request, map)) continue;
      for (int t = 0; t < kCoreTensorCount; ++t) {
        const std::string_view name = name_of(static_cast<CoreTensor>(t));
        MoeLayout shrunk = *layout;
        const auto tensor = std::ranges::find(shrunk.arena.tensors, name, &TensorSpec::name);
        if (tensor == shrunk.arena.tensors.end()) continue;
        tensor->shape = shape(tensor->shape.elements() - 1);
        // Where a bucket does not fit, exact packing is no shortage.
        std::optional<i64> expected;
        for (i64 m = 1; m <= request.capacity.tokens() && !expected; ++m) {
          if (reference_need(request, shrunk, map, name, m) > tensor->shape.elements()) expected = m;
        }
        const MoeAudit found = audit_moe(request, shrunk, map, AuditSearch::exhaustive);
        if (expected != tensor_of(found, name).short_at)
          FAIL(name << " of plan " << i << " under " << request.contract->id);
        const auto index = static_cast<std::size_t>(t);
        const bool in_full = expected.has_value();
        needed_in_full += in_full ? 1 : 0;
        seen[index] += in_full ? 1 : 0;
      }
    }
  }
  CHECK(needed_in_full > 3000);
  for (int t = 0; t < kCoreTensorCount; ++t) {
    INFO(name_of(static_cast<CoreTensor>(t)));
    CHECK(seen[static_cast<std::size_t>(t)] > 0);
  }
}

TEST_CASE("an audited GLM-5.2 prefill plan needs every tensor in full at its capacity") {
  MoeRequest request = trellis_request("sparkinfer-de04125", 256, 6144, 512, 8, 3072, 188);
  request.capacity.block_size_m = 64;
  const MoeAudit found = audit(request);
  CHECK_FALSE(found.counter_example());
  for (const TensorAudit& tensor : found.tensors) {
    INFO(tensor.name);
    CHECK(tensor.slack_bytes() == 0);
  }
  REQUIRE(found.blocks.size() == 1);
  CHECK(found.blocks[0].tokens == LiveRange{1, 3072});
}

TEST_CASE("one element less of any tensor of a pinned GLM-shaped plan is found at some live count") {
  for (i64 block : kBlockSizes) {
    MoeRequest request = trellis_request("sparkinfer-de04125", 256, 6144, 512, 8, 300, 188);
    request.capacity.block_size_m = block;
    const auto layout = plan_moe(request);
    REQUIRE(layout);
    for (std::size_t i = 0; i < layout->arena.tensors.size(); ++i) {
      MoeLayout shrunk = *layout;
      TensorSpec& tensor = shrunk.arena.tensors[i];
      tensor.shape = shape(tensor.shape.elements() - 1);
      INFO(tensor.name << " at block " << block);
      CHECK(tensor_of(audit_moe(request, shrunk, ExpertMap::absent), tensor.name).short_at);
    }
  }
}

TEST_CASE("F6 an audit of b12x says that fewer tokens would reserve more") {
  const MoeRequest request = trellis_request("b12x-36bce2c", 2, 128, 512, 4, 4, 48);
  const auto surprises = size_surprises(request, *plan_moe(request));
  REQUIRE(surprises.size() == 1);
  CHECK(surprises[0].rule == "capacity-not-monotone");
  CHECK(surprises[0].bytes == 285'120 - 272'400);
}

TEST_CASE("an audit of a lean plan says that fewer tokens would reserve more, whose slices are wider") {
  // 62 tokens have 744 routes of 33 blocks of columns, 63 have 756 of 32.
  const auto total = [](i64 tokens) {
    return plan_moe(trellis_request(kLeanContractId, 256, 6144, 512, 12, tokens, 188))->total_bytes;
  };
  const MoeRequest request = trellis_request(kLeanContractId, 256, 6144, 512, 12, 63, 188);
  const auto surprises = size_surprises(request, *plan_moe(request));
  REQUIRE(surprises.size() == 1);
  CHECK(surprises[0].rule == "capacity-not-monotone");
  CHECK(surprises[0].bytes == 744 * 33 * 256 - 756 * 32 * 256 - 6144 * 4 - 12 * 512 * 2);
  CHECK(surprises[0].bytes == total(62) - total(63));
  const MoeRequest full = trellis_request(kLeanContractId, 256, 6144, 512, 12, 64, 188);
  CHECK(size_surprises(full, *plan_moe(full)).empty());
}

TEST_CASE("a lean plan that some smaller capacity outgrows is always told so") {
  Random random;
  int outgrown = 0;
  for (int i = 0; i < 400; ++i) {
    MoeRequest request =
        trellis_request(kLeanContractId, random.of({1, 8, 256}), 128 * random.in(1, 128),
                        128 * random.in(1, 8), random.in(1, 24), random.in(1, i % 2 ? 64 : 200), 188);
    const i64 here = plan_moe(request)->total_bytes;
    i64 most = here;
    for (i64 tokens = 1; tokens < request.capacity.max_tokens; ++tokens) {
      MoeRequest smaller = request;
      smaller.capacity.max_tokens = tokens;
      most = std::max(most, plan_moe(smaller)->total_bytes);
    }
    const auto surprises = size_surprises(request, *plan_moe(request));
    INFO("k " << request.weights.hidden_size << " n " << request.weights.intermediate_size << " topk "
              << request.capacity.top_k << " tokens " << request.capacity.max_tokens);
    CHECK(surprises.empty() == (most == here));
    if (!surprises.empty()) CHECK(surprises[0].bytes == most - here);
    outgrown += most > here ? 1 : 0;
  }
  CHECK(outgrown > 10);
}

TEST_CASE("F1 an audit of a plan pinned to block 8 says what block 16 would save") {
  MoeRequest request = packed_request("sparkinfer-c2f135c", 160, 6144, 512, 8, 64, 188);
  request.capacity.block_size_m = 8;
  const auto surprises = size_surprises(request, *plan_moe(request));
  REQUIRE(surprises.size() == 1);
  CHECK(surprises[0].rule == "block-8-doubles");
  CHECK(surprises[0].bytes == 31'491'908 - 31'103'732);
}

TEST_CASE("an unsound plan is told which pins, layouts and contracts are sound") {
  const MoeRequest last = packed_request("sparkinfer-de04125", 4, 128, 128, 8, 4, 188);
  const auto alternatives = sound_alternatives(last, ExpertMap::absent);
  REQUIRE_FALSE(alternatives.empty());
  CHECK(alternatives.back() == "sound under contract sparkinfer-c2f135c or b12x-36bce2c");
  const auto native =
      sound_alternatives(native_request("sparkinfer-c2f135c", 128, 2048, 96, 8, 16, 188), ExpertMap::absent);
  CHECK(native == std::vector<std::string>{"sound with weight_layout mma_packed"});
}

namespace {

std::vector<UnusedBytes> unused_of(const MoeRequest& request, bool routes_outside = false) {
  const auto layout = plan_moe(request);
  REQUIRE(layout);
  const MoeAudit audits[] = {audit_moe(request, *layout, ExpertMap::absent)};
  return unused_bytes(request, *layout, audits, routes_outside);
}

i64 sum_of(const std::vector<UnusedBytes>& unused, std::string_view kind) {
  i64 bytes = 0;
  for (const UnusedBytes& row : unused) bytes += row.kind == kind ? row.bytes : 0;
  return bytes;
}

}  // namespace

TEST_CASE("94 MiB of split-K scratch of the 3,072-token Trellis plan are never written") {
  MoeRequest request = trellis_request("sparkinfer-de04125", 256, 6144, 512, 8, 3072, 188);
  request.capacity.block_size_m = 64;
  const auto unused = unused_of(request);
  CHECK(unused.size() == 2);
  CHECK(sum_of(unused, "whole_tiles") == 98'566'144);
}

TEST_CASE("an unpinned 64-token packed plan of de04125 reserves 64.91 MiB for blocks that nothing selects") {
  const MoeRequest request = packed_request("sparkinfer-de04125", 160, 6144, 512, 8, 64, 188);
  // What the two contracts reserve differs by it.
  MoeRequest reachable = request;
  reachable.contract = find_contract("sparkinfer-c2f135c");
  const i64 difference = plan_moe(request)->total_bytes - plan_moe(reachable)->total_bytes;
  CHECK(difference == 68'062'208);
  CHECK(sum_of(unused_of(request), "unselected_blocks") == difference);
  CHECK(unused_of(reachable).empty());
}

TEST_CASE("a capacity of 65 tokens pads caches to 128, and a listed count above it is never met") {
  const MoeRequest padded = packed_request("sparkinfer-c2f135c", 64, 256, 128, 4, 65, 188);
  const i64 row = 2 * 4 * (256 + 128);
  CHECK(sum_of(unused_of(padded), "capacity_padding") == (128 - 65) * row);
  MoeRequest listed = packed_request("sparkinfer-c2f135c", 64, 256, 128, 4, 64, 188);
  CHECK(unused_of(listed).empty());
  listed.capacity.core_token_counts = {256};
  CHECK(sum_of(unused_of(listed), "listed_tokens") > 192 * row);
}

TEST_CASE("F5 the tail behind the bound tensors and a router workspace left alone are never touched") {
  const MoeRequest tail = native_request("sparkinfer-c2f135c", 64, 128, 16, 8, 16, 2);
  const auto layout = plan_moe(tail);
  CHECK(sum_of(unused_of(tail), "arena_tail") == layout->total_bytes - layout->arena.end);
  CHECK(sum_of(unused_of(tail), "router_workspace") == 0);
  CHECK(sum_of(unused_of(tail, true), "router_workspace") == layout->route_bytes);
}

TEST_CASE("a million live tokens are audited one by one") {
  MoeRequest request = trellis_request("sparkinfer-de04125", 256, 6144, 512, 8, kExhaustiveTokens, 188);
  request.capacity.block_size_m = 64;
  const MoeAudit million = audit(request);
  CHECK(million.exhaustive);
  CHECK_FALSE(million.counter_example());
}

TEST_CASE(
    "launches that take their routes directly pack none: up to 8 tokens their buffers are never touched") {
  const MoeRequest request = packed_request("sparkinfer-c2f135c", 64, 256, 128, 4, 8, 188);
  const auto layout = plan_moe(request);
  CHECK(sum_of(unused_of(request), "direct_routes") ==
        bytes_of(*layout, "packed_route_indices") + bytes_of(*layout, "block_expert_ids"));
  CHECK(sum_of(unused_of(packed_request("sparkinfer-c2f135c", 64, 256, 128, 4, 16, 188)), "direct_routes") ==
        0);
}

TEST_CASE("a router wider than the weights leaves expert tables that unmapped launches do not count") {
  MoeRequest request = native_request("b12x-36bce2c", 8, 256, 512, 2, 64, 188);
  request.capacity.block_size_m = 16;
  request.capacity.route_experts = 32;
  CHECK(sum_of(unused_of(request), "router_width") == 2 * 4 * (32 - 8));
}

TEST_CASE("caches that are too small are written out of bounds: nothing checks them") {
  const MoeRequest request = packed_request("sparkinfer-c2f135c", 64, 256, 128, 4, 64, 188);
  MoeLayout shrunk = *plan_moe(request);
  for (TensorSpec& tensor : shrunk.arena.tensors) {
    if (tensor.name == "intermediate_cache13") tensor.shape = shape(tensor.shape.elements() - 1);
  }
  const MoeAudit found = audit_moe(request, shrunk, ExpertMap::absent);
  CHECK(tensor_of(found, "intermediate_cache13").consequence == Consequence::out_of_bounds);
}
