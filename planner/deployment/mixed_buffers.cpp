#include "planner/deployment/mixed_buffers.hpp"

#include "planner/moe/geometry.hpp"

namespace moeplan {

std::vector<Buffer> mixed_state(const MixedShape& s, i64 capacity) {
  constexpr i64 kBlock = 8;
  const i64 routed = capacity * s.top_k;
  const i64 slots = route_slots(routed, kBlock, s.experts);
  const auto scratch = [&](i64 columns) {
    return shape(gemm_scratch_elements(columns, slots, kBlock, s.multiprocessors));
  };
  // The second projection's output reuses rotation_gate.
  return {
      buffer("rotation_gate", "float16", 2, shape(routed, s.hidden), "rc*H"),
      buffer("rotation_up", "float16", 2, shape(routed, s.hidden), "rc*H"),
      buffer("fc1", "float16", 2, shape(routed, 2 * s.intermediate), "rc*2*I"),
      buffer("activated", "float16", 2, shape(routed, s.intermediate), "rc*I"),
      buffer("output", "float32", 4, shape(capacity, s.hidden), "cap*H"),
      buffer("packed_route_indices", "int32", 4, shape(slots), "S"),
      buffer("block_expert_ids", "int32", 4, shape(ceil_div(slots, kBlock)), "cd(S,8)"),
      buffer("packed_route_count", "int32", 4, shape(1), "1"),
      buffer("expert_offsets", "int32", 4, shape(s.experts + 1), "E+1"),
      buffer("expert_counts", "int32", 4, shape(s.experts), "E"),
      buffer("fc1_scratch", "float32", 4, scratch(2 * s.intermediate), "scratch(2*I,S,8)"),
      buffer("fc2_scratch", "float32", 4, scratch(s.hidden), "scratch(H,S,8)"),
      buffer("workspace", "int32", 4, shape(4 * s.multiprocessors + 2), "4*sms+2"),
  };
}

}  // namespace moeplan
