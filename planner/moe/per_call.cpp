#include "planner/moe/per_call.hpp"

#include "planner/moe/geometry.hpp"

namespace moeplan {

PerCallBuffers size_per_call(const Contract& contract, const PerCallShape& shape) {
  const i64 experts = shape.route_experts.value_or(shape.experts);
  PerCallBuffers buffers{};
  buffers.routed_rows = shape.tokens * shape.top_k;
  buffers.fc1_columns = fc1_columns(shape.intermediate, shape.gated);
  buffers.block_size =
      shape.block_size ? *shape.block_size : select_block_size(shape.tokens, shape.top_k, experts);
  buffers.route_slots = route_slots(buffers.routed_rows, buffers.block_size, experts);
  buffers.route_blocks = ceil_div(buffers.route_slots, buffers.block_size);

  i64 scratch_slots = buffers.route_slots;
  if (contract.per_call_direct_slots && shape.gated && shape.tokens <= direct_token_cap(true))
    scratch_slots = max_of(scratch_slots, direct_route_slots(shape.tokens, shape.top_k, buffers.block_size));
  buffers.fc1_scratch =
      gemm_scratch_elements(buffers.fc1_columns, scratch_slots, buffers.block_size, shape.multiprocessors);
  buffers.fc2_scratch =
      gemm_scratch_elements(shape.hidden, scratch_slots, buffers.block_size, shape.multiprocessors);

  buffers.intermediate_cache13 = buffers.routed_rows * max_of(buffers.fc1_columns, shape.hidden);
  buffers.intermediate_cache2 = buffers.routed_rows * shape.intermediate;
  buffers.rotation_a = shape.full_rotation ? buffers.routed_rows * shape.hidden : 0;
  return buffers;
}

}  // namespace moeplan
