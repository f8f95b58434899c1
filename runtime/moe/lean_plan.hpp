// A plan of the lean contract, and its tensors wherever its arena lies.
#pragma once

#include "planner/moe/kernel_geometry.hpp"
#include "planner/moe/lean_geometry.hpp"
#include "runtime/moe/fused_plan.hpp"

namespace moeplan {

struct LeanPlan : FusedPlan {
  i64 bits = 0;
  Codebook codebook = Codebook::mcg;
  i64 slice_columns = 0;  // of FC2's output, whose routes' rows are in memory together
  bool is_decode() const { return is_lean_decode(capacity); }
};

// Null where the plan has no such tensor.
struct LeanTensors {
  float* output;              // [capacity][hidden]; of a prefill plan gate_up lies in it until FC2 writes it
  HalfBits* gate_up;          // [routes][gate, up][intermediate]
  HalfBits* activated;        // [routes][intermediate]; prefill
  HalfBits* expert_rows;      // [routes][slice_columns]
  int* packed_route_indices;  // prefill, as these four
  int* block_expert_ids;
  int* packed_route_count;
  int* expert_offsets;
  int* expert_counts;
  int* workspace;  // lean_workspace_words, zero before the first launch and behind every one
};

}  // namespace moeplan
