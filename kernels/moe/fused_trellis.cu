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
#include "kernels/grid_barrier.cuh"
#include "kernels/moe/arguments.hpp"
#include "kernels/moe/hadamard.cuh"
#include "kernels/moe/lanes.cuh"
#include "kernels/moe/trellis_decode.cuh"
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

// Small blocks leave room for an output tile beside the stages: then copies go on while a tile is stored, and
// FC2, whose K is short, takes several tiles in a run.
constexpr bool kOutputTakesStages = kShared.output == kShared.stages;
constexpr int kFc2Run = kOutputTakesStages ? 1 : 3;
constexpr int kStepsAtATime = BLOCK <= 16 ? 2 : 1;

constexpr i64 kTileBytes = trellis_tile_bytes(BITS);
constexpr i64 kTilePitch = TILE_N / 16 * kTileBytes;  // from one tile of TILE_N columns to the next

struct alignas(16) Chunk {
  unsigned a, b, c, d;
};

// The routes that are packed, padding included.
inline int packed_slots(const FusedTrellisArguments& args) { return *args.packed_route_count; }

// A route with its expert; expert -1: padding, or an expert that is not among the weights'.
struct Route {
  int route;
  int expert;
};
inline Route route_of_slot(const FusedTrellisArguments& args, int slot) {
  const int route = args.packed_route_indices[slot];
  const int expert = args.block_expert_ids[slot / BLOCK];
  const bool is_live = route < args.routes && expert >= 0 && expert < args.experts;
  return {route, is_live ? expert : -1};
}

// ---- Blocks of 128. ----

inline HalfQuad load_input(const HalfBits* block) {
  HalfQuad quad = load_quad(block);
  if constexpr (INPUT_BF16) {
    // A bf16 is the upper half of a float.
    const auto low = [](unsigned pair) { return __builtin_bit_cast(float, pair << 16); };
    const auto high = [](unsigned pair) { return __builtin_bit_cast(float, pair & 0xFFFF0000u); };
    quad = {ptx::halves_of(low(quad.low), high(quad.low)), ptx::halves_of(low(quad.high), high(quad.high))};
  }
  return quad;
}

// Transforms and stores.
inline void store_rotated(HalfBits* block, float (&v)[4]) {
  hadamard128(v);
  reinterpret_cast<HalfQuad*>(block)[lane_id()] = {
      ptx::halves_of(v[0] * kHadamardScale, v[1] * kHadamardScale),
      ptx::halves_of(v[2] * kHadamardScale, v[3] * kHadamardScale)};
}

// ---- The two phases of rotations: a warp takes one block of 128 of one row. ----

inline void rotate_block(HalfBits* output, const HalfQuad& input, const HalfBits* suh) {
  const HalfQuad scale = load_quad(suh);
  float v[4];
  to_floats(v, {ptx::multiply_halves(input.low, scale.low), ptx::multiply_halves(input.high, scale.high)});
  store_rotated(output, v);
}

inline void rotate_inputs(const FusedTrellisArguments& args) {
  const int row_blocks = static_cast<int>(args.hidden / kHadamardBlock);
  const int items = packed_slots(args) * row_blocks;
  const int stride = static_cast<int>(gridDim.x) * kWarps;
  for (int item = static_cast<int>(blockIdx.x) * kWarps + warp_id(); item < items; item += stride) {
    const Route at = route_of_slot(args, item / row_blocks);
    if (at.expert < 0) continue;
    const i64 column = item % row_blocks * kHadamardBlock;
    const HalfQuad input = load_input(args.x + at.route / args.top_k * args.hidden + column);
    const i64 to = at.route * args.hidden + column;
    rotate_block(args.rotation_a_gate + to, input, args.gate_suh + at.expert * args.gate_suh_stride + column);
    rotate_block(args.rotation_a_up + to, input, args.up_suh + at.expert * args.up_suh_stride + column);
  }
}

// v becomes H v / sqrt 128 * svh.
inline void rotate_output(float (&v)[4], const HalfBits* svh) {
  float scale[4];
  load_floats(scale, svh);
  hadamard128(v);
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] *= kHadamardScale * scale[i];
}

inline float silu(float x) {
  constexpr float kLog2E = 1.4426950408889634f;
  return ptx::divide_fast(x, 1.0f + ptx::exp2_fast(-kLog2E * x));
}

