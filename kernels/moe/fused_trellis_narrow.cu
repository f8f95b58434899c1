// fused_trellis_narrow: what fused_trellis does, for plans whose route blocks all have 8 rows. With so few
// rows decoding the weights is nearly all of the work, so every warp streams tiles on its own, without
// waiting for the others:
//
//   FC1   the warps of a block of threads take every 8th piece of K of the same columns, and their sums are
//         added in the warps' order
//   FC2   a warp takes columns of its own, over all of K
//
// The phases are those of fused_trellis, with a grid barrier between any two. A row's values depend on
// nothing but its own token and expert: how wide a strip of columns is only decides which warp computes it.
#include "kernels/moe/arguments.hpp"
#include "kernels/moe/lanes.cuh"
#include "kernels/moe/trellis_decode.cuh"
#include "kernels/moe/trellis_phases.cuh"
#include "kernels/ptx.cuh"
#include "planner/moe/kernel_geometry.hpp"

namespace moeplan {
namespace {

// ---- What this variant is compiled for. ----

constexpr NarrowShared kShared = narrow_shared(BITS);
static_assert(kShared.bytes == SHARED_BYTES, "host and device disagree about shared memory");
static_assert(kFusedThreads == THREADS, "host and device disagree about the threads of a block");
static_assert(BLOCK == kNarrowBlock);

constexpr Codebook kCodebook = static_cast<Codebook>(CODEBOOK);
constexpr int kWarps = kFusedWarps;
constexpr int kTileBytes = trellis_tile_bytes(BITS);
constexpr int kStepTiles = kNarrowTileK / 16;  // of a stage, along K
constexpr int kUnitTiles = kNarrowUnitColumns / 16;
constexpr int kStages = kNarrowStages;

struct alignas(16) Chunk {
  unsigned a, b, c, d;
};
struct alignas(8) FloatPair {
  float first, second;
};

inline unsigned char* ring_of(int warp) { return ptx::dynamic_shared() + warp * kShared.ring_bytes; }

// ---- A strip of tiles by the rows of a block. ----

// The routes of the two rows that this lane copies, row lane / 8 and the fourth behind it; -1: padding.
struct LaneRoutes {
  int route[2];
};
inline LaneRoutes lane_routes(const FusedTrellisArguments& args, int route_block) {
  LaneRoutes routes;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int route = args.packed_route_indices[route_block * BLOCK + lane_id() / 8 + 4 * i];
    routes.route[i] = route < args.routes ? route : -1;
  }
  return routes;
}

struct Strip {
  const unsigned char* tiles;  // its first
  int pitch;                   // bytes from 16 rows of K to the next
  const HalfBits* rows[2];     // of the lane: its chunk of its two rows
  bool is_padding[2];          // zeros take the row's place
};

inline Strip strip_of(const unsigned char* tiles, i64 pitch, const HalfBits* activations, i64 depth,
                      const LaneRoutes& routes) {
  Strip strip{.tiles = tiles, .pitch = static_cast<int>(pitch)};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    strip.rows[i] = activations + max_of(routes.route[i], 0) * depth + lane_id() % 8 * 8;
    strip.is_padding[i] = routes.route[i] < 0;
  }
  return strip;
}

// Rows are 8 chunks apart, so without the swizzle the same chunk of eight rows would share its banks.
inline unsigned char* row_chunk(unsigned char* stage, int row, int chunk) {
  return stage + kShared.rows + (row * 8 + (chunk ^ row)) * 16;
}

