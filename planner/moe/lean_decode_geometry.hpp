// Shared memory of the lean contract's decoding kernels: pure constexpr text, compiled by the host compiler
// and by NVRTC, so that the size a launch asks for and the offsets a kernel uses are one computation.
#pragma once

#include "planner/core/integer.hpp"
#include "planner/moe/kernel_geometry.hpp"
#include "planner/moe/lean_geometry.hpp"

namespace moeplan {

constexpr i64 kLeanRoutes = 1024;   // the most of a launch
constexpr i64 kLeanExperts = 1024;  // the most that are counted
constexpr i64 kLeanStreams = 16;    // warps that multiply, each with a ring of tiles of its own
constexpr i64 kLeanRotators = 4;    // warps of FC1 that rotate rows meanwhile, a Hadamard block each
constexpr i64 kLeanDecodeFc1Threads = 32 * (kLeanStreams + kLeanRotators);
constexpr i64 kLeanDecodeFc2Threads = 32 * kLeanStreams;

constexpr i64 kLeanStageTiles = 8;                          // tiles of a ring's stage
constexpr i64 kLeanFewestStages = 2;                        // one is on its way while another is multiplied
constexpr i64 kLeanRowTileBytes = 512;                      // 8 rows by 16 of K, every element twice
constexpr i64 kLeanChunk = kLeanRotators * kHadamardBlock;  // of K that FC1 has rotated rows of together
constexpr i64 kLeanChunkBuffers = 2;

// Who goes where. The counts are needed before the rings are: they lie in them.
struct LeanTables {
  i64 block_count;
  i64 blocks;  // an int each: expert, first slot, rows
  i64 slots;   // routes by expert, 16 bits each
  i64 end;
};
constexpr LeanTables lean_tables(i64 at) {
  LeanTables s{};
  s.block_count = at;
  s.blocks = s.block_count + 16;
  s.slots = s.blocks + kLeanRoutes * 4;
  s.end = s.slots + kLeanRoutes * 2;
  return s;
}

constexpr i64 lean_stage_bytes(i64 bits) { return kLeanStageTiles * trellis_tile_bytes(bits); }
// As many stages of every ring as fit what is left.
constexpr i64 lean_stages(i64 bits, i64 taken) {
  return (kLeanSharedLimit - taken) / (kLeanStreams * lean_stage_bytes(bits));
}

struct LeanDecodeFc1Shared {
  i64 barriers;  // full and empty of each chunk buffer
  LeanTables tables;
  i64 chunks;  // rows of a chunk each; FC1's sums meet in them too
  i64 rings;
  i64 stages;
  i64 bytes;
};
constexpr LeanDecodeFc1Shared lean_decode_fc1_shared(i64 bits) {
  LeanDecodeFc1Shared s{};
  s.barriers = 0;
  s.tables = lean_tables(2 * kLeanChunkBuffers * 8);
  s.chunks = align_up(s.tables.end, 128);
  s.rings = s.chunks + kLeanChunkBuffers * (kLeanChunk / 16) * kLeanRowTileBytes;
  s.stages = lean_stages(bits, s.rings);
  s.bytes = s.rings + s.stages * kLeanStreams * lean_stage_bytes(bits);
  return s;
}

// Tiles side by side that a warp of FC2 multiplies: one where a launch has few columns of tiles to deal out.
constexpr i64 kLeanMostSide = 2;

struct LeanDecodeFc2Shared {
  LeanTables tables;
  i64 sums;  // of the streams that have the second half of K, twice
  i64 rows;  // of a block, all of K
  i64 rings;
  i64 stages;
  i64 bytes;
};
constexpr LeanDecodeFc2Shared lean_decode_fc2_shared(i64 bits, i64 intermediate) {
  LeanDecodeFc2Shared s{};
  s.tables = lean_tables(0);
  s.sums = align_up(s.tables.end, 128);
  s.rows = s.sums + 2 * (kLeanStreams / 2) * kLeanMostSide * 512;
  s.rings = s.rows + intermediate / 16 * kLeanRowTileBytes;
  s.stages = lean_stages(bits, s.rings);
  s.bytes = s.rings + s.stages * kLeanStreams * lean_stage_bytes(bits);
  return s;
}

}  // namespace moeplan
