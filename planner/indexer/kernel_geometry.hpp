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
constexpr i64 kMostTopK = 2048;
constexpr i64 kIndexerHeads[] = {16, 32, 64};

// Words in which a block passes on sums.
constexpr i64 kBlockWords = 128;

// ---- The scorer: its warps stream parts of pages, each its own; the queries of the rows that read them lie
// in shared memory, or, of one row of few heads, in registers. ----

// Steps of a warp whose keys are on their way or in use.
constexpr i64 kScoreStages = 2;

// Rows that share the keys that they read; a warp's step is so many tokens of a page. Warps of a block.
struct ScoreTile {
  i64 heads;
  i64 tokens;
  i64 rows;
  i64 warps;
};

// One row of few heads is kept in registers by every warp.
constexpr i64 kWarpHeads = 32;
constexpr bool has_own_queries(const ScoreTile& tile) { return tile.rows == 1 && tile.heads <= kWarpHeads; }

// Else the heads of all rows lie in shared memory. Many tokens multiply faster, and few leave room for more
// rows. Warps of small blocks wait for fewer others, but every block has all heads.
struct SharedHeads {
  i64 tokens;
  i64 heads;
  i64 warps;
};
constexpr SharedHeads kSharedHeads[] = {{.tokens = 32, .heads = 128, .warps = 4},
                                        {.tokens = 32, .heads = 192, .warps = 6},
                                        {.tokens = 16, .heads = 256, .warps = 8}};
constexpr i64 kMostTileRows = 16;

// The tile for rows of one request: all of them share their keys where they fit. Longer requests, as prefills
// are, take several tiles, of many tokens, in blocks that fill a multiprocessor which has room for one.
constexpr ScoreTile score_tile(i64 heads, i64 rows_per_request) {
  if (rows_per_request == 1) return {heads, 32, 1, 4};
  for (const SharedHeads& shared : kSharedHeads) {
    if (rows_per_request * heads <= shared.heads)
      return {heads, shared.tokens, shared.heads / heads, shared.warps};
  }
  return {heads, kSharedHeads[0].tokens, kSharedHeads[0].heads / heads, 8};
}

// Blocks that a multiprocessor is to hold where it has room: registers are handed out for so many.
constexpr i64 score_blocks_per_sm(const ScoreTile& tile) { return tile.warps <= 4 ? 3 : 2; }

struct ScoreShared {
  i64 stage_bytes;  // keys of a warp's stage, of kScoreStages
  i64 scales;       // of all stages
  i64 queries;      // as operands, halves or e4m3 numbers; of one row, on their way to registers
  i64 weights;      // a float a head
  i64 words;        // ints
  i64 bytes;
};
constexpr ScoreShared score_shared(const ScoreTile& tile) {
  ScoreShared s{};
  const bool is_own = has_own_queries(tile);
  const i64 heads = tile.rows * tile.heads;
  s.stage_bytes = tile.tokens * kKeyElements;
  const i64 stages = tile.warps * kScoreStages;
  s.scales = stages * s.stage_bytes;
  s.queries = s.scales + stages * tile.tokens * kKeyScaleBytes;
  s.weights = s.queries + heads * kKeyElements * (is_own ? 1 : 2);
  s.words = s.weights + heads * 4;
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
};

// A slot: the top_k best candidates of a part of a row, in ascending order. Logits in one array, indices in
// another.
constexpr i64 slot_bytes(i64 top_k) { return top_k * 8; }

// ---- The selector: a cluster of blocks a row, or a slice of one. ----

constexpr i64 kSelectBins = 8192;  // of a histogram
constexpr i64 kSelectGroups = 32;  // of bins
constexpr i64 kSelectFew = 256;    // entries that are compared with each other

// Parts of a row that blocks of one cluster select from, at most, and entries that pay for another part.
constexpr i64 kSelectParts = 8;
constexpr i64 kSelectPartEntries = 2048;

// Warps of a block, by the entries of a part: fewer have less to say to each other.
constexpr i64 kSelectWarps[] = {16, 32};
constexpr i64 select_warps(i64 part_entries) {
  return part_entries <= 2 * kSelectPartEntries ? kSelectWarps[0] : kSelectWarps[1];
}

struct SelectShared {
  i64 bins;    // a count each; later what is selected, a logit and an entry
  i64 groups;  // sums of bins
  i64 group;   // bins of one of them, of every part
  i64 listed;  // ranks that are compared
  i64 few;     // those of all parts
  i64 words;
  i64 bytes;
};
constexpr SelectShared select_shared() {
  SelectShared s{};
  s.bins = 0;
  static_assert(kMostTopK * 8 <= kSelectBins * 4);
  s.groups = s.bins + kSelectBins * 4;
  s.group = s.groups + kSelectGroups * 4;
  s.listed = s.group + kSelectParts * (kSelectBins / kSelectGroups) * 4;
  s.few = s.listed + kSelectFew * 8;
  s.words = s.few + kSelectFew * 8;
  s.bytes = s.words + kBlockWords * 4;
  return s;
}

// ---- The sieve: rows are split into ends and middles, and joined again. A block a request; some a row. ----

constexpr i64 kSplitThreads = 512;
constexpr i64 kJoinThreads = 1024;
constexpr i64 kMostJoinParts = 16;

// Survivors of a row go to several lists, those of a step to one. Blocks add to their counts all the time,
// and take turns where these share a line: they are so many words apart.
constexpr i64 kSurvivorLists = 4;
constexpr i64 kCountWords = 32;

// ---- The gathering of a prefill's keys: a block a page. ----

constexpr i64 kGatherThreads = 128;

}  // namespace moeplan
