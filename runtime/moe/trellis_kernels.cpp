#include "runtime/moe/trellis_kernels.hpp"

#include <algorithm>
#include <array>

#include "planner/core/check.hpp"
#include "planner/core/text.hpp"
#include "planner/moe/w4a16.hpp"
#include "planner/moe/weight_plan.hpp"

namespace moeplan {
namespace {

// Blocks of threads a multiprocessor: several, so that some decode while others wait, but no more than have
// work of FC1, of which blocks side by side would share a multiprocessor while others stand idle.
i64 blocks_per_sm(const TrellisPlan& plan, i64 routes) {
  const i64 fc1_columns = min_of(routes, plan.experts) * 2 * plan.intermediate;
  if (plan.is_narrow)
    return max_of(1, min_of(narrow_blocks_per_sm(plan.bits),
                            ceil_div(fc1_columns / kNarrowUnitColumns, plan.multiprocessors)));
  return max_of(1, min_of(kFusedBlocksPerSm, fc1_columns / kHadamardBlock / plan.multiprocessors / 2));
}

KernelVariant fused_variant(const TrellisPlan& plan, i64 block) {
  if (plan.is_narrow) return fused_trellis_narrow_variant(plan.bits, plan.codebook, plan.is_bfloat16);
  return fused_trellis_variant(trellis_tile(block, plan.bits), plan.codebook, plan.is_bfloat16);
}

// Which of kBlockSizes launches of the plan can have.
using ReachedBlocks = std::array<bool, kBlockSizeCount>;
ReachedBlocks reached_blocks(const TrellisPlan& plan) {
  ReachedBlocks reached{};
  const auto reach = [&](const LiveRuntime& runtime) {
    BlockRange range = reachable_blocks(plan.capacity, plan.top_k, runtime.experts);
    if (runtime.block_size) range.first = range.last = block_size_index(*runtime.block_size);
    std::fill(reached.begin() + range.first, reached.begin() + range.last + 1, true);
  };
  if (plan.may_lack_map) reach(plan.without_map);
  if (plan.may_have_map) reach(plan.with_map);
  return reached;
}

}  // namespace

std::string missing_trellis_kernels(const MoeRequest& request, const MoeLayout& layout) {
  if (std::string missing = missing_layer_kernels(request, layout); !missing.empty()) return missing;
  if (request.contract->lean_executor)
    return concat("these Trellis kernels run the tensors of engines' plans, not of ", request.contract->id);
  const i64 counted = max_of(live_runtime(request, layout, ExpertMap::absent).experts,
                             live_runtime(request, layout, ExpertMap::present).experts);
  if (counted > kRoutePackExperts)
    return concat("this build packs routes for ", kRoutePackExperts, " experts at most, not for ", counted);
  const i64 columns = max_of(request.weights.hidden_size, 2 * request.weights.intermediate_size);
  if (layout.route_slots * ceil_div(columns, kHadamardBlock) > kMostItems)
    return concat("this build's kernels count ", kMostItems, " blocks of ", kHadamardBlock,
                  " columns at most");
  return "";
}

TrellisPlan trellis_plan(const MoeRequest& request, const MoeLayout& layout) {
  MOEPLAN_CHECK(missing_trellis_kernels(request, layout).empty(), "a plan without kernels of ours");
  TrellisPlan plan{trellis_layer_plan(request, layout)};
  static_assert(kBlockSizes[0] == kNarrowBlock);
  const ReachedBlocks reached = reached_blocks(plan);
  plan.is_narrow = std::ranges::count(reached, true) == 1 && reached[0];
  return plan;
}

CoreElements kernel_need(const TrellisPlan& plan, i64 tokens, bool has_map) {
  CoreElements need = live_need(plan.runtime(has_map), plan.planned, tokens).elements;
  need[static_cast<std::size_t>(CoreTensor::fc1_c_tmp)] = 0;
  need[static_cast<std::size_t>(CoreTensor::fc2_c_tmp)] = 0;
  return need;
}

std::vector<KernelVariant> trellis_variants(const TrellisPlan& plan) {
  const ReachedBlocks is_reached = reached_blocks(plan);
  std::vector<KernelVariant> variants;
  for (int i = 0; i < kBlockSizeCount; ++i) {
    if (!is_reached[static_cast<std::size_t>(i)]) continue;
    for (i64 id_bytes : {4, 8}) variants.push_back(route_pack_variant(kBlockSizes[i], id_bytes));
    variants.push_back(fused_variant(plan, kBlockSizes[i]));
  }
  for (i64 id_bytes : {4, 8}) variants.push_back(top_k_sum_variant(id_bytes));
  return variants;
}

TrellisTensors trellis_tensors(const std::function<std::byte*(std::string_view)>& address) {
  const auto ints = [&](CoreTensor tensor) { return reinterpret_cast<int*>(address(name_of(tensor))); };
  const auto halves = [&](CoreTensor tensor) {
    return reinterpret_cast<HalfBits*>(address(name_of(tensor)));
  };
  return {
      .packed_route_indices = ints(CoreTensor::packed_route_indices),
      .block_expert_ids = ints(CoreTensor::block_expert_ids),
      .packed_route_count = ints(CoreTensor::packed_route_count),
      .expert_offsets = ints(CoreTensor::expert_offsets),
      .expert_counts = ints(CoreTensor::expert_counts),
      .rotation_a_gate = halves(CoreTensor::rotation_a_gate),
      .rotation_a_up = halves(CoreTensor::rotation_a_up),
      .intermediate_cache13 = halves(CoreTensor::intermediate_cache13),
      .intermediate_cache2 = halves(CoreTensor::intermediate_cache2),
      .full_rotation_output = reinterpret_cast<float*>(address(name_of(CoreTensor::full_rotation_output))),
      .kernel_workspace = ints(CoreTensor::kernel_workspace)};
}

TrellisTensors trellis_tensors(const MoeLayout& layout, std::byte* arena) {
  return trellis_tensors([&](std::string_view name) {
    const auto* tensor = std::ranges::find(layout.arena.tensors, name, &TensorSpec::name);
    MOEPLAN_CHECK(tensor != layout.arena.tensors.end(), "a tensor that the plan does not have");
    return arena + tensor->offset;
  });
}

TrellisLaunches trellis_launches(const TrellisPlan& plan, i64 tokens, const TrellisTensors& tensors,
                                 const TrellisWeights& weights, const TrellisInputs& inputs) {
  MOEPLAN_CHECK(tokens >= 0 && tokens <= plan.capacity, "live tokens outside of the plan's capacity");
  MOEPLAN_CHECK(inputs.id_bytes == 4 || inputs.id_bytes == 8, "ids of 4 or 8 bytes");
  const LiveRuntime& runtime = plan.runtime(inputs.expert_map != nullptr);
  // Of no tokens nothing is routed, into buffers as large as one token's.
  const LiveNeed need = live_need(runtime, plan.planned, max_of(tokens, 1));
  const i64 slots = element(need.elements, CoreTensor::packed_route_indices);
  const i64 blocks = element(need.elements, CoreTensor::block_expert_ids);
  MOEPLAN_CHECK(slots <= element(plan.planned, CoreTensor::packed_route_indices) &&
                    blocks <= element(plan.planned, CoreTensor::block_expert_ids),
                "routes that the plan has no room for");
  const i64 routes = tokens * plan.top_k;
  const auto stride = [&](bool is_shared) { return is_shared ? 0 : plan.hidden; };
  const i64 warps_per_block = kTopKSumThreads / 32;
  int* const shared =
      tensors.kernel_workspace + element(plan.planned, CoreTensor::kernel_workspace) - kTrellisSharedWords;

  TrellisLaunches launches;
  launches.block = need.block_size;
  launches.route_pack = route_pack_launch(tensors, inputs, routes, route_room(runtime, need));
  launches.fused = {.variant = fused_variant(plan, need.block_size),
                    .grid = plan.multiprocessors * blocks_per_sm(plan, routes),
                    .arguments = {.x = inputs.x,
                                  .w13 = weights.w13,
                                  .w2 = weights.w2,
                                  .gate_suh = weights.gate_suh,
                                  .up_suh = weights.up_suh,
                                  .intermediate_rotations = weights.intermediate_rotations,
                                  .packed_route_indices = tensors.packed_route_indices,
                                  .block_expert_ids = tensors.block_expert_ids,
                                  .packed_route_count = tensors.packed_route_count,
                                  .rotation_a_gate = tensors.rotation_a_gate,
                                  .rotation_a_up = tensors.rotation_a_up,
                                  .intermediate_cache13 = tensors.intermediate_cache13,
                                  .intermediate_cache2 = tensors.intermediate_cache2,
                                  .tickets = shared,
                                  .barrier = shared + 2,
                                  .routes = routes,
                                  .top_k = plan.top_k,
                                  .hidden = plan.hidden,
                                  .intermediate = plan.intermediate,
                                  .experts = plan.experts,
                                  .gate_suh_stride = stride(weights.shares_gate_suh),
                                  .up_suh_stride = stride(weights.shares_up_suh)}};
  launches.top_k_sum = {
      .variant = top_k_sum_variant(inputs.id_bytes),
      .grid = max_of(ceil_div(tokens * ceil_div(plan.hidden, kHadamardColumns), warps_per_block), 1),
      .arguments = {.intermediate_cache13 = tensors.intermediate_cache13,
                    .topk_ids = inputs.topk_ids,
                    .topk_weights = inputs.topk_weights,
                    .expert_map = inputs.output_expert_map ? inputs.output_expert_map : inputs.expert_map,
                    .down_svh = weights.down_svh,
                    .output = inputs.output ? inputs.output : tensors.full_rotation_output,
                    .tokens = tokens,
                    .top_k = plan.top_k,
                    .hidden = plan.hidden,
                    .route_experts = runtime.experts,
                    .experts = plan.experts,
                    .down_svh_stride = stride(weights.shares_down_svh)}};
  return launches;
}

}  // namespace moeplan
