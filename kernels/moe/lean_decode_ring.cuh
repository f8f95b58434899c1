// A warp's ring of stages, through which it streams tiles of weights on its own.
#pragma once

#include "kernels/moe/instructions.cuh"
#include "kernels/moe/lean_decode_blocks.cuh"
#include "kernels/moe/trellis_decode.cuh"

namespace moeplan {

constexpr int kLeanTileBytes = trellis_tile_bytes(BITS);
constexpr int kLeanStageBytes = lean_stage_bytes(BITS);
constexpr int kLeanStageChunks = kLeanStageBytes / 16;
constexpr int kLeanLaneChunks = ceil_div(kLeanStageChunks, 32);

// Where a lane's chunks of the next stage come from. A stage has rows of `side` tiles side by side, `pitch`
// bytes apart.
struct LaneSources {
  const unsigned char* at[kLeanLaneChunks];

  void move(int bytes) {
#pragma unroll
    for (const unsigned char*& each : at) each += bytes;
  }
};
inline LaneSources lane_sources(const unsigned char* tiles, int side, int pitch) {
  LaneSources sources;
  const int run = side * kLeanTileBytes / 16;
#pragma unroll
  for (int i = 0; i < kLeanLaneChunks; ++i) {
    const int chunk = i * 32 + lane_id();
    sources.at[i] = tiles + (chunk / run * pitch + chunk % run * 16);
  }
  return sources;
}

// A warp's ring of stages. Addresses are those that instructions on shared memory take.
template <int Stages>
class LeanRing {
 public:
  explicit LeanRing(const unsigned char* first)
      : first_(ptx::shared_address(first)), next_(first_), last_(first_ + (Stages - 1) * kLeanStageBytes) {}

  // Fills all stages but one.
  template <class Fetcher>
  void prime(Fetcher& fetcher) {
#pragma unroll 1
    for (int i = 0; i < Stages - 1; ++i) fetcher.fetch(first_ + i * kLeanStageBytes);
  }

  // The next stage, once its copies are there; the one before it is filled anew.
  template <class Fetcher>
  const unsigned char* next(Fetcher& fetcher) {
    ptx::wait_copies<Stages - 2>();
    // All lanes' copies are there, and none reads the stage of the step before.
    ptx::warp_sync();
    const unsigned stage = next_;
    fetcher.fetch(stage == first_ ? last_ : stage - kLeanStageBytes);
    next_ = stage == last_ ? first_ : stage + kLeanStageBytes;
    return ptx::shared_pointer(stage);
  }

 private:
  unsigned first_, next_, last_;
};

// Starts the copies of a stage's first `chunks` chunks.
inline void copy_stage(unsigned stage, const LaneSources& sources, int chunks = kLeanStageChunks) {
#pragma unroll
  for (int i = 0; i < kLeanLaneChunks; ++i) {
    const int chunk = i * 32 + lane_id();
    if (chunk < chunks) ptx::copy_async(stage + chunk * 16, sources.at[i]);
  }
}

// sums += `Side` tiles side by side, a row of tiles for each of `Depth` tiles of rows.
template <int Side, int Depth>
inline void multiply_tiles(float (&sums)[Side][4], const unsigned char* stage, unsigned char* rows,
                           int first_tile, const StateFactors& factors) {
#pragma unroll
  for (int k = 0; k < Depth; ++k) {
    const DoubledRows x = rows_of_tile(rows, first_tile + k);
#pragma unroll
    for (int i = 0; i < Side; ++i)
      multiply_tile<BITS, static_cast<Codebook>(CODEBOOK)>(
          sums[i], reinterpret_cast<const unsigned*>(stage + (k * Side + i) * kLeanTileBytes), x, lane_id(),
          factors);
  }
}

}  // namespace moeplan
