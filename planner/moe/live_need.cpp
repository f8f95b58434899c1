#include "planner/moe/live_need.hpp"

#include <algorithm>

#include "planner/moe/geometry.hpp"
#include "planner/moe/lean_geometry.hpp"

namespace moeplan {
namespace {

// Tokens the direct top-k kernel takes: packed weights only. A map rules it out, or, where it does not, lifts
// the limit that other types have.
i64 direct_tokens(const MoeRequest& request, const MoeLayout& layout, ExpertMap map) {
  if (layout.weight_layout != WeightLayout::packed) return 0;
  if (map == ExpertMap::present) return request.contract->mapped_direct_top_k ? direct_token_cap(true) : 0;
  return direct_token_cap(request.weights.is_bfloat16_gated());
}

i64 small_m_tokens(const MoeRequest& request, const MoeLayout& layout, i64 experts, ExpertMap map) {
  // An expert map rules it out, and so does an expert-parallel plan.
  if (map == ExpertMap::present || request.kind == MoeKind::expert_parallel) return 0;
  const SmallMShape one_token =
      small_m_shape(request, *layout.weight_layout, layout.scale_format, experts, 1);
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
          .small_m_tokens = small_m_tokens(request, layout, experts, map),
          .lean_executor = request.contract->lean_executor};
}

namespace {

CoreSizes exact_sizes(const LiveRuntime& r, i64 tokens) {
  CoreSizes sizes{};
  sizes.rows = tokens * r.top_k;
  sizes.tokens = tokens;
  sizes.hidden = r.hidden;
  sizes.fc1_columns = r.fc1_columns;
  sizes.intermediate = r.intermediate;
  sizes.experts = r.experts;
  sizes.multiprocessors = r.multiprocessors;
  return sizes;
}

void set_elements(LiveNeed& need, const CoreElements& planned, const CoreSizes& sizes) {
  for (std::size_t i = 0; i < planned.size(); ++i)
    need.elements[i] = planned[i] < 0 ? -1 : elements_of(static_cast<CoreTensor>(i), sizes);
}

LiveNeed lean_need(const LiveRuntime& r, const CoreElements& planned, i64 tokens) {
  CoreSizes sizes = exact_sizes(r, tokens);
  sizes.lean_tokens = r.capacity;
  sizes.cache2 = sizes.rows * r.intermediate;
  size_lean_routes(sizes);
  LiveNeed need;
  need.block_size = lean_route_block(r.capacity);
  need.small_m = false;
  set_elements(need, planned, sizes);
  constexpr auto kRows = static_cast<std::size_t>(CoreTensor::expert_rows);
  if (planned[kRows] >= 0)
    need.elements[kRows] = lean_live_rows_elements(planned[kRows], sizes.rows, r.hidden);
  return need;
}

}  // namespace

LiveNeed live_need(const LiveRuntime& r, const CoreElements& planned, i64 tokens) {
  if (r.lean_executor) return lean_need(r, planned, tokens);
  LiveNeed need;
  need.block_size = r.block_size ? *r.block_size : select_block_size(tokens, r.top_k, r.experts);
  need.small_m = tokens <= r.small_m_tokens;
  const i64 b = need.block_size;
  const auto planned_of = [&](CoreTensor tensor) { return planned[static_cast<std::size_t>(tensor)]; };

  CoreSizes sizes = exact_sizes(r, tokens);
  sizes.cache2 = cache2_elements(tokens, r.top_k, r.intermediate, need.small_m);
  // The packer takes the bucket's buffers where they are large enough, else exactly as much as it has rows.
  sizes.slots = route_slots(pow2_ceil(tokens) * r.top_k, b, r.experts);
  sizes.blocks = ceil_div(sizes.slots, b);
  if (sizes.slots > planned_of(CoreTensor::packed_route_indices) ||
      sizes.blocks > planned_of(CoreTensor::block_expert_ids)) {
    sizes.slots = route_slots(sizes.rows, b, r.experts);
    sizes.blocks = ceil_div(sizes.slots, b);
  }
  i64 scratch_slots = sizes.slots;
  if (tokens <= r.direct_tokens) {
    // Every route owns a block, and nothing is packed.
    scratch_slots = direct_route_slots(tokens, r.top_k, b);
    sizes.slots = sizes.blocks = 0;
  }
  sizes.fc1_scratch = gemm_scratch_elements(r.fc1_columns, scratch_slots, b, r.multiprocessors);
  sizes.fc2_scratch = gemm_scratch_elements(r.hidden, scratch_slots, b, r.multiprocessors);
  set_elements(need, planned, sizes);
  return need;
}

std::vector<LiveRange> rising_ranges(const LiveRuntime& r) {
  // Every need of the lean executor rises with the routes.
  if (r.lean_executor) return {{1, r.capacity}};
  // The last token counts before something changes: a kernel's limit, a bucket, the selected block.
  std::vector<i64> ends{r.direct_tokens, r.small_m_tokens, r.capacity};
  for (i64 bucket = 1; bucket < r.capacity; bucket *= 2) ends.push_back(bucket);
  for (i64 b : kBlockSizes) ends.push_back(last_tokens_of_block(b, r.top_k, r.experts));
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
