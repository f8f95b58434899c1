// Tiles and shared memory of the lean prefill kernels: pure constexpr text, compiled by the host compiler and
// by NVRTC.
#pragma once

#include "planner/moe/kernel_geometry.hpp"
#include "planner/moe/lean_geometry.hpp"

namespace moeplan {

// Groups of 16 rows that a block of threads multiplies at a time, its warps, and the columns of each.
struct LeanPrefillTile {
  i64 groups;
  i64 warps;
  i64 warp_columns;
  i64 blocks_per_sm;  // that registers are handed out for

  constexpr i64 threads() const { return 32 * warps; }
  constexpr i64 columns() const { return warps * warp_columns; }
};

constexpr i64 kLeanPrefillGroups = kLeanBlock / 16;
constexpr i64 kLeanPrefillFewGroups = 4;
// FC1. With all rows of a route block a warp has 32 columns, so that every matrix of rows that it loads is
// multiplied four times; with a few, decoding is most of the work, and twice as many warps wait less.
constexpr LeanPrefillTile lean_prefill_fc1_tile(i64 groups) {
  return groups == kLeanPrefillFewGroups ? LeanPrefillTile{groups, 16, 16, 1}
                                         : LeanPrefillTile{groups, 8, 32, 1};
}
// FC2. Its items are short: two blocks of threads, so that one multiplies while the other starts or stores.
// The decoders of 5 and 6 bits have no registers for that.
constexpr LeanPrefillTile lean_prefill_fc2_tile(i64 bits) {
  return bits <= 4 ? LeanPrefillTile{kLeanPrefillGroups, 8, 16, 2}
                   : LeanPrefillTile{kLeanPrefillGroups, 8, 32, 1};
}

// Rows lie in shared memory a Hadamard block of K at a time, weights a row of Trellis tiles at a time.
constexpr i64 kLeanPrefillStepK = kHadamardBlock;

struct LeanPrefillShared {
  i64 item;         // the next one, an int
  i64 column;       // of the output, that the item starts at, an int
  i64 suh;          // of the item's expert, a pointer
  i64 rows;         // the row of the activations that each row of the block multiplies, ints
  i64 routes;       // the route of each row, ints
  i64 steps;        // two of them: one is multiplied while the other is made
  i64 step_bytes;   // rows x 128 halves, chunks of 8 swizzled
  i64 scales;       // suh of a step, two of them
  i64 scale_bytes;  // from one to the other
  i64 rings;        // of Trellis tiles, a ring a warp
  i64 ring_bytes;   // from one warp's to the next
  i64 stage_bytes;  // of a ring: 16 of K by the warp's columns
  i64 part_stages;  // that are fetched together
  i64 stages;       // of a ring
  i64 bytes;
};
constexpr LeanPrefillShared lean_prefill_shared(const LeanPrefillTile& tile, i64 bits) {
  constexpr i64 kMostStages = 24;
  const i64 rows = 16 * tile.groups;
  LeanPrefillShared s{};
  s.item = 0;
  s.column = s.item + 4;
  s.suh = s.column + 4;
  s.rows = s.suh + 8;
  s.routes = s.rows + rows * 4;
  s.steps = align_up(s.routes + rows * 4, 128);
  s.step_bytes = rows * kLeanPrefillStepK * 2;
  s.scales = s.steps + 2 * s.step_bytes;
  s.scale_bytes = kLeanPrefillStepK * 2;
  s.rings = s.scales + 2 * s.scale_bytes;
  s.stage_bytes = tile.warp_columns / 16 * trellis_tile_bytes(bits);
  s.part_stages = tile.warp_columns == 32 ? 2 : 4;
  s.stages = min_of((kLeanSharedLimit - s.rings) / tile.warps / s.stage_bytes, kMostStages);
  s.ring_bytes = s.stages * s.stage_bytes;
  s.bytes = s.rings + tile.warps * s.ring_bytes;
  return s;
}

}  // namespace moeplan
