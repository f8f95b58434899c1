// W4A16 route and scratch geometry: pure constexpr text, compiled by the host compiler and, for the kernels,
// by NVRTC, so that a plan and the kernel running in it cannot disagree.
// Formulas: docs/contracts.md sections 2 to 5.
#pragma once

#include "planner/core/integer.hpp"

namespace moeplan {

// Rows of one route block. A block belongs to one expert.
constexpr int kBlockSizeCount = 5;
constexpr i64 kBlockSizes[kBlockSizeCount] = {8, 16, 32, 48, 64};

// Columns of a split-K partial tile, and how many of them one multiprocessor keeps alive.
constexpr i64 kScratchTileColumns = 256;
constexpr i64 kScratchTilesPerSm = 4;

// Index into kBlockSizes, or -1.
constexpr int block_size_index(i64 block_size) {
  for (int i = 0; i < kBlockSizeCount; ++i) {
    if (kBlockSizes[i] == block_size) return i;
  }
  return -1;
}

// The block size a launch of `tokens` rows uses when none is pinned: the smallest that an average expert
// fills to less than 90 %, else 64. Returns an index into kBlockSizes.
constexpr int select_block_index(i64 tokens, i64 top_k, i64 experts) {
  for (int i = 0; i + 1 < kBlockSizeCount; ++i) {
    if (10 * tokens * top_k < 9 * kBlockSizes[i] * experts) return i;
  }
  return kBlockSizeCount - 1;
}

constexpr i64 select_block_size(i64 tokens, i64 top_k, i64 experts) {
  return kBlockSizes[select_block_index(tokens, top_k, experts)];
}

// The most tokens that select a block size no larger than `block_size`, unless it is the largest of all.
constexpr i64 last_tokens_of_block(i64 block_size, i64 top_k, i64 experts) {
  return (9 * block_size * experts - 1) / (10 * top_k);
}

// c1: columns of the first GEMM; a gated activation has a gate and an up half.
constexpr i64 fc1_columns(i64 intermediate, bool gated) { return intermediate * (gated ? 2 : 1); }

// Rows after each expert's share is padded to whole blocks, in the worst routing.
constexpr i64 route_slots(i64 routed_rows, i64 block_size, i64 experts) {
  return routed_rows + min_of(routed_rows, experts) * (block_size - 1);
}

// fp32 elements the multiprocessors can have in flight for one GEMM, whatever the number of slots.
constexpr i64 gemm_scratch_cap(i64 block_size, i64 multiprocessors) {
  return multiprocessors * kScratchTilesPerSm * block_size * kScratchTileColumns;
}

// fp32 elements of one GEMM's split-K scratch.
constexpr i64 gemm_scratch_elements(i64 columns, i64 slots, i64 block_size, i64 multiprocessors) {
  i64 elements = min_of(columns * slots, gemm_scratch_cap(block_size, multiprocessors));
  // A block-8 kernel reserves a 16-row region per lock slot and uses every second row: both bounds double.
  if (block_size == 8) elements *= 2;
  return max_of(elements, 1);
}

// Direct top-k: with few tokens every route owns a whole block, so the kernel indexes this many slots.
constexpr i64 direct_route_slots(i64 tokens, i64 top_k, i64 block_size) {
  return tokens * top_k * block_size;
}

// The most tokens the direct top-k kernel takes.
constexpr i64 direct_token_cap(bool bfloat16_gated) { return bfloat16_gated ? 8 : 6; }

// The small-m kernel covers at most 8 tokens and at most 12 segments of 512 hidden elements.
constexpr i64 kSmallMTokens = 8;
constexpr bool small_m_hidden_fits(i64 hidden) {
  return hidden > 0 && hidden % 128 == 0 && ceil_div(hidden, 512) <= 12;
}

// Bytes of fp32 partials the small-m direct kernel stages in intermediate_cache2.
constexpr i64 small_m_scratch_bytes(i64 tokens, i64 top_k, i64 intermediate) {
  return tokens * top_k * ceil_div(intermediate / 2, 128) * 128 * 4;
}

// Elements of intermediate_cache2 for one token count; `small_m`: the small-m direct kernel takes it.
constexpr i64 cache2_elements(i64 tokens, i64 top_k, i64 intermediate, bool small_m) {
  const i64 rows_elements = tokens * top_k * intermediate;
  return small_m ? max_of(rows_elements, small_m_scratch_bytes(tokens, top_k, intermediate) / 2)
                 : rows_elements;
}

}  // namespace moeplan
