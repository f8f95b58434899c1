// fused_packed: the experts of a launch with packed NVFP4 weights in one persistent kernel. For every valid
// route r, with its token t, its expert e, the router's weight p and everything rounded to the input's type:
//
//   FC1       g | u  = x[t] @ W13[e] * global13[e]  (* p where weights apply to the input)
//   activate  c2[r]  = silu(g) * u
//   FC2       c13[r] = c2[r] @ W2[e] * global2[e]   (* p where they do not)             where g | u were
//
// with a grid barrier between any two. Rows of other routes are never written.
//
// Tiles of a product (a route block by 128 columns) are taken in waves of one a block of the grid. What is
// left for the last wave is split along K: all its steps, one tile behind the other, are dealt out evenly.
//
//   block of the grid   0    1    2    3    4        3 tiles of 5 steps, 3 steps a block
//   steps              000  001  111  122  222
//
// Slices of one tile hand their sums over through c_tmp, in order: the one at the end of K first, because it
// is its block's first work, and the one at the start, its block's last, stores the tile. So sums do not
// depend on who is faster, and no block waits for one that waits for a third.
#include "kernels/grid_barrier.cuh"
#include "kernels/moe/arguments.hpp"
#include "kernels/moe/lanes.cuh"
#include "kernels/moe/packed_decode.cuh"
#include "kernels/moe/packed_io.cuh"
#include "kernels/moe/route.cuh"
#include "kernels/ptx.cuh"
#include "planner/moe/kernel_geometry.hpp"