// Starts the copies of one step of K.
template <int Tiles>
inline void fetch_step(const Strip& strip, unsigned char* stage, int step) {
  constexpr int kRunChunks = Tiles * kTileBytes / 16;  // tiles side by side are one run of bytes
  constexpr int kChunks = kStepTiles * kRunChunks;
  const unsigned char* tiles = strip.tiles + i64{step} * (kStepTiles * strip.pitch);
#pragma unroll
  for (int i = 0; i < ceil_div(kChunks, 32); ++i) {
    const int at = i * 32 + lane_id();
    if (kChunks % 32 == 0 || at < kChunks)
      ptx::copy_async(stage + at * 16, tiles + (at / kRunChunks * strip.pitch + at % kRunChunks * 16), 16);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
    ptx::copy_async(row_chunk(stage, lane_id() / 8 + 4 * i, lane_id() % 8),
                    strip.rows[i] + step * kNarrowTileK, strip.is_padding[i] ? 0 : 16);
}

template <int Tiles>
inline void multiply_step(float (&sums)[Tiles][4], unsigned char* stage, const StateFactors& factors) {
  const int lane = lane_id();
#pragma unroll 1
  for (int k = 0; k < kStepTiles; k += 2) {
    unsigned rows[4];  // 8 rows by 32 of K
    ptx::load_matrices(rows, row_chunk(stage, lane % 8, 2 * k + lane / 8));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const DoubledRows doubled = doubled_rows(rows[2 * half], rows[2 * half + 1]);
#pragma unroll
      for (int i = 0; i < Tiles; ++i) {
        const auto* words = reinterpret_cast<const unsigned*>(stage + ((k + half) * Tiles + i) * kTileBytes);
        if constexpr (kCodebook == Codebook::mul1) {
          unsigned weights[4];
          decode_tile<BITS, kCodebook>(weights, words, lane, factors);
          ptx::multiply_add(sums[i], weights, rows[2 * half], rows[2 * half + 1]);
        } else {
          multiply_tile<BITS, kCodebook>(sums[i], words, doubled, lane, factors);
        }
      }
    }
  }
}

// sums: the strip's columns by 8 rows, over steps first, first + stride, .. below `steps`. Nobody else reads
// or writes the warp's ring.
template <int Tiles>
inline void multiply_strip(float (&sums)[Tiles][4], const Strip& strip, int first, int stride, int steps,
                           const StateFactors& factors) {
  constexpr int kAhead = kStages - 1;  // steps that are on their way while one is multiplied
  constexpr int kStageBytes = kShared.stage_bytes, kRingBytes = kShared.ring_bytes;
  unsigned char* ring = ring_of(warp_id());
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    if (first + i * stride < steps) fetch_step<Tiles>(strip, ring + i * kStageBytes, first + i * stride);
    ptx::commit_copies();
  }
  int at = 0;  // bytes from the ring's start to the step's stage
#pragma unroll 1
  for (int step = first; step < steps; step += stride) {
    ptx::wait_copies<kAhead - 1>();
    // All lanes' copies of this step are there, and none reads the stage of the step before.
    ptx::warp_sync();
    if (step + kAhead * stride < steps)
      fetch_step<Tiles>(strip, ring + (at == 0 ? kRingBytes : at) - kStageBytes, step + kAhead * stride);
    ptx::commit_copies();
    multiply_step<Tiles>(sums, ring + at, factors);
    at = at + kStageBytes == kRingBytes ? 0 : at + kStageBytes;
  }
  ptx::wait_copies<0>();
  ptx::warp_sync();
}

// ---- The two matrix products. ----

// This worker's share of `units`, of which every worker has as many, but for one.
struct Share {
  int begin, end;
};
inline Share share_of(i64 units, i64 worker, i64 workers) {
  return {static_cast<int>(units * worker / workers), static_cast<int>(units * (worker + 1) / workers)};
}

// Where a unit lies. The units of a route block's product stand one behind the other.
struct Place {
  int route_block;
  int half;    // of FC1; 0: gate, 1: up
  i64 column;  // of the half
};
inline Place place_of(int unit, int block_units, int half_units) {
  const int at = unit % block_units;
  return {unit / block_units, at / half_units, i64{at % half_units} * kNarrowUnitColumns};
}

