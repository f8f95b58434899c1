#include "planner/moe/expert_parallel.hpp"

#include <algorithm>

#include "planner/core/text.hpp"
#include "planner/moe/capacity.hpp"
#include "planner/moe/w4a16.hpp"

namespace moeplan {
namespace {

Status check_expert_parallel(const MoeRequest& request) {
  const MoeWeights& weights = request.weights;
  const i64 global_experts = request.capacity.global_experts.value_or(0);
  if (global_experts <= 0)
    return Error{ErrorCode::not_positive, "/capacity/global_experts",
                 concat("global_experts must be positive, got ", global_experts),
                 "state the model's expert count over all ranks"};
  if (weights.experts > global_experts)
    return Error{ErrorCode::too_many_local_experts, "/weights/experts",
                 concat("this rank's ", weights.experts, " experts exceed the model's ", global_experts),
                 "experts is this rank's share, global_experts the whole"};
  const auto& modes = weights.weight_quant_modes;
  const bool has_w4a16 =
      modes ? std::ranges::count(*modes, QuantMode::w4a16) > 0 : weights.quant_mode == QuantMode::w4a16;
  if (!has_w4a16)
    return Error{ErrorCode::mode_not_in_weight_plan, "/weights/quant_mode",
                 "an expert-parallel plan needs w4a16 weights", "prepare the weights for w4a16"};
  if (weights.io_dtype != DType::bfloat16)
    return Error{ErrorCode::unsupported_io_dtype, "/weights/io_dtype",
                 concat("expert-parallel W4A16 takes bfloat16 activations, got ", name_of(weights.io_dtype)),
                 "write bfloat16"};
  return check_swiglu(request);
}

}  // namespace

Result<MoeLayout> plan_expert_parallel(const MoeRequest& request) {
  const Contract& contract = *request.contract;
  const MoeWeights& weights = request.weights;
  const auto weight_plan = plan_weights(contract, weights);
  if (!weight_plan) return weight_plan.error();
  if (auto s = check_expert_parallel(request); !s) return s.error();

  const i64 max_tokens = request.capacity.tokens();
  const i64 top_k = request.capacity.routes_per_token();
  const i64 global_experts = *request.capacity.global_experts;
  CoreSizes sizes{};
  sizes.tokens = max_tokens;
  sizes.hidden = weights.hidden_size;
  sizes.intermediate = weights.intermediate_size;
  sizes.fc1_columns = fc1_columns(weights.intermediate_size, is_gated(weights.activation));
  sizes.experts = global_experts;
  sizes.multiprocessors = request.multiprocessors();
  // The route geometry takes the bucketed capacity, the caches the exact one.
  sizes.rows = pow2_ceil(max_tokens) * top_k;
  size_routes(sizes, unpinned_block_range(request.unpinned_blocks(), max_tokens, top_k, global_experts), {});
  sizes.rows = max_tokens * top_k;
  sizes.cache2 = sizes.rows * sizes.intermediate;

  MoeLayout layout;
  layout.contract = &contract;
  place_core_tensors(layout.arena, contract.expert_parallel_tensors, sizes, {}, DType::bfloat16);
  layout.total_bytes = layout.core_bytes = align_up(layout.arena.end, kMoeAlignment);
  layout.weight_layout = weight_plan->layout;
  layout.scale_format = weight_plan->scale_format;
  layout.w13_layout = weight_plan->w13_layout;
  layout.route_experts = global_experts;
  layout.bound_tokens = max_tokens;
  layout.route_slots = sizes.slots;
  return layout;
}

}  // namespace moeplan
