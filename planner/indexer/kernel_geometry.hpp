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

// ---- The scorer: its warps share pages of keys and the rows that read them. ----

constexpr i64 kScoreThreads = 128;
constexpr i64 kScoreWarps = kScoreThreads / 32;

// Blocks of it that a multiprocessor is to hold: registers are handed out for so many.
constexpr i64 kScoreBlocksPerSm = 3;

// Heads that a warp keeps in registers; rows of more heads are scored by several warps.
constexpr i64 kWarpHeads = 32;

// `rows` share their keys.
struct ScoreTile {
  i64 heads;
  i64 rows;
};

constexpr i64 score_units(const ScoreTile& tile) { return tile.rows * ceil_div(tile.heads, kWarpHeads); }

// Rows of a tile; those that have more units than a block has warps are none.
constexpr i64 kScoreRows[] = {1, 2, 4};
constexpr bool is_score_tile(const ScoreTile& tile) { return score_units(tile) <= kScoreWarps; }

// Pages of a step, and steps whose pages are on their way or in use.
constexpr i64 kStepPages = 2;
constexpr i64 kScoreStages = 3;

struct ScoreShared {
  i64 stages;  // pages
  i64 scores;  // of the last two steps: a float a page, unit and key
  i64 words;   // ints
  i64 bytes;
};
constexpr ScoreShared score_shared(const ScoreTile& tile) {
  ScoreShared s{};
  s.stages = 0;
  s.scores = s.stages + kScoreStages * kStepPages * kPageBytes;
  s.words = s.scores + 2 * kStepPages * score_units(tile) * kKernelPageSize * 4;
  s.bytes = s.words + kBlockWords * 4;
  return s;
}

// A slot: the top_k best candidates of a part of a row, in ascending order. Logits in one array, indices in
// another.
constexpr i64 slot_bytes(i64 top_k) { return top_k * 8; }

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
};

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