// Calls `work` for the strips that make up a share, with their first unit and their expert: two units wide
// where two of a half are left.
template <class Work>
inline void for_each_strip(const FusedTrellisArguments& args, Share share, int block_units, int half_units,
                           Work work) {
  for (int unit = share.begin; unit < share.end;) {
    const int left = static_cast<int>(min_of(share.end - unit, half_units - unit % half_units));
    const int expert = args.block_expert_ids[unit / block_units];
    const int units = left >= 2 ? 2 : 1;
    if (expert >= 0 && expert < args.experts) work(unit, expert, units);
    unit += units;
  }
}

// Adds the warps' sums, and stores them as rows.
template <int Tiles>
inline void store_folded(const float (&sums)[Tiles][4], HalfBits* output, i64 pitch,
                         const FusedTrellisArguments& args, int route_block) {
  const int lane = lane_id(), row = 2 * (lane % 4);
  float* own = reinterpret_cast<float*>(ring_of(warp_id()));
#pragma unroll
  for (int i = 0; i < Tiles; ++i) {
    float* at = own + row * kShared.sum_pitch + 16 * i + lane / 4;
    at[0] = sums[i][0];
    at[kShared.sum_pitch] = sums[i][1];
    at[8] = sums[i][2];
    at[kShared.sum_pitch + 8] = sums[i][3];
  }
  ptx::block_sync();
  constexpr int kPairs = 8 * Tiles;  // of a row
  if (thread_id() < BLOCK * kPairs) {
    const int out_row = thread_id() / kPairs, pair = thread_id() % kPairs;
    const int route = args.packed_route_indices[route_block * BLOCK + out_row];
    FloatPair total{};
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      const auto* part = reinterpret_cast<const float*>(ring_of(warp)) + out_row * kShared.sum_pitch;
      const FloatPair sum = reinterpret_cast<const FloatPair*>(part)[pair];
      total.first += sum.first;
      total.second += sum.second;
    }
    if (route < args.routes)
      reinterpret_cast<unsigned*>(output + route * pitch)[pair] = ptx::halves_of(total.first, total.second);
  }
  ptx::block_sync();
}

inline int fc1_half_units(const FusedTrellisArguments& args) {
  return static_cast<int>(args.intermediate / kNarrowUnitColumns);
}

template <int Tiles>
inline void multiply_fc1_strip(const FusedTrellisArguments& args, int unit, int expert) {
  const int half_units = fc1_half_units(args);
  float sums[Tiles][4] = {};
  {
    const auto [route_block, half, column] = place_of(unit, 2 * half_units, half_units);
    const i64 pitch = args.intermediate / 16 * kTileBytes;
    const unsigned char* tiles =
        args.w13 + (half * args.experts + expert) * (args.hidden / 16) * pitch + column / 16 * kTileBytes;
    const Strip strip = strip_of(tiles, pitch, half == 0 ? args.rotation_a_gate : args.rotation_a_up,
                                 args.hidden, lane_routes(args, route_block));
    multiply_strip<Tiles>(sums, strip, warp_id(), kWarps, static_cast<int>(args.hidden / kNarrowTileK),
                          args.state_factors);
  }
  // Computed again: registers for it while the loop runs would be too many.
  const auto [route_block, half, column] = place_of(ptx::opaque(unit), 2 * half_units, half_units);
  store_folded<Tiles>(sums, args.intermediate_cache13 + half * args.intermediate + column,
                      2 * args.intermediate, args, route_block);
}

inline void multiply_fc1(const FusedTrellisArguments& args) {
  const int half_units = fc1_half_units(args);
  const i64 units = i64{packed_slots(args) / BLOCK} * (2 * half_units);
  for_each_strip(args, share_of(units, blockIdx.x, gridDim.x), 2 * half_units, half_units,
                 [&](int unit, int expert, int strip_units) {
                   if (strip_units == 2)
                     multiply_fc1_strip<2 * kUnitTiles>(args, unit, expert);
                   else
                     multiply_fc1_strip<kUnitTiles>(args, unit, expert);
                 });
}

