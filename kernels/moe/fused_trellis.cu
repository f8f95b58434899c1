// fused_trellis: the experts of a Trellis launch in one persistent kernel. For every valid route r, with its
// token t, its expert e and H the 128-point Hadamard transform of each block of 128:
//
//   rotate    a_p[r] = fp16(H fp16(fp16(x[t]) * p_suh[e]) / sqrt 128)              p: gate, up
//   FC1       c_p[r] = fp16(a_p[r] @ W13[p][e])
//   activate  c2[r]  = fp16(H (silu(g) * u * down_suh[e]) / sqrt 128)
//                      with g = H c_gate[r] / sqrt 128 * gate_svh[e], and u likewise of up
//   FC2       c13[r] = fp16(c2[r] @ W2[e])                                          where c_p were
//
// with a grid barrier between any two. A row's values depend on nothing but its own token and expert:
// products are summed over K from its start to its end, whatever rows share the block. Rows of other routes
// are never written.
#include "kernels/moe/arguments.hpp"
#include "kernels/moe/lanes.cuh"
#include "kernels/moe/trellis_decode.cuh"
#include "kernels/moe/trellis_phases.cuh"
#include "kernels/ptx.cuh"
#include "planner/moe/kernel_geometry.hpp"

namespace moeplan {
namespace {

// ---- What this variant is compiled for. ----

constexpr TrellisTile kTile{BLOCK, BITS, TILE_K, TILE_N, STAGES};
constexpr TrellisShared kShared = trellis_shared(kTile);
static_assert(kShared.bytes == SHARED_BYTES, "host and device disagree about shared memory");

constexpr Codebook kCodebook = static_cast<Codebook>(CODEBOOK);
constexpr int kThreads = kFusedThreads;
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");
constexpr int kWarps = kFusedWarps;
constexpr int kGroups = BLOCK / 8;                // of 8 rows: the columns of one multiply_add
constexpr int kWarpTiles = TILE_N / 16 / kWarps;  // Trellis tiles side by side that a warp multiplies
constexpr int kTileWords = trellis_tile_bytes(BITS) / 4;
constexpr int kRowChunks = TILE_K / 8;  // 16-byte chunks of a row of a stage
static_assert(BLOCK % 8 == 0 && TILE_K % 32 == 0 && TILE_N % (16 * kWarps) == 0);
static_assert(kRowChunks % 8 == 0, "the swizzle moves chunks within eight");

// Large blocks have no registers for the decoders of several steps at a time.
constexpr int kStepsAtATime = BLOCK <= 16 ? 2 : 1;

constexpr i64 kTileBytes = trellis_tile_bytes(BITS);

struct alignas(16) Chunk {
  unsigned a, b, c, d;
};

// ---- The two matrix products. ----

// One tile: rows of a route block times TILE_N columns of its expert's weights, over all of K.
struct Product {
  const HalfBits* activations;   // a row a route
  int depth;                     // K: halves of such a row
  const unsigned char* weights;  // the tile's first Trellis tile
  int weight_pitch;              // bytes from 16 rows of K to the next
  HalfBits* output;              // a row a route
  int output_pitch;              // halves
  int output_column;             // the tile's first
};

inline int* shared_rows() { return reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.rows); }
// The item that this block takes next.
inline int* shared_item() { return reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.item); }
inline unsigned char* shared_stage(int stage) {
  return ptx::dynamic_shared() + kShared.stages + stage * kShared.stage_bytes;
}

// Where a chunk of a stage's row lies: rows are 8 chunks or more apart, so without the swizzle the same chunk
// of eight rows, which one matrix load reads, would share its banks.
//
//   row 0   0 1 2 3 4 5 6 7   8 ..
//   row 1   1 0 3 2 5 4 7 6   9 ..
//   row 2   2 3 0 1 6 7 4 5  10 ..
inline unsigned char* activation_chunk(unsigned char* stage, int row, int chunk) {
  return stage + kShared.activations + (row * kRowChunks + (chunk ^ (row & 7))) * 16;
}

