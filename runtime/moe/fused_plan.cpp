#include "runtime/moe/fused_plan.hpp"

#include "planner/core/text.hpp"
#include "planner/moe/w4a16.hpp"

namespace moeplan {

FusedPlan fused_plan(const MoeRequest& request, const MoeLayout& layout) {
  return {.hidden = request.weights.hidden_size,
          .intermediate = request.weights.intermediate_size,
          .experts = request.weights.experts,
          .top_k = request.capacity.routes_per_token(),
          .capacity = request.capacity.tokens(),
          .is_bfloat16 = request.weights.io_dtype == DType::bfloat16,
          .multiprocessors = request.multiprocessors(),
          .planned = planned_elements(layout),
          .without_map = live_runtime(request, layout, ExpertMap::absent),
          .with_map = live_runtime(request, layout, ExpertMap::present),
          .may_have_map = may_have(request, ExpertMap::present),
          .may_lack_map = may_have(request, ExpertMap::absent)};
}

bool fits(const CoreElements& need, const CoreElements& room) {
  for (std::size_t i = 0; i < need.size(); ++i)
    if (need[i] > max_of(room[i], 0)) return false;
  return true;
}

i64 kernel_item_bytes(CoreTensor tensor) {
  switch (tensor) {
    case CoreTensor::intermediate_cache13:
    case CoreTensor::intermediate_cache2:
    case CoreTensor::rotation_a_gate:
    case CoreTensor::rotation_a_up:
    case CoreTensor::expert_rows:
      return 2;
    default:
      return 4;
  }
}

i64 need_bytes(const CoreElements& need, std::string_view tensor) {
  for (int i = 0; i < kCoreTensorCount; ++i) {
    const auto core = static_cast<CoreTensor>(i);
    if (tensor == name_of(core)) return max_of(element(need, core), 0) * kernel_item_bytes(core);
  }
  return 0;
}

Status check_room(const CoreElements& need, i64 tokens,
                  const std::function<i64(std::string_view)>& room_bytes) {
  for (int i = 0; i < kCoreTensorCount; ++i) {
    const std::string_view name = name_of(static_cast<CoreTensor>(i));
    const i64 needed = need_bytes(need, name);
    if (needed == 0 || needed <= room_bytes(name)) continue;
    return Error{
        ErrorCode::scratch_too_small, "",
        concat(name, ": a launch of ", grouped(tokens), tokens == 1 ? " token" : " tokens", " writes ",
               grouped(needed), " bytes, and there is room for ", grouped(room_bytes(name))),
        "a plan for as many tokens"};
  }
  return Ok{};
}

}  // namespace moeplan
