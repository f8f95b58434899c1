// Shared memory of the MoE kernels: pure constexpr text, compiled by the host compiler and by NVRTC, so that
// the size a launch asks for and the offsets a kernel uses are one computation.
#pragma once

#include "planner/core/integer.hpp"

namespace moeplan {

// Route packing: one block, a warp's share of the routes counted on its own.
constexpr i64 kRoutePackThreads = 512;
constexpr i64 kRoutePackWarps = kRoutePackThreads / 32;
constexpr i64 kRoutePackExperts = 1024;  // the most it counts

struct RoutePackShared {
  i64 counts;   // a row of kRoutePackExperts ints a warp
  i64 offsets;  // kRoutePackExperts + 1 ints
  i64 totals;   // an int a warp
  i64 bytes;
};
constexpr RoutePackShared route_pack_shared() {
  RoutePackShared s{};
  s.counts = 0;
  s.offsets = s.counts + kRoutePackWarps * kRoutePackExperts * 4;
  s.totals = s.offsets + (kRoutePackExperts + 1) * 4;
  s.bytes = s.totals + kRoutePackWarps * 4;
  return s;
}

// The sum over a token's routes: a warp takes a few columns of a token.
constexpr i64 kTopKSumThreads = 256;

// Columns that a Hadamard transform of the Trellis format mixes.
constexpr int kHadamardBlock = 128;
constexpr int kHadamardColumns = 4 * kHadamardBlock;  // that a warp transforms at a time

// How a Trellis state becomes a weight. EXL3's MoE checkpoints have mcg.
enum class Codebook { three_instructions, mcg, mul1 };

// The fused Trellis kernel.
constexpr i64 kFusedThreads = 256;
constexpr i64 kFusedWarps = kFusedThreads / 32;

// Blocks of threads of it that a multiprocessor is to hold: registers are handed out for so many.
constexpr int kFusedBlocksPerSm = 2;

// What one step of a block multiplies: `block` rows by tile_k by tile_n, `stages` steps in flight.
struct TrellisTile {
  i64 block;
  i64 bits;
  i64 tile_k;
  i64 tile_n;
  i64 stages;
};

// Bytes of 16x16 weights.
constexpr i64 trellis_tile_bytes(i64 bits) { return 32 * bits; }

// Behind a row of the output tile, so that rows start in different banks.
constexpr i64 kOutputPadding = 8;  // halves

struct TrellisShared {
  i64 item;          // the next one, an int
  i64 rows;          // the route of each row, ints
  i64 stages;        // the first stage; the output tile takes their place when all are multiplied
  i64 stage_bytes;   // from one stage to the next
  i64 activations;   // in a stage: block x tile_k halves, chunks of 8 swizzled
  i64 weights;       // in a stage: tile_k/16 x tile_n/16 Trellis tiles
  i64 output_pitch;  // halves
  i64 bytes;
};
constexpr TrellisShared trellis_shared(const TrellisTile& tile) {
  TrellisShared s{};
  s.item = 0;
  s.rows = s.item + 4;
  s.stages = align_up(s.rows + tile.block * 4, 128);
  s.activations = 0;
  s.weights = s.activations + tile.block * tile.tile_k * 2;
  s.stage_bytes = s.weights + tile.tile_k / 16 * (tile.tile_n / 16) * trellis_tile_bytes(tile.bits);
  s.output_pitch = tile.tile_n + kOutputPadding;
  s.bytes = s.stages + max_of(tile.stages * s.stage_bytes, tile.block * s.output_pitch * 2);
  return s;
}

constexpr i64 kFewestTrellisBits = 3, kMostTrellisBits = 6;

// The tile for blocks of `block` rows. 128 columns, 16 a warp: they divide every gate and up half and every
// hidden size, and a warp decodes each weight once for all rows of the block. Few rows are little work a
// step, so blocks of 8 and 16 take 128 of K a step, larger ones 64. All but one of the stages hold steps that
// are on their way while that one is multiplied.
constexpr TrellisTile trellis_tile(i64 block, i64 bits) {
  return {block, bits, block <= 16 ? 128 : 64, kHadamardBlock, block == 8 ? 3 : 4};
}

// The fused Trellis kernel of plans whose blocks all have 8 rows. A warp streams a strip of Trellis tiles
// side by side, with the rows of its block, through a ring of its own.
constexpr i64 kNarrowBlock = 8;
constexpr i64 kNarrowTileK = 64;        // of a stage
constexpr i64 kNarrowStripTiles = 4;    // at most
constexpr i64 kNarrowUnitColumns = 32;  // work is dealt out in strips of so many columns
constexpr i64 kNarrowStages = 2;

// Blocks of threads of it that a multiprocessor is to hold. The decoders of 4 and more bits take more
// registers.
constexpr int narrow_blocks_per_sm(i64 bits) { return bits == 3 ? 3 : 2; }

struct NarrowShared {
  i64 stage_bytes;  // from one stage of a warp's ring to the next
  i64 rows;         // in a stage, behind the tiles: 8 x 64 halves, chunks of 8 swizzled
  i64 ring_bytes;   // from one warp's ring to the next
  i64 sum_pitch;    // floats, of the sums of 8 rows that take the ring's place
  i64 bytes;
};
constexpr NarrowShared narrow_shared(i64 bits) {
  NarrowShared s{};
  s.rows = kNarrowTileK / 16 * kNarrowStripTiles * trellis_tile_bytes(bits);
  s.stage_bytes = s.rows + kNarrowBlock * kNarrowTileK * 2;
  s.ring_bytes = kNarrowStages * s.stage_bytes;
  s.sum_pitch = 16 * kNarrowStripTiles + 4;  // rows 2, 4 and 6 start 8 banks behind the one before
  s.bytes = kFusedWarps * s.ring_bytes;
  return s;
}

// The fused kernel of packed NVFP4 weights.
constexpr i64 kPackedTileColumns = 64;  // of 16x64 weights, as they lie in memory
constexpr i64 kPackedTileBytes = 512;

// What one step of a block multiplies: `block` rows by tile_k by tile_n, `stages` steps in flight.
struct PackedTile {
  i64 block;
  i64 tile_k;
  i64 tile_n;
  i64 stages;
};

struct PackedShared {
  i64 rows;          // the route of each row, ints
  i64 sources;       // the row of the activations that each row multiplies, ints
  i64 factors;       // what each row's sums are multiplied by, floats
  i64 stages;        // the first stage; the output tile takes their place when all are multiplied
  i64 stage_bytes;   // from one stage to the next
  i64 activations;   // in a stage: block x tile_k halves, chunks of 8 swizzled
  i64 weights;       // in a stage: tile_k/16 x tile_n/64 tiles of weights
  i64 scales;        // in a stage: tile_k/16 x tile_n bytes
  i64 output_pitch;  // halves
  i64 bytes;
};
constexpr PackedShared packed_shared(const PackedTile& tile) {
  PackedShared s{};
  s.rows = 0;
  s.sources = s.rows + tile.block * 4;
  s.factors = s.sources + tile.block * 4;
  s.stages = align_up(s.factors + tile.block * 4, 128);
  s.activations = 0;
  s.weights = s.activations + tile.block * tile.tile_k * 2;
  s.scales = s.weights + tile.tile_k / 16 * (tile.tile_n / kPackedTileColumns) * kPackedTileBytes;
  s.stage_bytes = s.scales + tile.tile_k / 16 * tile.tile_n;
  s.output_pitch = tile.tile_n + kOutputPadding;
  s.bytes = s.stages + max_of(tile.stages * s.stage_bytes, tile.block * s.output_pitch * 2);
  return s;
}

// 128 columns, 16 a warp; 64 of K a step, so that intermediate sizes are multiples of 64. A step of few rows
// is few bytes, so small blocks keep more of them on their way.
constexpr PackedTile packed_tile(i64 block) { return {block, 64, 128, block <= 16 ? 6 : 4}; }

// Floats of the split-K scratch that one tile's slices hand over in. A block of 8 has a region of 16 rows, of
// which it uses every second run: those that end where the region ends.
constexpr i64 packed_region_elements(const PackedTile& tile) { return max_of(tile.block, 16) * tile.tile_n; }

}  // namespace moeplan
