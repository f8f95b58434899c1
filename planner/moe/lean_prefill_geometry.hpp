// Tiles and shared memory of the lean prefill kernels: pure constexpr text, compiled by the host compiler and
// by NVRTC.
#pragma once

#include "planner/moe/kernel_geometry.hpp"
#include "planner/moe/lean_geometry.hpp"

namespace moeplan {

constexpr i64 kLeanPrefillThreads = 256;
constexpr i64 kLeanPrefillWarps = kLeanPrefillThreads / 32;

// Columns that a block of threads multiplies, 32 a warp: every matrix of rows that a warp loads is multiplied
// four times.
constexpr i64 kLeanPrefillColumns = 256;
constexpr i64 kLeanPrefillWarpColumns = kLeanPrefillColumns / kLeanPrefillWarps;

// Rows lie in shared memory a Hadamard block of K at a time, weights a stage of a warp's ring.
constexpr i64 kLeanPrefillStepK = kHadamardBlock;
constexpr i64 kLeanPrefillStageK = 32;

struct LeanPrefillShared {
  i64 item;         // the next one, an int
  i64 rows;         // the row of the activations that each row of the block multiplies, ints
  i64 steps;        // two of them: one is multiplied while the other is made
  i64 step_bytes;   // kLeanBlock x 128 halves, chunks of 8 swizzled
  i64 rings;        // of Trellis tiles, a ring a warp
  i64 stage_bytes;  // of a ring: 32 of K by the warp's columns
  i64 stages;       // of a ring
  i64 bytes;
};
constexpr LeanPrefillShared lean_prefill_shared(i64 bits) {
  constexpr i64 kRingBytes = 2304;  // at most
  LeanPrefillShared s{};
  s.item = 0;
  s.rows = s.item + 4;
  s.steps = align_up(s.rows + kLeanBlock * 4, 128);
  s.step_bytes = kLeanBlock * kLeanPrefillStepK * 2;
  s.rings = s.steps + 2 * s.step_bytes;
  s.stage_bytes = kLeanPrefillStageK / 16 * (kLeanPrefillWarpColumns / 16) * trellis_tile_bytes(bits);
  s.stages = kRingBytes / s.stage_bytes;
  s.bytes = s.rings + kLeanPrefillWarps * s.stages * s.stage_bytes;
  return s;
}

}  // namespace moeplan