namespace moeplan {
namespace {

// ---- What this variant is compiled for. ----

constexpr PackedTile kTile{BLOCK, TILE_K, TILE_N, STAGES};
constexpr PackedShared kShared = packed_shared(kTile);
static_assert(kShared.bytes == SHARED_BYTES, "host and device disagree about shared memory");

constexpr int kThreads = kFusedThreads;
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");
constexpr int kWarps = kFusedWarps;
constexpr int kGroups = BLOCK / 8;      // of 8 rows: the columns of one multiply_add
constexpr int kRowChunks = TILE_K / 8;  // 16-byte chunks of a row of a stage
static_assert(BLOCK % 8 == 0 && TILE_K % 32 == 0 && TILE_N == 16 * kWarps, "a warp has 16 columns");
static_assert(kRowChunks % 8 == 0, "the swizzle moves chunks within eight");

struct alignas(16) Chunk {
  unsigned a, b, c, d;
};
struct alignas(16) FloatQuad {
  float a, b, c, d;
};

// ---- Routes. ----

inline int route_blocks(const FusedPackedArguments& args) {
  return args.is_direct ? static_cast<int>(args.routes) : *args.packed_route_count / BLOCK;
}

// The expert of a route block, or -1.
inline i64 expert_of_block(const FusedPackedArguments& args, int route_block) {
  if (args.is_direct) {
    const i64 id = args.id_bytes == 8 ? static_cast<const long long*>(args.topk_ids)[route_block]
                                      : static_cast<const int*>(args.topk_ids)[route_block];
    return expert_of(id, args.expert_map, args.route_experts, args.experts);
  }
  const int expert = args.block_expert_ids[route_block];
  return expert >= 0 && expert < args.experts ? expert : -1;
}

// The route in a row of a block, or -1: padding.
inline int route_of_row(const FusedPackedArguments& args, int route_block, int row) {
  if (args.is_direct) return row == 0 ? route_block : -1;
  const int route = args.packed_route_indices[route_block * BLOCK + row];
  return route < args.routes ? route : -1;
}

// ---- The activation: a warp takes 128 columns of one row. ----

inline float silu(float x) {
  constexpr float kLog2E = 1.4426950408889634f;
  return ptx::divide_fast(x, 1.0f + ptx::exp2_fast(-kLog2E * x));
}

inline void activate(const FusedPackedArguments& args) {
  constexpr int kColumns = 128;
  const int row_items = static_cast<int>(ceil_div(args.intermediate, kColumns));
  const int block_rows = args.is_direct ? 1 : BLOCK;
  const int items = route_blocks(args) * block_rows * row_items;
  const int stride = static_cast<int>(gridDim.x) * kWarps;
  for (int item = static_cast<int>(blockIdx.x) * kWarps + warp_id(); item < items; item += stride) {
    const int slot = item / row_items;
    const int route = route_of_row(args, slot / block_rows, slot % block_rows);
    const i64 column = item % row_items * kColumns;
    if (route < 0 || expert_of_block(args, slot / block_rows) < 0) continue;
    if (column + 4 * lane_id() >= args.intermediate) continue;
    const HalfBits* gate_up = args.intermediate_cache13 + route * (2 * args.intermediate) + column;
    float gate[4], up[4];
    to_io_floats(gate, load_quad(gate_up));
    to_io_floats(up, load_quad(gate_up + args.intermediate));
#pragma unroll
    for (int i = 0; i < 4; ++i) gate[i] = silu(gate[i]) * up[i];
    HalfBits* to = args.intermediate_cache2 + route * args.intermediate + column;
    reinterpret_cast<HalfQuad*>(to)[lane_id()] = io_quad(gate);
  }
}

// ---- The two matrix products. ----

// What all tiles of a product have in common.
struct Product {
  const HalfBits* activations;
  int rows_per_source;           // routes that share a row of them
  int depth;                     // K: halves of such a row
  const unsigned char* weights;  // experts x K/16 x columns/64 tiles
  const unsigned char* scales;   // experts x K/16 x columns bytes
  const float* globals;          // an expert each
  const float* route_weights;    // multiply the rows; null: nothing does
  HalfBits* output;              // a row a route
  int columns;
  float* c_tmp;
};

// One tile of it: TILE_N columns of the noted rows.
struct Tile {
  const unsigned char* weights;
  const unsigned char* scales;
  i64 column;
};

// Steps over K that this block multiplies of a tile, and their place among the tile's slices, in the order in
// which these hand over.
struct Slice {
  int first;
  int end;
  int index;
  int count;
  int region;  // of c_tmp and of the locks
};

// A slice of a tile by its number: route blocks one behind the other, each with all its columns.
struct Work {
  int tile;
  Slice slice;
};

inline int* shared_rows() { return reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.rows); }
inline int* shared_sources() { return reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.sources); }
inline float* shared_factors() { return reinterpret_cast<float*>(ptx::dynamic_shared() + kShared.factors); }
inline unsigned char* shared_stage(int stage) {
  return ptx::dynamic_shared() + kShared.stages + stage * kShared.stage_bytes;
}

// Where a chunk of a stage's row lies: rows are 8 chunks apart, so without the swizzle the same chunk of
// eight rows, which one matrix load reads, would share its banks.
//
//   row 0   0 1 2 3 4 5 6 7
//   row 1   1 0 3 2 5 4 7 6
//   row 2   2 3 0 1 6 7 4 5
inline unsigned char* activation_chunk(unsigned char* stage, int row, int chunk) {
  return stage + kShared.activations + (row * kRowChunks + (chunk ^ (row & 7))) * 16;
}

// Notes what a block's rows are; route -1: padding, which is multiplied as zeros and not stored.
inline void load_rows(const FusedPackedArguments& args, const Product& product, int route_block, i64 expert) {
  for (int row = thread_id(); row < BLOCK; row += kThreads) {
    const int route = route_of_row(args, route_block, row);
    shared_rows()[row] = route;
    shared_sources()[row] = route / product.rows_per_source;
    float factor = product.globals[expert];
    if (product.route_weights && route >= 0) factor *= product.route_weights[route];
    shared_factors()[row] = factor;
  }
}