// Rounds the warp's sums and stores them as rows.
template <int Tiles>
inline void store_strip(const float (&sums)[Tiles][4], HalfBits* output, i64 pitch,
                        const LaneRoutes& routes) {
  constexpr int kPitch = 16 * kNarrowStripTiles + 8;  // halves, so that rows start in different banks
  const int lane = lane_id();
  HalfBits* own = reinterpret_cast<HalfBits*>(ring_of(warp_id()));
#pragma unroll
  for (int i = 0; i < Tiles; ++i) {
    HalfBits* at = own + 2 * (lane % 4) * kPitch + 16 * i + lane / 4;
    const unsigned upper = ptx::halves_of(sums[i][0], sums[i][1]);
    const unsigned lower = ptx::halves_of(sums[i][2], sums[i][3]);
    at[0] = static_cast<HalfBits>(upper);
    at[kPitch] = static_cast<HalfBits>(upper >> 16);
    at[8] = static_cast<HalfBits>(lower);
    at[kPitch + 8] = static_cast<HalfBits>(lower >> 16);
  }
  ptx::warp_sync();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = lane / 8 + 4 * i, chunk = lane % 8;
    if (routes.route[i] >= 0 && chunk < 2 * Tiles)
      *reinterpret_cast<Chunk*>(output + routes.route[i] * pitch + chunk * 8) =
          *reinterpret_cast<const Chunk*>(own + row * kPitch + chunk * 8);
  }
  ptx::warp_sync();
}

template <int Tiles>
inline void multiply_fc2_strip(const FusedTrellisArguments& args, int unit, int expert) {
  const int block_units = static_cast<int>(args.hidden / kNarrowUnitColumns);
  const auto [route_block, half, column] = place_of(unit, block_units, block_units);
  const i64 pitch = args.hidden / 16 * kTileBytes;
  const LaneRoutes routes = lane_routes(args, route_block);
  const Strip strip = strip_of(args.w2 + expert * (args.intermediate / 16) * pitch + column / 16 * kTileBytes,
                               pitch, args.intermediate_cache2, args.intermediate, routes);
  float sums[Tiles][4] = {};
  multiply_strip<Tiles>(sums, strip, 0, 1, static_cast<int>(args.intermediate / kNarrowTileK),
                        args.state_factors);
  store_strip<Tiles>(sums, args.intermediate_cache13 + column, args.hidden, routes);
}

inline void multiply_fc2(const FusedTrellisArguments& args) {
  const int block_units = static_cast<int>(args.hidden / kNarrowUnitColumns);
  const i64 units = i64{packed_slots(args) / BLOCK} * block_units;
  const i64 worker = i64{blockIdx.x} * kWarps + warp_id();
  for_each_strip(args, share_of(units, worker, i64{gridDim.x} * kWarps), block_units, block_units,
                 [&](int unit, int expert, int strip_units) {
                   if (strip_units == 2)
                     multiply_fc2_strip<2 * kUnitTiles>(args, unit, expert);
                   else
                     multiply_fc2_strip<kUnitTiles>(args, unit, expert);
                 });
}

}  // namespace

// Registers for two blocks a multiprocessor at least: a plan's grid of a block for each of its
// multiprocessors is resident on a device that has half as many. Three where they fit: on sm_80 there are too
// few registers, and elsewhere is too little shared memory.
#define BLOCKS_PER_SM (__CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000 ? narrow_blocks_per_sm(BITS) : 2)
extern "C" __global__ void __launch_bounds__(kFusedThreads, BLOCKS_PER_SM)
    fused_trellis_narrow(const __grid_constant__ FusedTrellisArguments args) {
  run_phases(args, multiply_fc1, multiply_fc2);
}

}  // namespace moeplan