// Notes the routes of a block's rows; -1: padding, which is multiplied as zeros and not stored.
inline void load_rows(const FusedTrellisArguments& args, int route_block) {
  for (int row = thread_id(); row < BLOCK; row += kThreads) {
    const int route = args.packed_route_indices[route_block * BLOCK + row];
    shared_rows()[row] = route < args.routes ? route : -1;
  }
}

// Groups of 8 rows that hold a route: padding stands behind the routes, and groups of padding alone are left
// out.
inline int live_groups() {
  int groups = 0;
#pragma unroll
  for (int group = 0; group < kGroups; ++group) groups += shared_rows()[8 * group] >= 0;
  return groups;
}

// What this thread copies of every step: of `Live` groups of rows, and of a run of bytes for each 16 of K, as
// Trellis tiles side by side are.
template <int Live>
struct Copies {
  static constexpr int kRows = ceil_div(Live * 8 * kRowChunks, kThreads);
  static constexpr int kRunChunks = TILE_N / 16 * kTileWords / 4;
  static constexpr int kRuns = ceil_div(TILE_K / 16 * kRunChunks, kThreads);
  static constexpr int kThreadRows = kThreads / kRowChunks;  // from one row of a thread to its next

  const HalfBits* row0;  // its chunk of the first step of route 0
  int rows[kRows];       // steps from there to a row's first; -1: padding, which is zeros
  int runs[kRuns];       // bytes from a step's first tile
};

template <int Live>
inline Copies<Live> copies_of(const Product& product) {
  using C = Copies<Live>;
  C copies{.row0 = product.activations + thread_id() % kRowChunks * 8};
#pragma unroll
  for (int i = 0; i < C::kRows; ++i) {
    const int row = thread_id() / kRowChunks + i * C::kThreadRows;
    const int route = row < Live * 8 ? shared_rows()[row] : -1;
    copies.rows[i] = route < 0 ? -1 : route * (product.depth / TILE_K);
  }
#pragma unroll
  for (int i = 0; i < C::kRuns; ++i) {
    const int at = thread_id() + i * kThreads;
    copies.runs[i] = at / C::kRunChunks * product.weight_pitch + at % C::kRunChunks * 16;
  }
  return copies;
}

// Starts the copies of step number `step` over K of the tile at `weights`.
template <int Live>
inline void fetch_stage(const Copies<Live>& copies, const unsigned char* weights, unsigned char* stage,
                        int step) {
  using C = Copies<Live>;
#pragma unroll
  for (int i = 0; i < C::kRows; ++i) {
    const int row = thread_id() / kRowChunks + i * C::kThreadRows;
    if (C::kRows * C::kThreadRows > Live * 8 && row >= Live * 8) break;
    unsigned char* to = activation_chunk(stage, row, thread_id() % kRowChunks);
    const i64 from = max_of(copies.rows[i], 0) + step;
    ptx::copy_async(to, copies.row0 + from * TILE_K, copies.rows[i] < 0 ? 0 : 16);
  }
#pragma unroll
  for (int i = 0; i < C::kRuns; ++i) {
    const int at = thread_id() + i * kThreads;
    if (TILE_K / 16 * C::kRunChunks % kThreads == 0 || at < TILE_K / 16 * C::kRunChunks)
      ptx::copy_async(stage + kShared.weights + at * 16, weights + copies.runs[i], 16);
  }
}

// Sums of a warp: [i][g] are the 16 columns of its tile i by the 8 rows of group g, as multiply_add has them.
template <int Live>
using Sums = float[kWarpTiles][Live][4];

