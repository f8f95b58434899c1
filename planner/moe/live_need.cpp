#include "planner/moe/live_need.hpp"

#include <algorithm>

#include "planner/moe/geometry.hpp"

namespace moeplan {
namespace {

// Tokens the direct top-k kernel takes: packed weights only. A map rules it out, or, where it does not, lifts
// the limit that other types have.
i64 direct_tokens(const MoeRequest& request, const MoeLayout& layout, ExpertMap map) {
  if (layout.weight_layout != WeightLayout::packed) return 0;
  if (map == ExpertMap::present) return request.contract->mapped_direct_top_k ? direct_token_cap(true) : 0;
  return direct_token_cap(request.weights.io_dtype == DType::bfloat16 &&
                          is_gated(request.weights.activation));
}

i64 small_m_tokens(const MoeRequest& request, const MoeLayout& layout, i64 experts, ExpertMap map) {
  // An expert map rules it out, and so does an expert-parallel plan.
  if (map == ExpertMap::present || request.kind == MoeKind::expert_parallel) return 0;
  const MoeWeights& weights = request.weights;
  const SmallMShape one_token{
      .tokens = 1,
      .top_k = request.capacity.routes_per_token(),
      .hidden = weights.hidden_size,
      .intermediate = weights.intermediate_size,
      .experts = experts,
      .activation = weights.activation,
      .io_dtype = weights.io_dtype,
      .layout = *layout.weight_layout,
      .scale_format = layout.scale_format,
      .apply_router_weight_on_input = request.capacity.apply_router_weight_on_input.value_or(false),
      .has_swiglu_limit = request.capacity.swiglu_limit.has_value()};
  return small_m_direct_applies(one_token) ? kSmallMTokens : 0;
}

// Without a map the route packer counts the weights' experts, with one the experts that it maps. The Trellis
// runtimes of one route count take it from the plan.
i64 runtime_experts(const MoeRequest& request, const MoeLayout& layout, ExpertMap map) {
  if (request.kind == MoeKind::expert_parallel || map == ExpertMap::present) return layout.route_experts;
  if (layout.weight_layout == WeightLayout::trellis && !request.contract->tensor_parallel_expert_map)
    return layout.route_experts;
  return request.weights.experts;
}

}  // namespace

CoreElements planned_elements(const MoeLayout& layout) {
  CoreElements planned;
  planned.fill(-1);
  for (int i = 0; i < kCoreTensorCount; ++i) {
    const auto* tensor =
        std::ranges::find(layout.arena.tensors, name_of(static_cast<CoreTensor>(i)), &TensorSpec::name);
    if (tensor != layout.arena.tensors.end()) planned[static_cast<std::size_t>(i)] = tensor->shape.elements();
  }
  return planned;
}

bool may_have(const MoeRequest& request, ExpertMap map) {
  if (request.kind == MoeKind::expert_parallel) return map == ExpertMap::present;
  return map == ExpertMap::absent || request.contract->tensor_parallel_expert_map;
}

LiveRuntime live_runtime(const MoeRequest& request, const MoeLayout& layout, ExpertMap map) {
  const MoeWeights& weights = request.weights;
  const i64 experts = runtime_experts(request, layout, map);
  return {.capacity = request.capacity.tokens(),
          .top_k = request.capacity.routes_per_token(),
          .hidden = weights.hidden_size,
          .intermediate = weights.intermediate_size,
          .fc1_columns = fc1_columns(weights.intermediate_size, is_gated(weights.activation)),
          .experts = experts,
          .multiprocessors = request.multiprocessors(),
          .block_size = layout.route_block_size_m,
          .direct_tokens = direct_tokens(request, layout, map),
          .small_m_tokens = small_m_tokens(request, layout, experts, map)};
}

LiveNeed live_need(const LiveRuntime& r, const CoreElements& planned, i64 tokens) {
  LiveNeed need;
  need.block_size = r.block_size ? *r.block_size : select_block_size(tokens, r.top_k, r.experts);
  const i64 b = need.block_size, rows = tokens * r.top_k;
  const auto at = [](CoreTensor tensor) { return static_cast<std::size_t>(tensor); };

  // The packer takes the bucket's buffers where they are large enough, else exactly as much as it has rows.
  i64 slots = route_slots(pow2_ceil(tokens) * r.top_k, b, r.experts);
  i64 blocks = ceil_div(slots, b);
  if (slots > planned[at(CoreTensor::packed_route_indices)] ||
      blocks > planned[at(CoreTensor::block_expert_ids)]) {
    slots = route_slots(rows, b, r.experts);
    blocks = ceil_div(slots, b);
  }
  const i64 scratch_slots =
      tokens <= r.direct_tokens ? max_of(slots, direct_route_slots(tokens, r.top_k, b)) : slots;
  const auto scratch = [&](i64 columns) {
    return gemm_scratch_elements(columns, scratch_slots, b, r.multiprocessors);
  };
  i64 cache2 = rows * r.intermediate;
  need.small_m = tokens <= r.small_m_tokens;
  if (need.small_m) cache2 = max_of(cache2, small_m_scratch_bytes(tokens, r.top_k, r.intermediate) / 2);

  // In the order of CoreTensor.
  need.elements = {rows * max_of(r.fc1_columns, r.hidden),
                   cache2,
                   scratch(r.fc1_columns),
                   scratch(r.hidden),
                   slots,
                   blocks,
                   1,
                   r.experts + 1,
                   r.experts,
                   tokens * r.hidden,
                   rows * r.hidden,
                   rows * r.hidden,
                   4 * r.multiprocessors + 2};
  for (std::size_t i = 0; i < planned.size(); ++i) {
    if (planned[i] < 0) need.elements[i] = -1;
  }
  return need;
}

std::vector<LiveRange> rising_ranges(const LiveRuntime& r) {
  // The last token counts before something changes: a kernel's limit, a bucket, the selected block.
  std::vector<i64> ends{r.direct_tokens, r.small_m_tokens, r.capacity};
  for (i64 bucket = 1; bucket < r.capacity; bucket *= 2) ends.push_back(bucket);
  for (i64 b : kBlockSizes) ends.push_back((9 * b * r.experts - 1) / (10 * r.top_k));
  std::ranges::sort(ends);
  std::vector<LiveRange> ranges;
  i64 first = 1;
  for (i64 end : ends) {
    if (end < first || end > r.capacity) continue;
    ranges.push_back({first, end});
    first = end + 1;
  }
  return ranges;
}

}  // namespace moeplan
