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
  // Whether two stages can be had at a time: half of what waiting and copying takes for each.
  static constexpr bool kHasPairs = Stages >= 4;

  explicit LeanRing(const unsigned char* first)
      : first_(ptx::shared_address(first)),
        last_(first_ + (Stages - 1) * kLeanStageBytes),
        next_(first_),
        filled_(first_) {}

  template <class Fetcher>
  void prime(Fetcher& fetcher) {
#pragma unroll 1
    for (int i = 0; i < kAhead; ++i) fill(fetcher);
  }

  // The next stage, once its copies are there.
  template <class Fetcher>
  const unsigned char* next(Fetcher& fetcher) {
    ptx::wait_copies<kAhead - 1>();
    // All lanes' copies are there, and none reads the stages of the step before.
    ptx::warp_sync();
    fill(fetcher);
    return take();
  }

  struct Pair {
    const unsigned char* first;
    const unsigned char* second;
  };
  template <class Fetcher>
  Pair next_pair(Fetcher& fetcher) {
    static_assert(kHasPairs);
    ptx::wait_copies<kAhead - 2>();
    ptx::warp_sync();
    fill(fetcher);
    fill(fetcher);
    const unsigned char* const first = take();
    return {first, take()};
  }

 private:
  // Stages whose copies are on their way, or there, when one is asked for.
  static constexpr int kAhead = kHasPairs ? Stages - 2 : Stages - 1;

  unsigned behind(unsigned stage) const { return stage == last_ ? first_ : stage + kLeanStageBytes; }
  template <class Fetcher>
  void fill(Fetcher& fetcher) {
    fetcher.fetch(filled_);
    filled_ = behind(filled_);
  }
  const unsigned char* take() {
    const unsigned stage = next_;
    next_ = behind(next_);
    return ptx::shared_pointer(stage);
  }

  unsigned first_, last_, next_, filled_;
};

// Starts the copies of a stage's first `chunks` chunks.
inline void copy_stage(unsigned stage, const LaneSources& sources, int chunks = kLeanStageChunks) {
#pragma unroll
  for (int i = 0; i < kLeanLaneChunks; ++i) {
    const int chunk = i * 32 + lane_id();
    if (chunk < chunks) ptx::copy_async(stage + chunk * 16, sources.at[i]);
  }
}

// sums += `Side` tiles side by side, a row of tiles for each of `Depth` tiles of rows. `rows`: own_unit of
// the first of those, as rows_behind takes it.
template <int Side, int Depth>
inline void multiply_tiles(float (&sums)[Side][4], const unsigned char* stage, unsigned rows,
                           const StateFactors& factors) {
#pragma unroll
  for (int k = 0; k < Depth; ++k) {
    const DoubledRows x = rows_behind(rows, k);
#pragma unroll
    for (int i = 0; i < Side; ++i)
      multiply_tile<BITS, static_cast<Codebook>(CODEBOOK)>(
          sums[i], reinterpret_cast<const unsigned*>(stage + (k * Side + i) * kLeanTileBytes), x, lane_id(),
          factors);
  }
}

}  // namespace moeplan