template <int Live>
inline void multiply_stage(Sums<Live>& sums, unsigned char* stage, const StateFactors& factors) {
  const int lane = lane_id();
  const unsigned* words = reinterpret_cast<const unsigned*>(stage + kShared.weights);
#pragma unroll kStepsAtATime
  for (int k = 0; k < TILE_K / 16; k += 2) {
    // The weights are the operand of 16 rows: every lane decodes what it multiplies, once for all rows.
    unsigned weights[2][kWarpTiles][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kWarpTiles; ++i) {
        const int tile = (k + half) * (TILE_N / 16) + warp_id() * kWarpTiles + i;
        decode_tile<BITS, kCodebook>(weights[half][i], words + tile * kTileWords, lane, factors);
      }
    }
    // Rows of all groups are swizzled alike, so that one address serves them.
    const unsigned char* chunk = activation_chunk(stage, lane % 8, 2 * k + lane / 8);
#pragma unroll
    for (int group = 0; group < Live; ++group) {
      unsigned rows[4];  // 8 rows by 32 of K
      ptx::load_matrices(rows, chunk + group * 8 * kRowChunks * 16);
#pragma unroll
      for (int i = 0; i < kWarpTiles; ++i) {
        ptx::multiply_add(sums[i][group], weights[0][i], rows[0], rows[1]);
        ptx::multiply_add(sums[i][group], weights[1][i], rows[2], rows[3]);
      }
    }
  }
}

// Rounds the sums and turns them, through shared memory, into rows.
template <int Live>
inline void store_sums(const Product& product, const Sums<Live>& sums) {
  HalfBits* tile = reinterpret_cast<HalfBits*>(ptx::dynamic_shared() + kShared.stages);
  const int lane = lane_id();
#pragma unroll
  for (int i = 0; i < kWarpTiles; ++i) {
#pragma unroll
    for (int group = 0; group < Live; ++group) {
      const float(&d)[4] = sums[i][group];
      const int column = (warp_id() * kWarpTiles + i) * 16 + lane / 4;
      HalfBits* at = tile + (8 * group + 2 * (lane % 4)) * kShared.output_pitch + column;
      const unsigned upper = ptx::halves_of(d[0], d[1]), lower = ptx::halves_of(d[2], d[3]);
      at[0] = static_cast<HalfBits>(upper);
      at[kShared.output_pitch] = static_cast<HalfBits>(upper >> 16);
      at[8] = static_cast<HalfBits>(lower);
      at[kShared.output_pitch + 8] = static_cast<HalfBits>(lower >> 16);
    }
  }
  ptx::block_sync();
  constexpr int kChunks = TILE_N / 8;
// Unrolled, it would take the registers of the loop before.
#pragma unroll 1
  for (int i = thread_id(); i < Live * 8 * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const int route = shared_rows()[row];
    if (route < 0) continue;
    *reinterpret_cast<Chunk*>(product.output + i64{route} * product.output_pitch + product.output_column +
                              chunk * 8) =
        *reinterpret_cast<const Chunk*>(tile + row * kShared.output_pitch + chunk * 8);
  }
}

// The block's rows are noted; behind it shared memory is free again.
template <int Live>
inline void multiply(const Product& product, const StateFactors& factors) {
  const int steps = product.depth / TILE_K;
  const Copies<Live> copies = copies_of<Live>(product);
  const unsigned char* weights = product.weights;  // of the step that is copied
  const auto fetch = [&](int step) {
    if (step < steps) fetch_stage<Live>(copies, weights, shared_stage(step % STAGES), step);
    weights += i64{TILE_K / 16} * product.weight_pitch;
    ptx::commit_copies();
  };
  for (int step = 0; step < STAGES - 1; ++step) fetch(step);
  Sums<Live> sums = {};
  for (int step = 0; step < steps; ++step) {
    ptx::wait_copies<STAGES - 2>();
    // All copies of this step are there, and no thread reads the stage of the step before.
    ptx::block_sync();
    fetch(step + STAGES - 1);
    multiply_stage<Live>(sums, shared_stage(step % STAGES), factors);
  }
  ptx::wait_copies<0>();
  ptx::block_sync();
  store_sums<Live>(product, sums);
  ptx::block_sync();
}

