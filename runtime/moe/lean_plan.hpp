// A plan of the lean contract, and its tensors wherever its arena lies.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "kernels/moe/arguments.hpp"
#include "planner/moe/lean_geometry.hpp"
#include "runtime/moe/trellis_layer_plan.hpp"

namespace moeplan {

struct LeanPlan : TrellisLayerPlan {
  i64 slice_columns = 0;  // of FC2's output, of a full launch, whose routes' rows are in memory together
  bool is_decode() const { return is_lean_decode(capacity); }
};

// Null where the plan has no such tensor.
struct LeanTensors {
  float* output;              // [capacity][hidden]
  HalfBits* gate_up;          // [routes][gate, up][intermediate]: lies in output until FC2's rows are summed
  HalfBits* activated;        // [routes][intermediate]
  HalfBits* expert_rows;      // [routes][columns of a slice]
  int* packed_route_indices;  // of prefill plans, as all that follow
  int* block_expert_ids;
  int* packed_route_count;
  int* expert_offsets;
  int* expert_counts;
  int* tickets;  // kLeanTickets words, zero before the first launch and behind every one
};
// `address`: where the tensor of a name starts; null: the plan has none.
LeanTensors lean_tensors(const std::function<std::byte*(std::string_view)>& address);
// In an arena laid out as planned.
LeanTensors lean_tensors(const MoeLayout& layout, std::byte* arena);

}  // namespace moeplan
