#include "runtime/moe/packed_kernels.hpp"

#include <algorithm>

#include "planner/core/check.hpp"
#include "planner/core/text.hpp"
#include "planner/moe/soundness.hpp"
#include "planner/moe/w4a16.hpp"

namespace moeplan {
namespace {

constexpr i64 kBlocksPerSm = 1;
constexpr i64 kSumColumns = 128;  // of a warp of the sum

KernelVariant fused_variant(const PackedPlan& plan, i64 block) {
  return fused_packed_variant(packed_tile(block), plan.is_bfloat16);
}

// The elements of a product's split-K scratch that a launch of at most `slots` slots can touch. Fewer tiles
// than blocks of the grid are split.
i64 scratch_need(const PackedPlan& plan, i64 block, i64 slots, i64 columns) {
  const PackedTile tile = packed_tile(block);
  const i64 tiles = slots / block * (columns / tile.tile_n);
  return min_of(tiles, plan.multiprocessors * kBlocksPerSm - 1) * packed_region_elements(tile);
}

// Whether some of these launches have blocks of this size.
bool is_reached(const LiveRuntime& runtime, int block_index, LiveRange tokens) {
  if (tokens.first > tokens.last) return false;
  if (runtime.block_size) return *runtime.block_size == kBlockSizes[block_index];
  const i64 first =
      block_index == 0
          ? tokens.first
          : max_of(tokens.first,
                   last_tokens_of_block(kBlockSizes[block_index - 1], runtime.top_k, runtime.experts) + 1);
  return first <= tokens.last && select_block_index(first, runtime.top_k, runtime.experts) == block_index;
}

}  // namespace

std::string missing_packed_kernels(const MoeRequest& request, const MoeLayout& layout) {
  const MoeWeights& weights = request.weights;
  if (layout.weight_layout != WeightLayout::packed)
    return "this build's packed kernels run packed plans alone";
  if (request.kind != MoeKind::tensor_parallel)
    return "this build has no packed kernels for expert-parallel plans";
  if (layout.scale_format != ScaleFormat::e4m3_k16)
    return "this build has packed kernels for NVFP4 weights alone";
  if (weights.activation != Activation::silu || request.capacity.swiglu_limit)
    return "this build has packed kernels for silu without a limit alone";
  const PackedTile tile = packed_tile(kBlockSizes[0]);
  if (weights.hidden_size % tile.tile_n != 0 || weights.intermediate_size % tile.tile_k != 0)
    return concat("this build has packed kernels for hidden sizes that are multiples of ", tile.tile_n,
                  " and intermediate sizes a rank that are multiples of ", tile.tile_k);
  const i64 columns = max_of(weights.hidden_size, 2 * weights.intermediate_size);
  if (layout.route_slots * ceil_div(columns, tile.tile_n) > kMostItems)
    return concat("this build's kernels count ", kMostItems, " blocks of ", tile.tile_n, " columns at most");
  for (const ExpertMap map : {ExpertMap::absent, ExpertMap::present}) {
    if (!may_have(request, map)) continue;
    const i64 counted = live_runtime(request, layout, map).experts;
    if (counted > kRoutePackExperts)
      return concat("this build packs routes for ", kRoutePackExperts, " experts at most, not for ", counted);
    if (const auto tokens = audit_moe(request, layout, map).counter_example())
      return concat("launches of ", *tokens, " tokens need more than the plan reserves");
  }
  return "";
}

PackedPlan packed_plan(const MoeRequest& request, const MoeLayout& layout) {
  MOEPLAN_CHECK(missing_packed_kernels(request, layout).empty(), "a plan without kernels of ours");
  return {fused_plan(request, layout), request.capacity.apply_router_weight_on_input.value_or(false)};
}

CoreElements kernel_need(const PackedPlan& plan, i64 tokens, bool has_map) {
  const LiveRuntime& runtime = plan.runtime(has_map);
  const LiveNeed live = live_need(runtime, plan.planned, tokens);
  CoreElements need = live.elements;
  const auto needs = [&](CoreTensor tensor, i64 elements) {
    need[static_cast<std::size_t>(tensor)] = elements;
  };
  i64 slots = element(need, CoreTensor::packed_route_indices);
  if (tokens <= runtime.direct_tokens) {
    slots = direct_route_slots(tokens, plan.top_k, live.block_size);
    for (const CoreTensor tensor :
         {CoreTensor::packed_route_indices, CoreTensor::block_expert_ids, CoreTensor::packed_route_count,
          CoreTensor::expert_offsets, CoreTensor::expert_counts})
      needs(tensor, 0);
  }
  // The small-m kernel's partial sums are none of these kernels'.
  needs(CoreTensor::intermediate_cache2, tokens * plan.top_k * plan.intermediate);
  needs(CoreTensor::fc1_c_tmp, scratch_need(plan, live.block_size, slots, 2 * plan.intermediate));
  needs(CoreTensor::fc2_c_tmp, scratch_need(plan, live.block_size, slots, plan.hidden));
  return need;
}

std::vector<KernelVariant> packed_variants(const PackedPlan& plan) {
  std::vector<KernelVariant> variants;
  for (int i = 0; i < kBlockSizeCount; ++i) {
    bool is_packed = false, is_launched = false;
    for (const bool has_map : {false, true}) {
      if (!(has_map ? plan.may_have_map : plan.may_lack_map)) continue;
      const LiveRuntime& runtime = plan.runtime(has_map);
      is_launched |= is_reached(runtime, i, {1, plan.capacity});
      is_packed |= is_reached(runtime, i, {runtime.direct_tokens + 1, plan.capacity});
    }
    if (is_packed)
      for (i64 id_bytes : {4, 8}) variants.push_back(route_pack_variant(kBlockSizes[i], id_bytes));
    if (is_launched) variants.push_back(fused_variant(plan, kBlockSizes[i]));
  }
  for (i64 id_bytes : {4, 8}) variants.push_back(route_sum_variant(plan.is_bfloat16, id_bytes));
  return variants;
}

std::vector<TensorSpec> caller_tensors(const PackedPlan& plan) {
  const i64 words = packed_workspace_words(plan.multiprocessors);
  TensorSpec output{.name = kCallerOutput, .shape = shape(plan.capacity, plan.hidden)};
  output.dtype = plan.is_bfloat16 ? DType::bfloat16 : DType::float16;
  output.bytes = output.shape.elements() * item_bytes(output.dtype);
  return {output,
          {.name = kCallerWorkspace,
           .dtype = DType::int32,
           .shape = shape(words),
           .offset = align_up(output.bytes, kMoeAlignment),
           .bytes = 4 * words}};
}

PackedTensors packed_tensors(const std::function<std::byte*(std::string_view)>& address) {
  const auto ints = [&](CoreTensor tensor) { return reinterpret_cast<int*>(address(name_of(tensor))); };
  const auto halves = [&](CoreTensor tensor) {
    return reinterpret_cast<HalfBits*>(address(name_of(tensor)));
  };
  const auto floats = [&](CoreTensor tensor) { return reinterpret_cast<float*>(address(name_of(tensor))); };
  return {.packed_route_indices = ints(CoreTensor::packed_route_indices),
          .block_expert_ids = ints(CoreTensor::block_expert_ids),
          .packed_route_count = ints(CoreTensor::packed_route_count),
          .expert_offsets = ints(CoreTensor::expert_offsets),
          .expert_counts = ints(CoreTensor::expert_counts),
          .intermediate_cache13 = halves(CoreTensor::intermediate_cache13),
          .intermediate_cache2 = halves(CoreTensor::intermediate_cache2),
          .fc1_c_tmp = floats(CoreTensor::fc1_c_tmp),
          .fc2_c_tmp = floats(CoreTensor::fc2_c_tmp)};
}

PackedTensors packed_tensors(const MoeLayout& layout, std::byte* arena) {
  return packed_tensors([&](std::string_view name) {
    const auto* tensor = std::ranges::find(layout.arena.tensors, name, &TensorSpec::name);
    return tensor == layout.arena.tensors.end() ? nullptr : arena + tensor->offset;
  });
}

PackedLaunches packed_launches(const PackedPlan& plan, i64 tokens, const PackedTensors& tensors,
                               const PackedWeights& weights, const PackedInputs& inputs) {
  MOEPLAN_CHECK(tokens >= 0 && tokens <= plan.capacity, "live tokens outside of the plan's capacity");
  MOEPLAN_CHECK(inputs.id_bytes == 4 || inputs.id_bytes == 8, "ids of 4 or 8 bytes");
  const LiveRuntime& runtime = plan.runtime(inputs.expert_map != nullptr);
  // Of no tokens nothing is routed, in buffers as large as one token's.
  const i64 counted = max_of(tokens, 1);
  const LiveNeed need = live_need(runtime, plan.planned, counted);
  const i64 routes = tokens * plan.top_k;
  const bool is_direct = counted <= runtime.direct_tokens;
  MOEPLAN_CHECK(fits(kernel_need(plan, counted, inputs.expert_map != nullptr), plan.planned),
                "a launch that the plan has no room for");
  const i64 warps_per_block = kTopKSumThreads / 32;

  PackedLaunches launches;
  launches.block = need.block_size;
  if (!is_direct) launches.route_pack = route_pack_launch(tensors, inputs, routes, route_room(runtime, need));
  launches.fused = {
      .variant = fused_variant(plan, need.block_size),
      .grid = plan.multiprocessors * kBlocksPerSm,
      .arguments = {.x = inputs.x,
                    .w13 = weights.w13,
                    .w2 = weights.w2,
                    .w13_scales = weights.w13_scales,
                    .w2_scales = weights.w2_scales,
                    .w13_globals = weights.w13_globals,
                    .w2_globals = weights.w2_globals,
                    .topk_ids = inputs.topk_ids,
                    .expert_map = inputs.expert_map,
                    .topk_weights = inputs.topk_weights,
                    .packed_route_indices = tensors.packed_route_indices,
                    .block_expert_ids = tensors.block_expert_ids,
                    .packed_route_count = tensors.packed_route_count,
                    .intermediate_cache13 = tensors.intermediate_cache13,
                    .intermediate_cache2 = tensors.intermediate_cache2,
                    .fc1_c_tmp = tensors.fc1_c_tmp,
                    .fc2_c_tmp = tensors.fc2_c_tmp,
                    .locks = inputs.kernel_workspace,
                    .barrier = inputs.kernel_workspace + packed_workspace_words(plan.multiprocessors) - 2,
                    .routes = routes,
                    .top_k = plan.top_k,
                    .hidden = plan.hidden,
                    .intermediate = plan.intermediate,
                    .experts = plan.experts,
                    .route_experts = runtime.experts,
                    .id_bytes = inputs.id_bytes,
                    .is_direct = is_direct,
                    .weights_on_input = plan.weights_on_input}};
  launches.route_sum = {.variant = route_sum_variant(plan.is_bfloat16, inputs.id_bytes),
                        .grid = max_of(ceil_div(tokens * (plan.hidden / kSumColumns), warps_per_block), 1),
                        .arguments = {.intermediate_cache13 = tensors.intermediate_cache13,
                                      .topk_ids = inputs.topk_ids,
                                      .expert_map = inputs.expert_map,
                                      .output = inputs.output,
                                      .tokens = tokens,
                                      .top_k = plan.top_k,
                                      .hidden = plan.hidden,
                                      .route_experts = runtime.experts,
                                      .experts = plan.experts}};
  return launches;
}

}  // namespace moeplan