// Starts the copies of step number `step` over K.
inline void fetch_stage(const Product& product, const Tile& tile, unsigned char* stage, int step) {
#pragma unroll 1
  for (int i = thread_id(); i < BLOCK * kRowChunks; i += kThreads) {
    const int row = i / kRowChunks, chunk = i % kRowChunks;
    const bool is_padding = shared_rows()[row] < 0;
    const i64 source = is_padding ? 0 : shared_sources()[row];
    const HalfBits* from = product.activations + source * product.depth + (step * TILE_K + chunk * 8);
    ptx::copy_async(activation_chunk(stage, row, chunk), from, is_padding ? 0 : 16);
  }
  // Tiles of weights side by side are one run of bytes, and so are their scales.
  constexpr int kRuns = TILE_K / 16;
  constexpr int kWeightChunks = TILE_N / kPackedTileColumns * kPackedTileBytes / 16;
  constexpr int kScaleChunks = TILE_N / 16;
  const int run_bytes = product.columns / kPackedTileColumns * kPackedTileBytes;
#pragma unroll 1
  for (int i = thread_id(); i < kRuns * kWeightChunks; i += kThreads) {
    const int run = step * kRuns + i / kWeightChunks;
    ptx::copy_async(stage + kShared.weights + i * 16,
                    tile.weights + i64{run} * run_bytes + i % kWeightChunks * 16, 16);
  }
#pragma unroll 1
  for (int i = thread_id(); i < kRuns * kScaleChunks; i += kThreads) {
    const int run = step * kRuns + i / kScaleChunks;
    ptx::copy_async(stage + kShared.scales + i * 16,
                    tile.scales + i64{run} * product.columns + i % kScaleChunks * 16, 16);
  }
}

// Sums of a warp: [g] are its 16 columns by the 8 rows of group g, as multiply_add has them.
using Sums = float[kGroups][4];

inline void multiply_stage(Sums& sums, unsigned char* stage) {
  constexpr int kTileRow = TILE_N / kPackedTileColumns * kPackedTileBytes;
  const int lane = lane_id(), warp = warp_id();
  // A lane's four words of a 16x64 tile belong to four warps. Its scales are eight bytes: columns 0, 16, 8,
  // 24 behind its first one, then those 32 further on.
  const unsigned char* words =
      stage + kShared.weights + warp / 4 * kPackedTileBytes + (lane * 4 + warp % 4) * 4;
  const unsigned char* scales =
      stage + kShared.scales + warp / 4 * kPackedTileColumns + lane / 4 * 8 + warp % 4 / 2 * 4;
#pragma unroll
  for (int k = 0; k < TILE_K / 16; k += 2) {
    unsigned weights[2][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned word = *reinterpret_cast<const unsigned*>(words + (k + half) * kTileRow);
      const unsigned bytes = *reinterpret_cast<const unsigned*>(scales + (k + half) * TILE_N);
      decode_packed<IO_BF16>(weights[half], word, bytes >> 8 * (warp % 2));
    }
    // Rows of all groups are swizzled alike, so that one address serves them.
    const unsigned char* chunk = activation_chunk(stage, lane % 8, 2 * k + lane / 8);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      unsigned rows[4];  // 8 rows by 32 of K
      ptx::load_matrices(rows, chunk + group * 8 * kRowChunks * 16);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if constexpr (IO_BF16)
          ptx::multiply_add_bfloat16(sums[group], weights[half], rows[2 * half], rows[2 * half + 1]);
        else
          ptx::multiply_add(sums[group], weights[half], rows[2 * half], rows[2 * half + 1]);
      }
    }
  }
}

