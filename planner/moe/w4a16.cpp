#include "planner/moe/w4a16.hpp"

#include <algorithm>

#include "planner/moe/lean_geometry.hpp"

namespace moeplan {
namespace {

using Rule = TensorRule<CoreSizes>;
using Sizes = const CoreSizes&;

// Indexed by CoreTensor.
constexpr Rule kCoreRules[] = {
    {.name = "intermediate_cache13",
     .type = ElementType::cache,
     .shape = [](Sizes s) { return shape(s.rows * max_of(s.fc1_columns, s.hidden)); },
     .formula = "N*max(c1,k)"},
    {.name = "intermediate_cache2",
     .type = ElementType::cache,
     .shape = [](Sizes s) { return shape(s.cache2); },
     .formula = "N*n"},
    {.name = "fc1_c_tmp",
     .type = ElementType::float32,
     .shape = [](Sizes s) { return shape(s.fc1_scratch); },
     .formula = "max over blocks of min(c1*slots, sms*4*b*256), twice that for b=8",
     .bound = [](Sizes s) { return s.fc1_bound; }},
    {.name = "fc2_c_tmp",
     .type = ElementType::float32,
     .shape = [](Sizes s) { return shape(s.fc2_scratch); },
     .formula = "max over blocks of min(k*slots, sms*4*b*256), twice that for b=8",
     .bound = [](Sizes s) { return s.fc2_bound; }},
    {.name = "packed_route_indices",
     .type = ElementType::int32,
     .shape = [](Sizes s) { return shape(s.slots); },
     .formula = "slots = N+min(N,R)*(b-1)"},
    {.name = "block_expert_ids",
     .type = ElementType::int32,
     .shape = [](Sizes s) { return shape(s.blocks); },
     .formula = "ceil(slots/b)"},
    {.name = "packed_route_count",
     .type = ElementType::int32,
     .shape = [](Sizes) { return shape(1); },
     .formula = "1"},
    {.name = "expert_offsets",
     .type = ElementType::int32,
     .shape = [](Sizes s) { return shape(s.experts + 1); },
     .formula = "R+1"},
    {.name = "expert_counts",
     .type = ElementType::int32,
     .shape = [](Sizes s) { return shape(s.experts); },
     .formula = "R"},
    {.name = "full_rotation_output",
     .type = ElementType::float32,
     .shape = [](Sizes s) { return shape(s.tokens, s.hidden); },
     .formula = "tokens*k"},
    {.name = "rotation_a_gate",
     .type = ElementType::float16,
     .shape = [](Sizes s) { return shape(s.rows, s.hidden); },
     .formula = "N*k"},
    {.name = "rotation_a_up",
     .type = ElementType::float16,
     .shape = [](Sizes s) { return shape(s.rows, s.hidden); },
     .formula = "N*k"},
    {.name = "expert_rows",
     .type = ElementType::float16,
     .shape = [](Sizes s) { return shape(s.rows, s.slice_columns); },
     .formula = "N*slice"},
    {.name = "kernel_workspace",
     .type = ElementType::int32,
     .shape = [](Sizes s) { return shape(4 * s.multiprocessors + 2); },
     .formula = "4*sms+2"},
};

// What the lean executor sizes otherwise.
struct LeanRule {
  CoreTensor tensor;
  Rule rule;
};
constexpr LeanRule kLeanRules[] = {
    {CoreTensor::full_rotation_output,
     {.name = "full_rotation_output",
      .type = ElementType::float32,
      .shape = [](Sizes s) { return shape(lean_output_elements(s.tokens, s.rows, s.hidden, s.fc1_columns)); },
      .formula = "max(tokens*k, cd(N*c1,2))"}},
    {CoreTensor::kernel_workspace,
     {.name = "kernel_workspace",
      .type = ElementType::int32,
      .shape = [](Sizes) { return shape(kLeanTickets); },
      .formula = "4"}},
};

const Rule& rule_of(CoreTensor tensor, bool is_lean) {
  if (is_lean) {
    for (const LeanRule& lean : kLeanRules) {
      if (lean.tensor == tensor) return lean.rule;
    }
  }
  return kCoreRules[static_cast<int>(tensor)];
}

bool is_present(Presence when, CorePresence presence) {
  switch (when) {
    case Presence::always:
      return true;
    case Presence::trellis:
      return presence.trellis;
    case Presence::trellis_uncoupled:
      return presence.trellis && !presence.coupled_hadamard;
    case Presence::lean_prefill:
      return !is_lean_decode(presence.lean_tokens);
  }
  return false;
}

}  // namespace

// Direct top-k gives every route a block of its own.
void direct_slots_of(const W4a16Plan& plan, i64 tokens, i64 (&slots)[kBlockSizeCount]) {
  if (!plan.request->contract->direct_top_k_scratch || plan.weights.layout != WeightLayout::packed) return;
  const i64 most = min_of(tokens, direct_token_cap(plan.request->weights.is_bfloat16_gated()));
  for (i64 m = 1; m <= most; ++m) {
    const int index = plan.block_size ? block_size_index(*plan.block_size)
                                      : select_block_index(m, plan.top_k, plan.experts);
    slots[index] = max_of(slots[index], direct_route_slots(m, plan.top_k, kBlockSizes[index]));
  }
}

BlockRange block_range_of(const W4a16Plan& plan, i64 tokens) {
  if (plan.block_size) {
    const int index = block_size_index(*plan.block_size);
    return {index, index};
  }
  return unpinned_block_range(plan.request->unpinned_blocks(), tokens, plan.top_k, plan.experts);
}

namespace {

i64 route_experts(RouteExperts rule, i64 weights_experts, i64 router_experts) {
  switch (rule) {
    case RouteExperts::router:
      return router_experts;
    case RouteExperts::weights:
      return weights_experts;
    case RouteExperts::larger_of_both:
      return max_of(weights_experts, router_experts);
  }
  return weights_experts;
}

Bound bound_of(i64 columns, i64 slots, i64 block_size, i64 multiprocessors) {
  return columns * slots >= gemm_scratch_cap(block_size, multiprocessors) ? Bound::sm_cap : Bound::columns;
}

}  // namespace

static_assert(std::size(kCoreRules) == static_cast<int>(CoreTensor::kernel_workspace) + 1);
std::string_view name_of(CoreTensor tensor) { return kCoreRules[static_cast<int>(tensor)].name; }

i64 elements_of(CoreTensor tensor, const CoreSizes& sizes) {
  return rule_of(tensor, sizes.lean_tokens > 0).shape(sizes).elements();
}

BlockRange reachable_blocks(i64 tokens, i64 top_k, i64 experts) {
  return {select_block_index(1, top_k, experts), select_block_index(tokens, top_k, experts)};
}

BlockRange unpinned_block_range(UnpinnedBlocks rule, i64 tokens, i64 top_k, i64 experts) {
  const BlockRange reachable = reachable_blocks(tokens, top_k, experts);
  if (rule == UnpinnedBlocks::all) return kAllBlocks;
  if (rule == UnpinnedBlocks::last) return {reachable.last, reachable.last};
  return reachable;
}

void place_core_tensors(ArenaLayout& arena, std::span<const CoreTensorEntry> entries, const CoreSizes& sizes,
                        CorePresence presence, DType cache_dtype) {
  const ElementTypes types{.cache = cache_dtype, .io = cache_dtype, .logits = cache_dtype};
  for (const CoreTensorEntry& entry : entries) {
    if (!is_present(entry.present, presence)) continue;
    place(arena, rule_of(entry.tensor, presence.lean_tokens > 0), sizes, types, Region::core, kMoeAlignment);
  }
}

void size_routes(CoreSizes& sizes, BlockRange range, const i64 (&direct_slots)[kBlockSizeCount]) {
  sizes.slots = sizes.blocks = sizes.fc1_scratch = sizes.fc2_scratch = 1;
  sizes.fc1_bound = sizes.fc2_bound = Bound::columns;
  const auto raise = [&](i64& scratch, Bound& bound, i64 columns, i64 slots, i64 block_size) {
    const i64 elements = gemm_scratch_elements(columns, slots, block_size, sizes.multiprocessors);
    if (elements <= scratch) return;
    scratch = elements;
    bound = bound_of(columns, slots, block_size, sizes.multiprocessors);
  };
  // The maxima may come from different block sizes: block 8 doubles its scratch, the smallest has most
  // blocks.
  for (int i = range.first; i <= range.last; ++i) {
    const i64 block_size = kBlockSizes[i];
    const i64 slots = route_slots(sizes.rows, block_size, sizes.experts);
    const i64 scratch_slots = max_of(slots, direct_slots[i]);
    sizes.slots = max_of(sizes.slots, slots);
    sizes.blocks = max_of(sizes.blocks, ceil_div(slots, block_size));
    raise(sizes.fc1_scratch, sizes.fc1_bound, sizes.fc1_columns, scratch_slots, block_size);
    raise(sizes.fc2_scratch, sizes.fc2_bound, sizes.hidden, scratch_slots, block_size);
  }
}

void size_lean_routes(CoreSizes& sizes) {
  sizes.slots = sizes.blocks = 0;
  if (is_lean_decode(sizes.lean_tokens)) return;
  sizes.slots = route_slots(sizes.rows, kLeanBlock, sizes.experts);
  sizes.blocks = ceil_div(sizes.slots, kLeanBlock);
}

bool small_m_direct_applies(const SmallMShape& s) {
  if (s.layout != WeightLayout::native || s.io_dtype != DType::bfloat16) return false;
  if (s.apply_router_weight_on_input) return false;
  if (s.tokens < 1 || s.tokens > kSmallMTokens || s.top_k < 1 || s.top_k > 32 || s.experts < 1) return false;
  if (!small_m_hidden_fits(s.hidden) || s.intermediate <= 0 || s.intermediate % 16 != 0) return false;
  if (s.scale_format == ScaleFormat::e8m0_k32) {
    const bool one_segment = ceil_div(s.intermediate / 2, 128) == 1;
    if (s.intermediate % 32 != 0 || !(one_segment || s.intermediate % 256 == 0)) return false;
  }
  const bool takes_limit =
      s.activation == Activation::silu || s.activation == Activation::swigluoai_uninterleave;
  return takes_limit || !s.has_swiglu_limit;
}

SmallMShape small_m_shape(const MoeRequest& request, WeightLayout layout, ScaleFormat scale_format,
                          i64 experts, i64 tokens) {
  const MoeWeights& weights = request.weights;
  return {.tokens = tokens,
          .top_k = request.capacity.routes_per_token(),
          .hidden = weights.hidden_size,
          .intermediate = weights.intermediate_size,
          .experts = experts,
          .activation = weights.activation,
          .io_dtype = weights.io_dtype,
          .layout = layout,
          .scale_format = scale_format,
          .apply_router_weight_on_input = request.capacity.apply_router_weight_on_input.value_or(false),
          .has_swiglu_limit = request.capacity.swiglu_limit.has_value()};
}

SmallMShape small_m_shape(const W4a16Plan& plan, i64 tokens) {
  return small_m_shape(*plan.request, *plan.weights.layout, plan.weights.scale_format, plan.experts, tokens);
}

W4a16Plan prepare_w4a16(const MoeRequest& request, const WeightPlan& weights, std::span<const i64> counts) {
  const Contract& contract = *request.contract;
  const MoeCapacity& capacity = request.capacity;
  const i64 weights_experts = request.weights.experts;
  const i64 requested = max_of(capacity.route_experts.value_or(0), 0);
  const i64 router_experts = requested > 0 ? requested : weights_experts;

  W4a16Plan plan{.request = &request,
                 .weights = weights,
                 .top_k = capacity.routes_per_token(),
                 .experts = route_experts(
                     weights.trellis ? contract.trellis_route_experts : contract.other_route_experts,
                     weights_experts, router_experts),
                 .multiprocessors = request.multiprocessors(),
                 .block_size = request.pinned_block()};
  if (contract.lean_executor && !is_lean_decode(capacity.tokens())) plan.block_size = kLeanBlock;
  // The public query resolves an unpinned Trellis plan with the router's expert count, not with R.
  if (!plan.block_size && weights.trellis && contract.trellis_unpinned_is_one)
    plan.block_size = select_block_size(std::ranges::max(counts), plan.top_k, router_experts);
  return plan;
}

CoreSizes place_w4a16_core(ArenaLayout& arena, const W4a16Plan& plan, i64 tokens) {
  const MoeRequest& request = *plan.request;
  const MoeWeights& weights = request.weights;
  CoreSizes sizes{};
  sizes.rows = max_of(tokens * plan.top_k, 1);
  sizes.tokens = max_of(sizes.rows / plan.top_k, 1);
  sizes.hidden = weights.hidden_size;
  sizes.intermediate = weights.intermediate_size;
  sizes.fc1_columns = fc1_columns(weights.intermediate_size, is_gated(weights.activation));
  sizes.experts = plan.experts;
  sizes.multiprocessors = plan.multiprocessors;
  if (request.contract->lean_executor) {
    sizes.lean_tokens = request.capacity.tokens();
    sizes.cache2 = sizes.rows * sizes.intermediate;
    sizes.slice_columns = lean_slice_columns(sizes.lean_tokens, sizes.rows, sizes.hidden);
    size_lean_routes(sizes);
  } else {
    sizes.cache2 = cache2_elements(sizes.tokens, plan.top_k, sizes.intermediate,
                                   small_m_direct_applies(small_m_shape(plan, sizes.tokens)));
    i64 direct_slots[kBlockSizeCount] = {};
    direct_slots_of(plan, sizes.tokens, direct_slots);
    size_routes(sizes, block_range_of(plan, ceil_div(sizes.rows, plan.top_k)), direct_slots);
  }

  const DType cache = plan.weights.trellis ? DType::float16 : weights.io_dtype;
  place_core_tensors(arena, request.contract->core_tensors, sizes,
                     {plan.weights.trellis, plan.weights.coupled_hadamard, sizes.lean_tokens}, cache);
  return sizes;
}

}  // namespace moeplan