// All groups of rows, or the first half of them where no more are live: code of its own each, without
// branches between multiplications.
inline void multiply_live(const Product& product, const StateFactors& factors) {
  constexpr int kHalf = kGroups / 2;
  // The decoders of 5 and 6 bits leave large blocks no registers for a second version.
  constexpr bool kHasHalf = kHalf > 0 && (BITS <= 4 || BLOCK < 64);
  if constexpr (kHasHalf) {
    if (live_groups() <= kHalf) return multiply<kHalf>(product, factors);
  }
  multiply<kGroups>(product, factors);
}

// Draws the next of `items`. Every block draws until it gets one that is none, so the last of all draws is
// known, and leaves the ticket at zero again.
inline int draw(int* ticket, int items) {
  const int item = ptx::fetch_add(ticket, 1);
  if (item == items + static_cast<int>(gridDim.x) - 1) *ticket = 0;
  return item;
}

// Multiplies every pair of a route block and one of its product's `column_tiles`. Blocks of few routes take
// less time than full ones, so whoever is done takes the next.
template <class MakeProduct>
inline void multiply_all(const FusedTrellisArguments& args, int* ticket, int column_tiles,
                         MakeProduct make_product) {
  const int items = packed_slots(args) / BLOCK * column_tiles;
  if (thread_id() == 0) *shared_item() = draw(ticket, items);
  ptx::block_sync();
  for (int item = *shared_item(); item < items; item = *shared_item()) {
    const int route_block = item / column_tiles;
    const int expert = args.block_expert_ids[route_block];
    load_rows(args, route_block);
    ptx::block_sync();
    // Ahead of the work, in whose time the answer comes.
    if (thread_id() == 0) *shared_item() = draw(ticket, items);
    if (expert >= 0 && expert < args.experts)
      multiply_live(make_product(expert, item % column_tiles), args.state_factors);
    else
      ptx::block_sync();
  }
}

inline void multiply_fc1(const FusedTrellisArguments& args) {
  const int half_tiles = static_cast<int>(args.intermediate / TILE_N);
  multiply_all(args, args.tickets, 2 * half_tiles, [&](i64 expert, int column_tile) {
    const int half = column_tile / half_tiles;  // 0: gate, 1: up; a tile lies in one of them
    const i64 column = column_tile % half_tiles * TILE_N;
    const i64 pitch = args.intermediate / 16 * kTileBytes;
    return Product{.activations = half == 0 ? args.rotation_a_gate : args.rotation_a_up,
                   .depth = static_cast<int>(args.hidden),
                   .weights = args.w13 + (half * args.experts + expert) * (args.hidden / 16) * pitch +
                              column / 16 * kTileBytes,
                   .weight_pitch = static_cast<int>(pitch),
                   .output = args.intermediate_cache13,
                   .output_pitch = static_cast<int>(2 * args.intermediate),
                   .output_column = column_tile * TILE_N};  // up stands behind gate
  });
}

inline void multiply_fc2(const FusedTrellisArguments& args) {
  multiply_all(
      args, args.tickets + 1, static_cast<int>(args.hidden / TILE_N), [&](i64 expert, int column_tile) {
        const i64 column = i64{column_tile} * TILE_N;
        const i64 pitch = args.hidden / 16 * kTileBytes;
        return Product{
            .activations = args.intermediate_cache2,
            .depth = static_cast<int>(args.intermediate),
            .weights = args.w2 + expert * (args.intermediate / 16) * pitch + column / 16 * kTileBytes,
            .weight_pitch = static_cast<int>(pitch),
            .output = args.intermediate_cache13,
            .output_pitch = static_cast<int>(args.hidden),
            .output_column = column_tile * TILE_N};
      });
}

}  // namespace

// Registers for two blocks a multiprocessor at least: a plan's grid of a block for each of its
// multiprocessors is resident on a device that has half as many.
extern "C" __global__ void __launch_bounds__(kThreads, kFusedBlocksPerSm)
    fused_trellis(const __grid_constant__ FusedTrellisArguments args) {
  run_phases(args, multiply_fc1, multiply_fc2);
}

}  // namespace moeplan