inline void multiply_slice(const Product& product, const Tile& tile, const Slice& slice, Sums& sums) {
  const int steps = slice.end - slice.first;
#pragma unroll
  for (int step = 0; step < STAGES - 1; ++step) {
    if (step < steps) fetch_stage(product, tile, shared_stage(step), slice.first + step);
    ptx::commit_copies();
  }
  for (int step = 0; step < steps; ++step) {
    ptx::wait_copies<STAGES - 2>();
    ptx::block_sync();  // all copies of this step are there, and no thread reads the stage of the step before
    const int ahead = step + STAGES - 1;
    if (ahead < steps) fetch_stage(product, tile, shared_stage(ahead % STAGES), slice.first + ahead);
    ptx::commit_copies();
    multiply_stage(sums, shared_stage(step % STAGES));
  }
  ptx::wait_copies<0>();
  ptx::block_sync();
}

// Adds what the slices before this one summed, and leaves the result to the next; of the last one, returns
// true with the whole sums.
inline bool hand_over(const Product& product, const Slice& slice, int* locks, Sums& sums) {
  // A run is a warp's sums of one group, 16 bytes a lane.
  constexpr int kSpread = packed_region_elements(kTile) / (BLOCK * TILE_N);
  float* region = product.c_tmp + slice.region * packed_region_elements(kTile);
  const auto quad_of = [&](int group) {
    const int run = (group * kWarps + warp_id()) * kSpread + (kSpread - 1);
    return reinterpret_cast<FloatQuad*>(region) + run * 32 + lane_id();
  };
  int* lock = locks + slice.region;  // the index of the slice whose turn it is
  if (slice.index > 0) {
    if (thread_id() == 0) {
      while (ptx::load_acquire(lock) != slice.index) {
      }
    }
    ptx::block_sync();
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const FloatQuad before = *quad_of(group);
      sums[group][0] += before.a;
      sums[group][1] += before.b;
      sums[group][2] += before.c;
      sums[group][3] += before.d;
    }
  }
  if (slice.index == slice.count - 1) {
    if (thread_id() == 0) *lock = 0;  // the next product is behind a grid barrier
    return true;
  }
#pragma unroll
  for (int group = 0; group < kGroups; ++group)
    *quad_of(group) = {sums[group][0], sums[group][1], sums[group][2], sums[group][3]};
  ptx::block_sync();
  if (thread_id() == 0) ptx::store_release(lock, slice.index + 1);
  return false;
}

// Scales and rounds the sums and turns them, through shared memory, into rows.
inline void store_sums(const Product& product, const Tile& tile, const Sums& sums) {
  HalfBits* rows = reinterpret_cast<HalfBits*>(shared_stage(0));
  const int lane = lane_id();
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const float(&d)[4] = sums[group];
    const int row = 8 * group + 2 * (lane % 4);
    const float first = shared_factors()[row], second = shared_factors()[row + 1];
    const unsigned upper = io_pair(d[0] * first, d[1] * second), lower = io_pair(d[2] * first, d[3] * second);
    HalfBits* at = rows + row * kShared.output_pitch + warp_id() * 16 + lane / 4;
    at[0] = static_cast<HalfBits>(upper);
    at[kShared.output_pitch] = static_cast<HalfBits>(upper >> 16);
    at[8] = static_cast<HalfBits>(lower);
    at[kShared.output_pitch + 8] = static_cast<HalfBits>(lower >> 16);
  }
  ptx::block_sync();
  constexpr int kChunks = TILE_N / 8;
  for (int i = thread_id(); i < BLOCK * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const int route = shared_rows()[row];
    if (route < 0) continue;
    *reinterpret_cast<Chunk*>(product.output + i64{route} * product.columns + tile.column + chunk * 8) =
        *reinterpret_cast<const Chunk*>(rows + row * kShared.output_pitch + chunk * 8);
  }
}