inline void activate(const FusedTrellisArguments& args) {
  const int row_blocks = static_cast<int>(args.intermediate / kHadamardBlock);
  const int items = packed_slots(args) * row_blocks;
  const int stride = static_cast<int>(gridDim.x) * kWarps;
  for (int item = static_cast<int>(blockIdx.x) * kWarps + warp_id(); item < items; item += stride) {
    const Route at = route_of_slot(args, item / row_blocks);
    if (at.expert < 0) continue;
    const i64 column = item % row_blocks * kHadamardBlock;
    const HalfBits* gate_up = args.intermediate_cache13 + at.route * (2 * args.intermediate) + column;
    const HalfBits* scales = args.intermediate_rotations + at.expert * (3 * args.intermediate) + column;
    float gate[4], up[4], down_suh[4];
    load_floats(gate, gate_up);
    load_floats(up, gate_up + args.intermediate);
    load_floats(down_suh, scales + 2 * args.intermediate);
    rotate_output(gate, scales);
    rotate_output(up, scales + args.intermediate);
#pragma unroll
    for (int i = 0; i < 4; ++i) gate[i] = silu(gate[i]) * up[i] * down_suh[i];
    store_rotated(args.intermediate_cache2 + at.route * args.intermediate + column, gate);
  }
}

// ---- The two matrix products. ----

// One tile: rows of a route block times TILE_N columns of its expert's weights, over all of K.
struct Product {
  const HalfBits* activations;   // a row a route
  int depth;                     // K: halves of such a row
  const unsigned char* weights;  // the tile's first Trellis tile
  int weight_pitch;              // bytes from 16 rows of K to the next
  HalfBits* output;              // the tile's first column of route 0
  int output_pitch;              // halves
};

inline int* shared_rows() { return reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.rows); }
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

// Starts the copies of step number `step` over K, of `Live` groups of rows and of the tile at `weights`.
template <int Live>
inline void fetch_stage(const Product& product, const unsigned char* weights, unsigned char* stage,
                        int step) {
#pragma unroll 1
  for (int i = thread_id(); i < Live * 8 * kRowChunks; i += kThreads) {
    const int row = i / kRowChunks, chunk = i % kRowChunks;
    const int route = shared_rows()[row];
    const HalfBits* from =
        product.activations + max_of(route, 0) * product.depth + (step * TILE_K + chunk * 8);
    ptx::copy_async(activation_chunk(stage, row, chunk), from, route < 0 ? 0 : 16);
  }
  // Trellis tiles side by side are one run of bytes.
  constexpr int kRunChunks = TILE_N / 16 * kTileWords / 4;
#pragma unroll 1
  for (int i = thread_id(); i < TILE_K / 16 * kRunChunks; i += kThreads) {
    const int run = i / kRunChunks, chunk = i % kRunChunks;
    const unsigned char* from = weights + i64{step * (TILE_K / 16) + run} * product.weight_pitch + chunk * 16;
    ptx::copy_async(stage + kShared.weights + i * 16, from, 16);
  }
}

// Sums of a warp: [i][g] are the 16 columns of its tile i by the 8 rows of group g, as multiply_add has them.
template <int Live>
using Sums = float[kWarpTiles][Live][4];

template <int Live>
inline void multiply_stage(Sums<Live>& sums, unsigned char* stage, const StateFactors& factors) {
  const int lane = lane_id();
  const unsigned* words = reinterpret_cast<const unsigned*>(stage + kShared.weights);
// Large blocks have no registers for the decoders of several steps at a time.
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
  HalfBits* tile = reinterpret_cast<HalfBits*>(ptx::dynamic_shared() + kShared.output);
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
  for (int i = thread_id(); i < Live * 8 * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const int route = shared_rows()[row];
    if (route < 0) continue;
    *reinterpret_cast<Chunk*>(product.output + i64{route} * product.output_pitch + chunk * 8) =
        *reinterpret_cast<const Chunk*>(tile + row * kShared.output_pitch + chunk * 8);
  }
}

// One item: `tiles` tiles side by side, whose copies follow each other without a pause. The block's rows are
// noted; behind it shared memory is free again.
template <int Live>
inline void multiply(Product product, int run_tiles, const StateFactors& factors) {
  const int tiles = kOutputTakesStages ? 1 : run_tiles;
  const int steps = static_cast<int>(product.depth / TILE_K), all_steps = tiles * steps;
  const unsigned char* weights = product.weights;  // of the tile that is copied
  int skipped = 0;                                 // steps of the tiles before it
  const auto fetch = [&](int at) {
    if (at < all_steps) {
      if (!kOutputTakesStages && at - skipped == steps) {
        skipped = at;
        weights += kTilePitch;
      }
      fetch_stage<Live>(product, weights, shared_stage(at % STAGES), at - skipped);
    }
    ptx::commit_copies();
  };
  for (int at = 0; at < STAGES - 1; ++at) fetch(at);
  int at = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    Sums<Live> sums = {};
    for (int step = 0; step < steps; ++step, ++at) {
      ptx::wait_copies<STAGES - 2>();
      // All copies of this step are there, and no thread reads the stage of the step before.
      ptx::block_sync();
      fetch(at + STAGES - 1);
      multiply_stage<Live>(sums, shared_stage(at % STAGES), factors);
    }
    if constexpr (kOutputTakesStages) {
      ptx::wait_copies<0>();
      ptx::block_sync();
    }
    store_sums<Live>(product, sums);
    product.output += TILE_N;
  }
  ptx::block_sync();
}

