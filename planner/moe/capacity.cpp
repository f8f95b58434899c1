#include "planner/moe/capacity.hpp"

#include "planner/core/text.hpp"
#include "planner/moe/geometry.hpp"

namespace moeplan {

Status check_swiglu(const MoeRequest& request) {
  const MoeCapacity& capacity = request.capacity;
  const Activation activation = request.weights.activation;
  const bool scalable = activation == Activation::swigluoai_uninterleave;
  if (capacity.swiglu_limit) {
    if (!is_gated(activation) || activation == Activation::situ)
      return Error{ErrorCode::swiglu_limit, "/capacity/swiglu_limit",
                   concat("activation ", name_of(activation), " has no swiglu limit"), "drop swiglu_limit"};
    if (*capacity.swiglu_limit != SwigluLimit::positive)
      return Error{ErrorCode::swiglu_limit, "/capacity/swiglu_limit",
                   "swiglu_limit must be positive and finite", ""};
  }
  const auto check_scale = [&](std::string_view field, const std::optional<SwigluScale>& value) -> Status {
    if (value.value_or(SwigluScale::neutral) == SwigluScale::neutral) return Ok{};
    if (scalable && *value == SwigluScale::other_finite) return Ok{};
    return Error{ErrorCode::swiglu_scale, concat("/capacity/", field),
                 scalable ? concat(field, " must be finite")
                          : concat(field, " is configurable for swigluoai_uninterleave only"),
                 concat("drop ", field)};
  };
  if (auto s = check_scale("swiglu_alpha", capacity.swiglu_alpha); !s) return s;
  return check_scale("swiglu_beta", capacity.swiglu_beta);
}

Status check_lean(const MoeRequest& request) {
  const std::string_view id = request.contract->id;
  const MoeCapacity& capacity = request.capacity;
  constexpr std::string_view kOthers = "moeplan help contracts lists the others";
  if (request.kind != MoeKind::tensor_parallel)
    return Error{ErrorCode::field_not_in_contract, "/kind",
                 concat("contract ", id, " plans tensor-parallel ranks alone"),
                 concat("plan moe_tp, or take the contract of an engine: ", kOthers)};
  if (capacity.swiglu_limit)
    return Error{ErrorCode::swiglu_limit, "/capacity/swiglu_limit",
                 concat("contract ", id, " has silu without a limit alone"),
                 concat("drop swiglu_limit, or take the contract of an engine: ", kOthers)};
  const std::pair<std::string_view, bool> given[] = {
      {"apply_router_weight_on_input", capacity.apply_router_weight_on_input.value_or(false)},
      {"core_token_counts", capacity.core_token_counts.has_value()},
  };
  for (const auto& [field, is_given] : given) {
    if (is_given)
      return Error{ErrorCode::field_not_in_contract, concat("/capacity/", field),
                   concat("contract ", id, " has no ", field), concat("drop ", field)};
  }
  return Ok{};
}

Status check_block_size(const MoeCapacity& capacity) {
  if (!capacity.block_size_m || block_size_index(*capacity.block_size_m) >= 0) return Ok{};
  return Error{
      ErrorCode::block_size, "/capacity/block_size_m",
      concat("block_size_m must be one of ", join(kBlockSizes, ", "), ", got ", *capacity.block_size_m),
      "8 suits decode plans, 64 prefill plans"};
}

}  // namespace moeplan