inline void multiply_item(const FusedPackedArguments& args, const Product& product, const Work& work) {
  const int column_tiles = product.columns / TILE_N;
  const int route_block = work.tile / column_tiles;
  const i64 expert = expert_of_block(args, route_block);
  if (expert < 0) return;  // for all slices of the tile
  const i64 column = i64{work.tile % column_tiles} * TILE_N;
  const i64 expert_runs = expert * (product.depth / 16);  // rows of tiles before the expert's
  const Tile tile{.weights = product.weights +
                             (expert_runs * product.columns + column) / kPackedTileColumns * kPackedTileBytes,
                  .scales = product.scales + expert_runs * product.columns + column,
                  .column = column};
  load_rows(args, product, route_block, expert);
  ptx::block_sync();
  Sums sums = {};
  multiply_slice(product, tile, work.slice, sums);
  if (work.slice.count == 1 || hand_over(product, work.slice, args.locks, sums))
    store_sums(product, tile, sums);
  ptx::block_sync();
}

// This block's work number `index`; tile -1: there is none left. Worked out anew each time, so that the
// multiplying loop's registers hold nothing of it.
inline Work work_of(const FusedPackedArguments& args, const Product& product, int index) {
  const int grid = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  const int tiles = route_blocks(args) * (product.columns / TILE_N);
  const int steps = product.depth / TILE_K;
  const int waves = tiles / grid;
  if (index < waves)
    return {block + index * grid, {.first = 0, .end = steps, .index = 0, .count = 1, .region = 0}};

  // Fewer tiles than blocks are left, so a block's share is at most a tile's steps: the end of one tile and
  // the start of the next at most.
  const int left = (tiles - waves * grid) * steps;
  const int share = (left + grid - 1) / grid;
  const int share_end = static_cast<int>(min_of(left, (block + 1) * share));
  int first = block * share;
  if (index > waves) first = (first / steps + 1) * steps;  // the next tile's start
  if (index > waves + 1 || first >= share_end) return {-1, {}};
  const int region = first / steps, tile_begin = region * steps, tile_end = tile_begin + steps;
  const int last_block = (tile_end - 1) / share;
  return {waves * grid + region,
          {.first = first - tile_begin,
           .end = static_cast<int>(min_of(share_end, tile_end)) - tile_begin,
           .index = last_block - block,
           .count = last_block - tile_begin / share + 1,
           .region = region}};
}

inline void multiply_all(const FusedPackedArguments& args, const Product& product) {
#pragma unroll 1
  for (int index = 0;; ++index) {
    const Work work = work_of(args, product, index);
    if (work.tile < 0) break;
    multiply_item(args, product, work);
  }
}

inline void multiply_fc1(const FusedPackedArguments& args) {
  multiply_all(args, {.activations = args.x,
                      .rows_per_source = static_cast<int>(args.top_k),
                      .depth = static_cast<int>(args.hidden),
                      .weights = args.w13,
                      .scales = args.w13_scales,
                      .globals = args.w13_globals,
                      .route_weights = args.weights_on_input ? args.topk_weights : nullptr,
                      .output = args.intermediate_cache13,
                      .columns = static_cast<int>(2 * args.intermediate),
                      .c_tmp = args.fc1_c_tmp});
}

inline void multiply_fc2(const FusedPackedArguments& args) {
  multiply_all(args, {.activations = args.intermediate_cache2,
                      .rows_per_source = 1,
                      .depth = static_cast<int>(args.intermediate),
                      .weights = args.w2,
                      .scales = args.w2_scales,
                      .globals = args.w2_globals,
                      .route_weights = args.weights_on_input ? nullptr : args.topk_weights,
                      .output = args.intermediate_cache13,
                      .columns = static_cast<int>(args.hidden),
                      .c_tmp = args.fc2_c_tmp});
}

}  // namespace

// At most 128 registers, so that two blocks fit a multiprocessor: a plan's grid of a block for each of its
// multiprocessors is resident on a device that has half as many.
extern "C" __global__ void __launch_bounds__(kThreads, 2)
    fused_packed(const __grid_constant__ FusedPackedArguments args) {
  const GridBarrier barrier{args.barrier, args.barrier + 1};
  multiply_fc1(args);
  grid_sync<0, 2>(barrier);
  activate(args);
  grid_sync<1, 2>(barrier);
  multiply_fc2(args);
}

}  // namespace moeplan
