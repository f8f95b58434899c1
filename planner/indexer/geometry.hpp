// Indexer geometry: pure constexpr text without standard headers, so that the host compiler and NVRTC read
// the same file. Formulas: docs/indexer.md.
#pragma once

#include "planner/core/integer.hpp"

namespace moeplan {

// Every arena field starts at a multiple of this, and so does the end of the arena.
constexpr i64 kIndexerAlignment = 1024;

// The page size every kernel is compiled for.
constexpr i64 kKernelPageSize = 64;

// One key: 128 quantised elements and one fp32 scale, seen as bytes.
constexpr i64 kKeyElements = 128;
constexpr i64 kKeyScaleBytes = 4;

// Keys are scored a supertile at a time; its width is a multiple of the step.
constexpr i64 kSupertileStep = 512;
constexpr i64 kDefaultSupertile = 32768;

constexpr i64 supertile_tokens(i64 requested) {
  return align_up(max_of(requested, kSupertileStep), kSupertileStep);
}
constexpr i64 clamp_supertile(i64 supertile, i64 capacity_tokens) {
  return min_of(supertile, max_of(kSupertileStep, align_up(capacity_tokens, kSupertileStep)));
}

// The scorer works on tiles of 32 query rows: logits are reserved for whole tiles.
constexpr i64 kTileRows = 32;
constexpr i64 tile_logits_elements(i64 rows, i64 width) { return align_up(rows, kTileRows) * width; }

constexpr i64 kHeadTile = 16;
constexpr i64 head_tiles(i64 heads) { return max_of(1, ceil_div(max_of(heads, 0), kHeadTile)); }

// Merge state of one query row: three 256-bin histograms and four scalars.
constexpr i64 kMergeStateWords = 3 * 256 + 4;

// MSA scores blocks of 128 keys.
constexpr i64 kMsaBlockTokens = 128;
constexpr i64 msa_blocks(i64 tokens) { return max_of(1, ceil_div(tokens, kMsaBlockTokens)); }

// The contiguous scorer's key tile, and the granule of its key buffer.
constexpr i64 kContiguousTileKeys = 256;
constexpr i64 kContiguousKeyStep = 64;

// Fused launch: thread groups that share one row, over pages of 64 keys. rows >= 1.
constexpr i64 fused_ctas_per_group(i64 width_tokens, i64 rows, i64 multiprocessors) {
  return max_of(1, min_of(ceil_div(max_of(width_tokens, 0), kKernelPageSize), multiprocessors / rows));
}

// Candidates from which the groups of a row merge cooperatively; fewer never do.
constexpr i64 kNeverMerge = i64{1} << 30;
constexpr i64 fused_merge_threshold(i64 ctas_per_group, i64 top_k, i64 heads) {
  i64 candidates = max_of(4096, 22000 + 117 * ctas_per_group - 13 * (top_k - 512));
  if (heads == 32 && top_k == 2048) candidates = max_of(candidates, 16384);
  return ctas_per_group * top_k > candidates ? candidates : kNeverMerge;
}

// Two-level fold: every supertile chunk is cut into slices, each slice yields top_k candidates a row.
constexpr i64 kFoldMinTokens = 32768;  // shorter contexts never fold
constexpr i64 kFoldSliceTokens = 16384;
constexpr i64 kFoldSlices = 32;  // aimed at, not kept: a slice never crosses a chunk

constexpr i64 fold_slice_tokens(i64 context_tokens, i64 page_size) {
  const i64 share = ceil_div(context_tokens, kFoldSlices);
  return share > kFoldSliceTokens ? align_up(share, page_size) : kFoldSliceTokens;
}
constexpr i64 fold_chunk_slices(i64 chunk_tokens, i64 slice_tokens) {
  return max_of(1, ceil_div(chunk_tokens, slice_tokens));
}

// Slices of all chunks: whole chunks of `chunk_pages`, then the rest. All arguments >= 1.
constexpr i64 fold_total_slices(i64 pages, i64 page_size, i64 chunk_pages) {
  const i64 slice = fold_slice_tokens(pages * page_size, page_size);
  const i64 whole = (pages - 1) / chunk_pages;
  const i64 last = pages - whole * chunk_pages;
  const i64 slices = fold_chunk_slices(last * page_size, slice);
  return whole == 0 ? slices : slices + whole * fold_chunk_slices(chunk_pages * page_size, slice);
}

// Slab bytes of one query row: a value and an index a candidate, and the row's length.
constexpr i64 fold_row_bytes(i64 slices, i64 top_k) { return slices * top_k * 8 + 4; }

}  // namespace moeplan
