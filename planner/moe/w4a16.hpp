// The W4A16 core: its tensors for one token count, and the pieces shared with the expert-parallel plan.
#pragma once

#include "planner/core/arena_layout.hpp"
#include "planner/moe/geometry.hpp"
#include "planner/moe/layout.hpp"
#include "planner/moe/weight_plan.hpp"

namespace moeplan {

// Every W4A16 tensor starts at a multiple of this.
constexpr i64 kMoeAlignment = 16;

// The name a layout gives the tensor.
std::string_view name_of(CoreTensor tensor);

// The block sizes a plan reserves for: kBlockSizes[first..last], an interval.
struct BlockRange {
  int first;
  int last;
};
constexpr BlockRange kAllBlocks{0, kBlockSizeCount - 1};

// From the size one token selects to the size `tokens` select.
BlockRange reachable_blocks(i64 tokens, i64 top_k, i64 experts);

// What an unpinned plan of `tokens` reserves for under `rule`.
BlockRange unpinned_block_range(UnpinnedBlocks rule, i64 tokens, i64 top_k, i64 experts);

// Element counts of the core's tensors. rows: token-expert pairs.
struct CoreSizes {
  i64 rows;
  i64 tokens;
  i64 hidden;        // k
  i64 fc1_columns;   // n, or 2n for a gated activation
  i64 intermediate;  // n
  i64 experts;       // R
  i64 multiprocessors;
  i64 cache2;         // elements of intermediate_cache2
  i64 lean_tokens;    // the capacity of a lean plan; 0: an engine's
  i64 slice_columns;  // of a lean plan
  i64 slots;          // the most over the block range
  i64 blocks;         // likewise, on its own
  i64 fc1_scratch;
  i64 fc2_scratch;
  Bound fc1_bound;
  Bound fc2_bound;
};

// The elements of one tensor.
i64 elements_of(CoreTensor tensor, const CoreSizes& sizes);

// The core tensors that `entries` list, placed behind what `arena` already holds.
struct CorePresence {
  bool trellis;
  bool coupled_hadamard;
  i64 lean_tokens = 0;  // of CoreSizes
};
void place_core_tensors(ArenaLayout& arena, std::span<const CoreTensorEntry> entries, const CoreSizes& sizes,
                        CorePresence presence, DType cache_dtype);

// Slots, blocks and split-K scratch: the maximum of each over `range`, independently. `direct_slots`, by
// index into kBlockSizes, may raise the slots that the scratch covers but not the route tensors.
void size_routes(CoreSizes& sizes, BlockRange range, const i64 (&direct_slots)[kBlockSizeCount]);

// Slots and blocks of a lean plan: exact routes in blocks of kLeanBlock. None of a decode plan, which packs
// no routes in memory.
void size_lean_routes(CoreSizes& sizes);

// The small-m direct kernel's conditions on one launch of m tokens.
struct SmallMShape {
  i64 tokens;
  i64 top_k;
  i64 hidden;
  i64 intermediate;
  i64 experts;
  Activation activation;
  DType io_dtype;
  WeightLayout layout;
  ScaleFormat scale_format;
  bool apply_router_weight_on_input;
  bool has_swiglu_limit;
};
bool small_m_direct_applies(const SmallMShape& shape);
SmallMShape small_m_shape(const MoeRequest& request, WeightLayout layout, ScaleFormat scale_format,
                          i64 experts, i64 tokens);

// What the per-count sizes depend on, decided once a request.
struct W4a16Plan {
  const MoeRequest* request;
  WeightPlan weights;
  i64 top_k;
  i64 experts;  // R
  i64 multiprocessors;
  std::optional<i64> block_size;  // pinned or resolved, or the lean executor's: none of kBlockSizes then
};

// The one block size that is fixed for the plan, if any, and R. Call after the request was checked.
W4a16Plan prepare_w4a16(const MoeRequest& request, const WeightPlan& weights, std::span<const i64> counts);

// One launch of `tokens` of the plan, as the small-m direct kernel sees it.
SmallMShape small_m_shape(const W4a16Plan& plan, i64 tokens);

// The block sizes that the plan reserves for at `tokens`.
BlockRange block_range_of(const W4a16Plan& plan, i64 tokens);

// The slots that direct top-k launches of up to `tokens` index, by index into kBlockSizes; raises `slots`.
void direct_slots_of(const W4a16Plan& plan, i64 tokens, i64 (&slots)[kBlockSizeCount]);

// The core of `plan` at `tokens`, placed behind what `arena` holds. Returns its sizes.
CoreSizes place_w4a16_core(ArenaLayout& arena, const W4a16Plan& plan, i64 tokens);

}  // namespace moeplan