// All groups of rows, or the first half of them where no more are live: code of its own each, without
// branches between multiplications.
inline void multiply_live(const Product& product, int tiles, const StateFactors& factors) {
  constexpr int kHalf = kGroups / 2;
  // The decoders of 5 and 6 bits leave large blocks no registers for a second version.
  constexpr bool kHasHalf = kHalf > 0 && (BITS <= 4 || BLOCK < 64);
  if constexpr (kHasHalf) {
    if (live_groups() <= kHalf) return multiply<kHalf>(product, tiles, factors);
  }
  multiply<kGroups>(product, tiles, factors);
}

// Calls multiply for every pair of a route block and a run of `run` of the `column_tiles` tiles that is this
// block's.
template <class MakeProduct>
inline void multiply_all(const FusedTrellisArguments& args, int column_tiles, int run,
                         MakeProduct make_product) {
  const int runs = (column_tiles + run - 1) / run;
  const int items = packed_slots(args) / BLOCK * runs;
  for (int item = static_cast<int>(blockIdx.x); item < items; item += static_cast<int>(gridDim.x)) {
    const int route_block = item / runs;
    const int expert = args.block_expert_ids[route_block];
    if (expert < 0 || expert >= args.experts) continue;
    load_rows(args, route_block);
    ptx::block_sync();
    const int first = item % runs * run;
    const int tiles = static_cast<int>(min_of(run, column_tiles - first));
    multiply_live(make_product(expert, first), tiles, args.state_factors);
  }
}

inline void multiply_fc1(const FusedTrellisArguments& args) {
  const int half_tiles = static_cast<int>(args.intermediate / TILE_N);
  multiply_all(args, 2 * half_tiles, 1, [&](i64 expert, int column_tile) {
    const int half = column_tile / half_tiles;  // 0: gate, 1: up; a tile lies in one of them
    const i64 column = column_tile % half_tiles * TILE_N;
    const i64 pitch = args.intermediate / 16 * kTileBytes;
    return Product{.activations = half == 0 ? args.rotation_a_gate : args.rotation_a_up,
                   .depth = static_cast<int>(args.hidden),
                   .weights = args.w13 + (half * args.experts + expert) * (args.hidden / 16) * pitch +
                              column / 16 * kTileBytes,
                   .weight_pitch = static_cast<int>(pitch),
                   .output = args.intermediate_cache13 + half * args.intermediate + column,
                   .output_pitch = static_cast<int>(2 * args.intermediate)};
  });
}

inline void multiply_fc2(const FusedTrellisArguments& args) {
  multiply_all(args, static_cast<int>(args.hidden / TILE_N), kFc2Run, [&](i64 expert, int column_tile) {
    const i64 column = i64{column_tile} * TILE_N;
    const i64 pitch = args.hidden / 16 * kTileBytes;
    return Product{.activations = args.intermediate_cache2,
                   .depth = static_cast<int>(args.intermediate),
                   .weights = args.w2 + expert * (args.intermediate / 16) * pitch + column / 16 * kTileBytes,
                   .weight_pitch = static_cast<int>(pitch),
                   .output = args.intermediate_cache13 + column,
                   .output_pitch = static_cast<int>(args.hidden)};
  });
}

}  // namespace

// Registers for two blocks a multiprocessor at least: a plan's grid of a block for each of its
// multiprocessors is resident on a device that has half as many.
extern "C" __global__ void __launch_bounds__(kThreads, fused_blocks_per_sm(BLOCK))
    fused_trellis(const __grid_constant__ FusedTrellisArguments args) {
  const GridBarrier barrier{args.barrier, args.barrier + 1};
  rotate_inputs(args);
  grid_sync<0, 3>(barrier);
  multiply_fc1(args);
  grid_sync<1, 3>(barrier);
  activate(args);
  grid_sync<2, 3>(barrier);
  multiply_fc2(args);
}

}  // namespace moeplan
