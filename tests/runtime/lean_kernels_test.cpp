// Which kernels a lean plan launches, and with what.
#include "runtime/moe/lean_kernels.hpp"

#include <algorithm>
#include <set>

#include "planner/core/text.hpp"
#include "planner/moe/geometry.hpp"
#include "planner/moe/lean_decode_geometry.hpp"
#include "planner/moe/lean_prefill_geometry.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

struct Planned {
  MoeRequest request;
  MoeLayout layout;
  LeanPlan plan() const { return lean_plan(request, layout); }
};

Planned planned_of(i64 experts, i64 hidden, i64 intermediate, i64 top_k, i64 capacity) {
  Planned planned{trellis_request(kLeanContractId, experts, hidden, intermediate, top_k, capacity, 188), {}};
  const auto layout = plan_moe(planned.request);
  REQUIRE(layout);
  planned.layout = *layout;
  return planned;
}

// GLM-5.2 on four ranks; decode plans whose rows of all columns do not fit, down to slices of one block of
// columns, and whose gate and up take more than the output's rows; prefill plans of several slices.
std::vector<Planned> all_shapes() {
  std::vector<Planned> shapes;
  for (i64 capacity : {1, 2, 63, 64, 65, 512, 3072})
    shapes.push_back(planned_of(160, 6144, 512, 8, capacity));
  shapes.push_back(planned_of(384, 7168, 256, 16, 64));
  shapes.push_back(planned_of(16, 16'384, 896, 16, 61));
  shapes.push_back(planned_of(8, 128, 896, 5, 33));
  shapes.push_back(planned_of(8, 640, 256, 1, 64));
  shapes.push_back(planned_of(64, 7168, 2048, 8, 900));
  shapes.push_back(planned_of(4, 1'048'576, 128, 15, 64));
  return shapes;
}

std::vector<i64> live_counts(i64 capacity) {
  std::vector<i64> counts;
  for (i64 tokens = 0; tokens <= capacity; tokens += tokens < 66 || tokens >= capacity - 2 ? 1 : 61)
    counts.push_back(tokens);
  if (counts.back() != capacity) counts.push_back(capacity);
  return counts;
}

// Memory starts at addresses of its own choosing: nothing here is dereferenced.
template <class T>
T* fake(int number) {
  return reinterpret_cast<T*>(std::uintptr_t(number) << 44);
}
std::byte* const kArena = fake<std::byte>(1);
const TrellisWeights kWeights = {.w13 = fake<unsigned char>(2),
                                 .w2 = fake<unsigned char>(3),
                                 .gate_suh = fake<HalfBits>(4),
                                 .up_suh = fake<HalfBits>(5),
                                 .down_svh = fake<HalfBits>(6),
                                 .intermediate_rotations = fake<HalfBits>(7)};
const TrellisInputs kInputs = {
    .x = fake<HalfBits>(8), .topk_ids = fake<int>(9), .id_bytes = 4, .topk_weights = fake<float>(10)};

LeanLaunches launches_of(const Planned& planned, i64 tokens, const TrellisInputs& inputs = kInputs,
                         const TrellisWeights& weights = kWeights) {
  return lean_launches(planned.plan(), tokens, lean_tensors(planned.layout, kArena), weights, inputs);
}

// Whether `count` elements from an address on lie in the tensor.
template <class T>
bool lies_in(const MoeLayout& layout, std::string_view tensor, const T* address, i64 count) {
  const TensorSpec* spec = find_tensor(layout, tensor);
  if (!spec) return false;
  const i64 begin = reinterpret_cast<const std::byte*>(address) - (kArena + spec->offset);
  return begin >= 0 && begin + count * i64{sizeof(T)} <= bytes_of(layout, tensor);
}

void check_routing(const LeanPlan& plan, const LeanRouting& routing, i64 tokens) {
  CHECK(routing.topk_ids == kInputs.topk_ids);
  CHECK(routing.id_bytes == 4);
  CHECK(routing.expert_map == nullptr);
  CHECK(routing.routes == tokens * plan.top_k);
  CHECK(routing.experts == plan.experts);
  CHECK(routing.route_experts == plan.experts);
}

// The rows of FC2 and their sums: slices cover all columns once, and their rows lie in expert_rows.
template <class Slices>
void check_slices(const Planned& planned, i64 tokens, const Slices& slices) {
  const LeanPlan plan = planned.plan();
  const i64 routes = tokens * plan.top_k;
  i64 column = 0;
  for (const auto& slice : slices) {
    const auto& fc2 = slice.fc2.arguments;
    const LeanSumArguments& sum = slice.sum.arguments;
    CHECK(slice.fc2.grid == 188 * (plan.is_decode() ? 1 : lean_prefill_fc2_tile(plan.bits).blocks_per_sm));
    CHECK(fc2.activated == lean_tensors(planned.layout, kArena).activated);
    CHECK(lies_in(planned.layout, "intermediate_cache2", fc2.activated, routes * plan.intermediate));
    CHECK(fc2.w2 == kWeights.w2 + column / 16 * (32 * plan.bits));
    CHECK(fc2.hidden == plan.hidden);
    if constexpr (requires { fc2.intermediate; }) CHECK(fc2.intermediate == plan.intermediate);
    CHECK(fc2.columns > 0);
    CHECK(fc2.columns % 128 == 0);
    CHECK(fc2.columns <= fc2.row_pitch);
    CHECK(fc2.row_pitch % 128 == 0);
    CHECK(lies_in(planned.layout, "expert_rows", fc2.expert_rows, routes * fc2.row_pitch));

    check_routing(plan, sum.routing, tokens);
    CHECK(sum.rows == fc2.expert_rows);
    CHECK(sum.columns == fc2.columns);
    CHECK(sum.row_pitch == fc2.row_pitch);
    CHECK(sum.topk_weights == kInputs.topk_weights);
    CHECK(sum.down_svh == kWeights.down_svh + column);
    CHECK(sum.down_svh_stride == plan.hidden);
    CHECK(sum.output == lean_tensors(planned.layout, kArena).output + column);
    CHECK(sum.tokens == tokens);
    CHECK(sum.top_k == plan.top_k);
    CHECK(sum.hidden == plan.hidden);
    if (tokens > 0)
      CHECK(lies_in(planned.layout, "full_rotation_output", sum.output,
                    (tokens - 1) * plan.hidden + sum.columns));
    // A warp a token and 128 columns, four in a block, and no block without work but the one there has to be.
    CHECK(slice.sum.grid == std::max<i64>(ceil_div(tokens * (sum.columns / 128), 4), 1));
    column += fc2.columns;
  }
  CHECK(column == plan.hidden);
}

void check_activation(const Planned& planned, i64 tokens,
                      const KernelLaunch<LeanActivateArguments>& activate) {
  const LeanPlan plan = planned.plan();
  const i64 routes = tokens * plan.top_k;
  const LeanActivateArguments& args = activate.arguments;
  check_routing(plan, args.routing, tokens);
  CHECK(lies_in(planned.layout, "full_rotation_output", args.gate_up, routes * 2 * plan.intermediate));
  CHECK(lies_in(planned.layout, "intermediate_cache2", args.activated, routes * plan.intermediate));
  CHECK(args.intermediate_rotations == kWeights.intermediate_rotations);
  CHECK(args.intermediate == plan.intermediate);
  // A warp a route and 512 columns, two in a block.
  CHECK(activate.grid == std::max<i64>(ceil_div(routes * ceil_div(plan.intermediate, 512), 2), 1));
}

template <class Arguments>
void check_fc1(const Planned& planned, const KernelLaunch<Arguments>& fc1) {
  const LeanPlan plan = planned.plan();
  const auto& args = fc1.arguments;
  CHECK(fc1.grid == 188);
  CHECK(args.x == kInputs.x);
  CHECK(args.w13 == kWeights.w13);
  CHECK(args.gate_suh == kWeights.gate_suh);
  CHECK(args.up_suh == kWeights.up_suh);
  CHECK(args.gate_suh_stride == plan.hidden);
  CHECK(args.up_suh_stride == plan.hidden);
  CHECK(args.top_k == plan.top_k);
  CHECK(args.hidden == plan.hidden);
  CHECK(args.intermediate == plan.intermediate);
  CHECK(args.gate_up == lean_tensors(planned.layout, kArena).gate_up);
}

std::vector<std::string> texts_of(const std::vector<KernelVariant>& variants) {
  std::vector<std::string> texts;
  for (const KernelVariant& variant : variants) texts.push_back(text_of(variant));
  return texts;
}

std::vector<KernelVariant> launched(const LeanLaunches& launches) {
  std::vector<KernelVariant> variants;
  const auto note = [&](const auto& launch) -> Status {
    variants.push_back(launch.variant);
    return Ok{};
  };
  REQUIRE(std::visit([&](const auto& of_kind) { return launch_each(of_kind, note); }, launches));
  return variants;
}

}  // namespace

TEST_CASE("a lean decode launch: gate and up, the activation, then the rows and the sums of every slice") {
  // 976 routes of 25 blocks of 128 columns, of 128: five slices of 3,200 and one of the 384 that are left.
  const Planned planned = planned_of(16, 16'384, 896, 16, 61);
  std::vector<std::string> expected = {"lean_decode_fc1 BITS=3 CODEBOOK=1 INPUT_BF16=0", "lean_activate"};
  for (int slice = 0; slice < 6; ++slice) {
    expected.emplace_back("lean_decode_fc2 BITS=3 CODEBOOK=1 INTERMEDIATE=896 SIDE=2");
    expected.emplace_back("lean_sum");
  }
  CHECK(texts_of(launched(launches_of(planned, 61))) == expected);
  const auto launches = std::get<LeanDecodeLaunches>(launches_of(planned, 61));
  CHECK(launches.slices.front().fc2.arguments.columns == 3200);
  CHECK(launches.slices.back().fc2.arguments.columns == 384);
  CHECK(lean_row_pitch(launches) == 3200);
  // 160 routes have room for 152 blocks of columns, and there are 128.
  CHECK(std::get<LeanDecodeLaunches>(launches_of(planned, 10)).slices.size() == 1);
  CHECK(lean_row_pitch(launches_of(planned, 10)) == 16'384);
}

TEST_CASE("a lean prefill launch packs routes first, and its slices are as wide as there is room") {
  const Planned planned = planned_of(160, 6144, 512, 8, 3072);
  // Of 3,072 tokens four blocks of 128 columns, of 1,000 twelve, of 256 all 48.
  for (const auto& [tokens, slices] : {std::pair<i64, i64>{3072, 12}, {1000, 4}, {256, 1}, {1, 1}}) {
    std::vector<std::string> expected = {
        concat("route_pack BLOCK=", kLeanBlock, " ID_BYTES=4"),
        text_of(lean_prefill_fc1_variant(3, tokens >= 1000 ? kLeanPrefillGroups : kLeanPrefillFewGroups,
                                         Codebook::mcg, false)),
        "lean_activate"};
    for (i64 slice = 0; slice < slices; ++slice) {
      expected.emplace_back("lean_prefill_fc2 BITS=3 CODEBOOK=1");
      expected.emplace_back("lean_sum");
    }
    INFO(tokens << " tokens");
    CHECK(texts_of(launched(launches_of(planned, tokens))) == expected);
    CHECK(lean_row_pitch(launches_of(planned, tokens)) == ceil_div(48, slices) * 128);
  }
}

TEST_CASE("every launch of a lean plan works in the plan's tensors, and slices cover all columns once") {
  for (const Planned& planned : all_shapes()) {
    const LeanPlan plan = planned.plan();
    for (const i64 tokens : live_counts(plan.capacity)) {
      INFO("E " << plan.experts << " k " << plan.hidden << " n " << plan.intermediate << " topk "
                << plan.top_k << " capacity " << plan.capacity << " m " << tokens);
      const LeanLaunches launches = launches_of(planned, tokens);
      CHECK(std::holds_alternative<LeanDecodeLaunches>(launches) == (plan.capacity <= 64));
      std::visit(
          [&](const auto& of_kind) {
            check_fc1(planned, of_kind.fc1);
            check_activation(planned, tokens, of_kind.activate);
            check_slices(planned, tokens, of_kind.slices);
          },
          launches);
    }
  }
}

TEST_CASE("rows of a lean launch take no more of expert_rows than an audit says it needs") {
  for (const Planned& planned : all_shapes()) {
    const LeanPlan plan = planned.plan();
    for (const i64 tokens : live_counts(plan.capacity)) {
      if (tokens == 0) continue;
      const i64 need = element(kernel_need(plan, tokens, false), CoreTensor::expert_rows);
      CHECK(tokens * plan.top_k * lean_row_pitch(launches_of(planned, tokens)) <= need);
    }
  }
}

TEST_CASE("a lean prefill launch packs exactly its routes, and its tickets lie in the workspace") {
  const Planned planned = planned_of(160, 6144, 512, 8, 3072);
  for (const i64 tokens : {0, 1, 65, 3071, 3072}) {
    const auto launches = std::get<LeanPrefillLaunches>(launches_of(planned, tokens));
    const RoutePackArguments& pack = launches.route_pack.arguments;
    const i64 routes = 8 * tokens, packed = std::max<i64>(routes, 1);
    const i64 slots = packed + std::min<i64>(packed, 160) * (kLeanBlock - 1);
    CHECK(launches.route_pack.grid == 1);
    CHECK(pack.routes == routes);
    CHECK(pack.experts == 160);
    CHECK(pack.slots == slots);
    CHECK(pack.blocks == ceil_div(slots, kLeanBlock));
    CHECK(lies_in(planned.layout, "packed_route_indices", pack.packed_route_indices, pack.slots));
    CHECK(lies_in(planned.layout, "block_expert_ids", pack.block_expert_ids, pack.blocks));
    CHECK(lies_in(planned.layout, "packed_route_count", pack.packed_route_count, 1));
    CHECK(lies_in(planned.layout, "expert_offsets", pack.expert_offsets, 161));
    CHECK(lies_in(planned.layout, "expert_counts", pack.expert_counts, 160));

    const LeanPrefillFc1Arguments& fc1 = launches.fc1.arguments;
    CHECK(fc1.packed_route_indices == pack.packed_route_indices);
    CHECK(fc1.block_expert_ids == pack.block_expert_ids);
    CHECK(fc1.packed_route_count == pack.packed_route_count);
    CHECK(fc1.routes == routes);
    CHECK(fc1.experts == 160);
    CHECK(lies_in(planned.layout, "kernel_workspace", fc1.ticket, 1));
    for (const LeanPrefillSlice& slice : launches.slices) {
      const LeanPrefillFc2Arguments& fc2 = slice.fc2.arguments;
      CHECK(fc2.packed_route_indices == pack.packed_route_indices);
      CHECK(fc2.block_expert_ids == pack.block_expert_ids);
      CHECK(fc2.packed_route_count == pack.packed_route_count);
      CHECK(fc2.routes == routes);
      CHECK(fc2.experts == 160);
      CHECK(lies_in(planned.layout, "kernel_workspace", fc2.ticket, 1));
      CHECK(fc2.ticket != fc1.ticket);
    }
  }
}

TEST_CASE("few routes of a lean decode launch are dealt out in single columns of tiles, more in pairs") {
  const Planned planned = planned_of(160, 6144, 512, 8, 64);
  for (const i64 tokens : {1, 2, 3, 64}) {
    const auto launches = std::get<LeanDecodeLaunches>(launches_of(planned, tokens));
    CHECK(launches.slices.front().fc2.variant ==
          lean_decode_fc2_variant(3, Codebook::mcg, 512, tokens <= 2 ? 1 : 2));
  }
}

TEST_CASE("every launch of every lean plan uses a kernel that the plan lists, and lists none in vain") {
  for (const Planned& planned : all_shapes()) {
    const LeanPlan plan = planned.plan();
    const auto listed = lean_variants(plan);
    std::set<KernelVariant> used;
    for (const i64 tokens : live_counts(plan.capacity)) {
      for (const i64 id_bytes : {4, 8}) {
        TrellisInputs inputs = kInputs;
        inputs.id_bytes = id_bytes;
        const auto variants = launched(launches_of(planned, tokens, inputs));
        used.insert(variants.begin(), variants.end());
      }
    }
    INFO("capacity " << plan.capacity << " topk " << plan.top_k);
    CHECK(listed.size() == used.size());
    CHECK(used == std::set<KernelVariant>(listed.begin(), listed.end()));
  }
}

TEST_CASE("bits, input type and intermediate size of a lean plan are those of its kernels") {
  for (const i64 capacity : {64, 65}) {
    for (const i64 bits : {3, 4, 5, 6}) {
      Planned planned = planned_of(16, 512, 384, 4, capacity);
      planned.request.weights.trellis_bits = bits;
      planned.request.weights.io_dtype = DType::bfloat16;
      planned.layout = *plan_moe(planned.request);
      const auto used = launched(launches_of(planned, 8));
      const auto has = [&](const KernelVariant& variant) {
        return std::ranges::find(used, variant) != used.end();
      };
      if (capacity == 64) {
        CHECK(has(lean_decode_fc1_variant(bits, Codebook::mcg, true)));
        CHECK(has(lean_decode_fc2_variant(bits, Codebook::mcg, 384, 2)));
      } else {
        CHECK(has(lean_prefill_fc1_variant(bits, kLeanPrefillFewGroups, Codebook::mcg, true)));
        CHECK(has(lean_prefill_fc2_variant(bits, Codebook::mcg)));
      }
    }
  }
}

TEST_CASE("an output that a lean launch brings is summed into, and gate and up stay in the plan's own") {
  TrellisInputs inputs = kInputs;
  inputs.output = fake<float>(11);
  for (const i64 capacity : {64, 512}) {
    const Planned planned = planned_of(160, 6144, 512, 8, capacity);
    std::visit(
        [&](const auto& launches) {
          const LeanTensors tensors = lean_tensors(planned.layout, kArena);
          CHECK(launches.fc1.arguments.gate_up == tensors.gate_up);
          CHECK(launches.activate.arguments.gate_up == tensors.gate_up);
          i64 column = 0;
          for (const auto& slice : launches.slices) {
            CHECK(slice.sum.arguments.output == inputs.output + column);
            column += slice.sum.arguments.columns;
          }
        },
        launches_of(planned, 33, inputs));
  }
}

TEST_CASE("rows of scales that all experts share have no stride") {
  TrellisWeights weights = kWeights;
  weights.shares_gate_suh = weights.shares_up_suh = weights.shares_down_svh = true;
  for (const i64 capacity : {64, 512}) {
    std::visit(
        [](const auto& launches) {
          CHECK(launches.fc1.arguments.gate_suh_stride == 0);
          CHECK(launches.fc1.arguments.up_suh_stride == 0);
          for (const auto& slice : launches.slices) CHECK(slice.sum.arguments.down_svh_stride == 0);
        },
        launches_of(planned_of(160, 6144, 512, 8, capacity), 33, kInputs, weights));
  }
}

TEST_CASE("ids of a lean launch are valid below the router's experts, whose map leads to the rank's") {
  Planned planned = planned_of(8, 512, 256, 4, 64);
  planned.request.capacity.route_experts = 32;
  planned.layout = *plan_moe(planned.request);
  TrellisInputs inputs = kInputs;
  inputs.expert_map = fake<int>(12);
  inputs.id_bytes = 8;
  const auto launches = std::get<LeanDecodeLaunches>(launches_of(planned, 5, inputs));
  for (const LeanRouting& routing :
       {launches.fc1.arguments.routing, launches.activate.arguments.routing,
        launches.slices.front().fc2.arguments.routing, launches.slices.front().sum.arguments.routing}) {
    CHECK(routing.expert_map == inputs.expert_map);
    CHECK(routing.id_bytes == 8);
    CHECK(routing.route_experts == 32);
    CHECK(routing.experts == 8);
    CHECK(routing.routes == 20);
  }
}

TEST_CASE("tensors of a lean plan: gate and up lie in the output, decode plans have none for packed routes") {
  const Planned decode = planned_of(160, 6144, 512, 8, 64), prefill = planned_of(160, 6144, 512, 8, 65);
  const LeanTensors of_decode = lean_tensors(decode.layout, kArena);
  CHECK(static_cast<void*>(of_decode.output) == kArena);
  CHECK(static_cast<void*>(of_decode.gate_up) == kArena);
  CHECK(static_cast<void*>(of_decode.activated) == kArena + 1'572'864);
  CHECK(static_cast<void*>(of_decode.expert_rows) == kArena + 1'572'864 + 524'288);
  for (const int* missing :
       {of_decode.packed_route_indices, of_decode.block_expert_ids, of_decode.packed_route_count,
        of_decode.expert_offsets, of_decode.expert_counts, of_decode.tickets})
    CHECK(missing == nullptr);
  const LeanTensors of_prefill = lean_tensors(prefill.layout, kArena);
  CHECK(static_cast<void*>(of_prefill.gate_up) == of_prefill.output);
  for (const auto& [name, address] : {std::pair{"packed_route_indices", of_prefill.packed_route_indices},
                                      {"block_expert_ids", of_prefill.block_expert_ids},
                                      {"packed_route_count", of_prefill.packed_route_count},
                                      {"expert_offsets", of_prefill.expert_offsets},
                                      {"expert_counts", of_prefill.expert_counts},
                                      {"kernel_workspace", of_prefill.tickets}}) {
    INFO(name);
    CHECK(reinterpret_cast<std::byte*>(address) == kArena + find_tensor(prefill.layout, name)->offset);
  }
}

TEST_CASE("lean plans that our kernels do not run say why") {
  const auto missing = [](i64 experts, i64 intermediate, i64 top_k, i64 capacity, i64 bits) {
    MoeRequest request = trellis_request(kLeanContractId, experts, 512, intermediate, top_k, capacity, 188);
    request.weights.trellis_bits = bits;
    const auto layout = plan_moe(request);
    REQUIRE(layout);
    return missing_lean_kernels(request, *layout);
  };
  CHECK(missing(1024, 512, 16, 64, 3) == "");
  CHECK(missing(16, 512, 17, 64, 3) == "this build's lean kernels decode 1024 routes at most, not 1088");
  CHECK(missing(16, 512, 17, 60, 3) == "");
  CHECK(missing(16, 512, 17, 65, 3) == "");
  CHECK(missing(1025, 512, 8, 64, 3).find("1024 experts at most, not for 1025") != std::string::npos);
  CHECK(missing(1024, 512, 8, 65, 3) == "");
  CHECK(missing(1025, 512, 8, 65, 3).find("1024 experts at most, not for 1025") != std::string::npos);
  // The widest rows that leave two stages of every ring room beside them.
  for (const auto& [bits, widest] : {std::pair<i64, i64>{3, 1664}, {4, 1408}, {5, 1152}, {6, 896}}) {
    INFO(bits << " bits");
    CHECK(missing(16, widest, 8, 64, bits) == "");
    CHECK(missing(16, widest + 128, 8, 64, bits).find("no room in shared memory") != std::string::npos);
    CHECK(missing(16, widest + 128, 8, 65, bits) == "");
    CHECK(lean_decode_fc2_shared(bits, widest).bytes <= 101'376);
    CHECK(lean_decode_fc1_shared(bits).bytes <= 101'376);
    CHECK(lean_decode_fc1_shared(bits).stages >= 2);
  }
}
