// Shared memory and work of the indexer kernels: pure constexpr text, compiled by the host compiler and by
// NVRTC, so that the size a launch asks for and the offsets a kernel uses are one computation.
#pragma once

#include "planner/indexer/geometry.hpp"

namespace moeplan {

// A page as caches hold it: 64 keys, then their scales. In shared memory it lies the same way, the 16-byte
// granules of a key swizzled.
constexpr i64 kPageKeyBytes = kKernelPageSize * kKeyElements;
constexpr i64 kPageScaleBytes = kKernelPageSize * kKeyScaleBytes;
constexpr i64 kPageBytes = kPageKeyBytes + kPageScaleBytes;

// Numbers of keys that the kernels select, and numbers of heads that they score.
constexpr i64 kIndexerTopK[] = {512, 1024, 2048};
constexpr i64 kIndexerHeads[] = {16, 32, 64};

// Bins of a histogram, and words in which a block passes on sums.
constexpr i64 kHistogramBins = 1024;
constexpr i64 kBlockWords = 128;

// ---- The scorer: its warps stream parts of pages, each its own; the queries of the rows that read them lie
// in shared memory, or, of one row of few heads, in registers. ----

constexpr i64 kScoreThreads = 256;
constexpr i64 kScoreWarps = kScoreThreads / 32;

// Blocks of it that a multiprocessor is to hold: registers are handed out for so many.
constexpr i64 kScoreBlocksPerSm = 2;

// Steps of a warp whose keys are on their way or in use.
constexpr i64 kScoreStages = 2;

// Rows that share the keys that they read; a warp's step is so many tokens of a page.
struct ScoreTile {
  i64 heads;
  i64 tokens;
  i64 rows;
};

// One row of few heads is kept in registers by every warp.
constexpr i64 kWarpHeads = 32;
constexpr bool has_own_queries(const ScoreTile& tile) { return tile.rows == 1 && tile.heads <= kWarpHeads; }

// Else the heads of all rows lie in shared memory. Many tokens multiply faster, and few leave room for more
// rows.
struct SharedHeads {
  i64 tokens;
  i64 heads;
};
constexpr SharedHeads kSharedHeads[] = {{.tokens = 32, .heads = 128}, {.tokens = 16, .heads = 256}};
constexpr i64 kMostTileRows = 16;

// The tile for rows of one request: all of them share their keys where they fit. Longer requests, as prefills
// are, take several tiles, of many tokens.
constexpr ScoreTile score_tile(i64 heads, i64 rows_per_request) {
  if (rows_per_request == 1 && heads <= kWarpHeads) return {heads, 32, 1};
  for (const SharedHeads& shared : kSharedHeads) {
    if (rows_per_request * heads <= shared.heads) return {heads, shared.tokens, shared.heads / heads};
  }
  return {heads, kSharedHeads[0].tokens, kSharedHeads[0].heads / heads};
}

// What a fused kernel's block holds in place of keys and queries while it selects. The scorer asks for it
// too: one size for both, and as many blocks a multiprocessor.
constexpr i64 kFusedSelectBytes = 80 * 1024;

struct ScoreShared {
  i64 stage_bytes;  // of a warp's ring, of kScoreStages
  i64 queries;      // as operands, halves or e4m3 numbers
  i64 weights;      // a float a head; of one row for each warp
  i64 words;        // ints
  i64 bytes;
};
constexpr ScoreShared score_shared(const ScoreTile& tile) {
  ScoreShared s{};
  const bool is_own = has_own_queries(tile);
  const i64 heads = (is_own ? kScoreWarps : tile.rows) * tile.heads;
  s.stage_bytes = tile.tokens * (kKeyElements + kKeyScaleBytes);
  s.queries = kScoreWarps * kScoreStages * s.stage_bytes;
  s.weights = s.queries + (is_own ? 0 : heads * kKeyElements * 2);
  s.words = max_of(s.weights + heads * 4, kFusedSelectBytes);
  s.bytes = s.words + kBlockWords * 4;
  return s;
}

// How the blocks of a grid share pages: evenly, the first of them with one more, and none without. In 32
// bits, in which devices divide fast.
struct PageShares {
  int total;
  int blocks;

  constexpr PageShares(int pages, int grid_blocks)
      : total(pages), blocks(pages < grid_blocks ? pages : grid_blocks) {}
  constexpr int begin(int block) const {
    const int larger = total % blocks;
    return block * (total / blocks) + (block < larger ? block : larger);
  }
  // Whose share a page is in.
  constexpr int block_of(int page) const {
    const int each = total / blocks, larger = total % blocks;
    const int in_larger = larger * (each + 1);
    return page < in_larger ? page / (each + 1) : larger + (page - in_larger) / each;
  }
};

// ---- The fused kernel: the scorer's blocks select from what they score together. ----

constexpr i64 kFusedRows = 16;         // of a call, at most: a block knows all of its rows
constexpr i64 kFusedBins = 2048;       // of a row's histogram
constexpr i64 kFusedCandidates = 512;  // logits in one bin that are ranked one by one
constexpr i64 kFusedFlags = 4;         // of rounds by turns: one is cleared two rounds ahead

// What the blocks share, behind the logits. The part up to `above` is zero at the start.
struct FusedScratch {
  i64 barrier;     // an int: how often blocks have arrived
  i64 flags;       // kFusedFlags ints: whether a row is open behind a round
  i64 cursors;     // an int a row: how many candidates are listed
  i64 histograms;  // [2, rows, kFusedBins] ints
  i64 above;       // [rows, blocks] ints: entries of a block that are selected for sure
  i64 candidates;  // [rows, kFusedCandidates] ranks
  i64 bytes;
};
constexpr FusedScratch fused_scratch(i64 rows, i64 blocks) {
  FusedScratch s{};
  s.barrier = 0;
  s.flags = 16;
  s.cursors = s.flags + kFusedFlags * 4;
  s.histograms = align_up(s.cursors + rows * 4, 16);
  s.above = s.histograms + 2 * rows * kFusedBins * 4;
  s.candidates = align_up(s.above + rows * blocks * 4, 16);
  s.bytes = s.candidates + rows * kFusedCandidates * 8;
  return s;
}

constexpr i64 kClearThreads = 256;

// A slot: the top_k best candidates of a part of a row, in ascending order. Logits in one array, indices in
// another.
constexpr i64 slot_bytes(i64 top_k) { return top_k * 8; }

// ---- The selector: a block a row, or a slice of one. ----

constexpr i64 kSelectThreads = 1024;
constexpr i64 kSelectCandidates = 5120;  // that it holds at a time

struct SelectShared {
  i64 values;
  i64 entries;
  i64 histogram;
  i64 words;
  i64 bytes;
};
constexpr SelectShared select_shared() {
  SelectShared s{};
  s.values = 0;
  s.entries = s.values + kSelectCandidates * 4;
  s.histogram = s.entries + kSelectCandidates * 4;
  s.words = s.histogram + kHistogramBins * 4;
  s.bytes = s.words + kBlockWords * 4;
  return s;
}

// ---- The gathering of a prefill's keys: a block a page. ----

constexpr i64 kGatherThreads = 128;

}  // namespace moeplan
