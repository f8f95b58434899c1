// What all launches of one plan have in common, whatever its weights, and the room that they take in it.
#pragma once

#include <functional>
#include <string_view>

#include "planner/core/result.hpp"
#include "planner/moe/layout.hpp"
#include "planner/moe/live_need.hpp"

namespace moeplan {

struct FusedPlan {
  i64 hidden = 0;
  i64 intermediate = 0;  // of this rank
  i64 experts = 0;       // of this rank's weights
  i64 top_k = 0;
  i64 capacity = 0;          // tokens
  bool is_bfloat16 = false;  // x; of packed plans the output and all between too. Else fp16
  i64 multiprocessors = 0;
  CoreElements planned{};
  LiveRuntime without_map{};  // launches that are given no expert map
  LiveRuntime with_map{};
  bool may_have_map = false;
  bool may_lack_map = false;

  const LiveRuntime& runtime(bool has_map) const { return has_map ? with_map : without_map; }
};

// Of a request and its layout whose kernels are not missing.
FusedPlan fused_plan(const MoeRequest& request, const MoeLayout& layout);

inline i64 element(const CoreElements& elements, CoreTensor tensor) {
  return elements[static_cast<std::size_t>(tensor)];
}

// Whether no tensor needs more elements than it has.
bool fits(const CoreElements& need, const CoreElements& room);

// Bytes of one element of a tensor, as kernels of ours have it.
i64 kernel_item_bytes(CoreTensor tensor);

// Of the tensor of that name; 0: `need` says nothing of it.
i64 need_bytes(const CoreElements& need, std::string_view tensor);

// What an executor checks before it launches: whether every tensor has the room that the launch's own kernels
// write. `room_bytes`: what the tensor of a name has. Error `scratch_too_small`: names the tensor, need and
// room.
Status check_room(const CoreElements& need, i64 tokens,
                  const std::function<i64(std::string_view)>& room_bytes);

}  // namespace moeplan
