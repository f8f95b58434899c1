// One tile of the lean prefill executor's products: up to kLeanBlock rows of one expert times
// kLeanPrefillColumns columns of its weights, over all of K. Every warp has 32 columns and all rows: it
// streams its Trellis tiles through a ring of its own and decodes each once. Rows come a step of 128 of K at a
// time from whoever makes them, for all warps, into one of two buffers while the other is multiplied.
//
// A row's sums do not depend on the rows beside it: they run over K from its start to its end.
#pragma once

#include "kernels/moe/hadamard.cuh"
#include "kernels/moe/lanes.cuh"
#include "kernels/moe/trellis_decode.cuh"
#include "kernels/ptx.cuh"
#include "planner/moe/lean_prefill_geometry.hpp"

namespace moeplan {

constexpr LeanPrefillShared kShared = lean_prefill_shared(BITS);
static_assert(kShared.bytes == SHARED_BYTES, "host and device disagree about shared memory");

constexpr Codebook kCodebook = static_cast<Codebook>(CODEBOOK);
constexpr int kThreads = kLeanPrefillThreads;
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");
constexpr int kWarps = kLeanPrefillWarps;
constexpr int kBlock = kLeanBlock;
constexpr int kGroups = kBlock / 16;  // of 16 rows: those of one multiply_add
constexpr int kStages = kShared.stages;
constexpr int kWarpTiles = kLeanPrefillWarpColumns / 16;  // Trellis tiles side by side
constexpr int kTileBytes = trellis_tile_bytes(BITS);
constexpr int kRowBytes = kLeanPrefillStepK * 2;
constexpr int kStageTileRows = kLeanPrefillStageK / 16;
constexpr int kStepStages = kLeanPrefillStepK / kLeanPrefillStageK;
static_assert(kBlock % 16 == 0 && kStages >= 2);

inline int* shared_rows() { return reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.rows); }
// The item that this block takes next.
inline int* shared_item() { return reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.item); }
inline unsigned char* shared_step(int step) {
  return ptx::dynamic_shared() + kShared.steps + step % 2 * kShared.step_bytes;
}

// Where a chunk of a step's row lies: rows are 16 chunks apart, so without the swizzle the same chunk of eight
// rows, which one matrix load reads, would share its banks.
inline unsigned char* row_chunk(unsigned char* step, int row, int chunk) {
  return step + row * kRowBytes + (chunk ^ (row & 7)) * 16;
}

struct LeanTile {
  const unsigned char* weights;  // its first Trellis tile
  i64 weight_pitch;              // bytes from 16 rows of K to the next
  int depth;                     // K
  int columns;                   // up to kLeanPrefillColumns
  HalfBits* output;              // its first column of route 0
  i64 output_pitch;              // halves, from a route to the next
  float factor;                  // of the sums
};

// Groups of 16 rows that hold a route: padding stands behind the routes.
inline int live_groups() {
  int groups = 0;
#pragma unroll
  for (int group = 0; group < kGroups; ++group) groups += shared_rows()[16 * group] >= 0;
  return groups;
}

// ---- A warp's weights. ----

class WeightRing {
 public:
  WeightRing(const LeanTile& tile)
      : has_columns_(warp_id() * static_cast<int>(kLeanPrefillWarpColumns) < tile.columns),
        left_(tile.depth / static_cast<int>(kLeanPrefillStageK)),
        pitch_(tile.weight_pitch),
        from_(tile.weights + warp_id() * kRunBytes) {}

  bool has_columns() const { return has_columns_; }

  // Starts the copies of the next stage, if there is one, into place `stage`.
  void fetch(int stage) {
    if (has_columns_ && left_ > 0) {
#pragma unroll
      for (int first = 0; first < kChunks; first += 32) {
        const int chunk = first + lane_id();
        if (first + 32 > kChunks && chunk >= kChunks) break;
        ptx::copy_async(at(stage) + chunk * 16,
                        from_ + chunk / kRunChunks * pitch_ + chunk % kRunChunks * 16, 16);
      }
    }
    --left_;
    from_ += kStageTileRows * pitch_;
    ptx::commit_copies();
  }
  static unsigned char* at(int stage) {
    return ptx::dynamic_shared() + kShared.rings + (warp_id() * kStages + stage) * kShared.stage_bytes;
  }

 private:
  static constexpr int kRunBytes = kWarpTiles * kTileBytes;  // of tiles side by side
  static constexpr int kRunChunks = kRunBytes / 16;
  static constexpr int kChunks = kStageTileRows * kRunChunks;

  bool has_columns_;
  int left_;  // stages that are not fetched
  i64 pitch_;
  const unsigned char* from_;
};

// ---- The products. ----

// Of a warp: [group][tile][n] are 16 rows by 8 columns, as multiply_add has them.
template <int Live>
using LeanSums = float[Live][kWarpTiles][2][4];

// Adds the products of one stage: `part` of the step's rows.
template <int Live>
inline void multiply_stage(LeanSums<Live>& sums, unsigned char* step, int part, const unsigned char* stage,
                           const StateFactors& factors) {
  const int lane = lane_id();
#pragma unroll
  for (int k = 0; k < kStageTileRows; ++k) {
    // The weights are the operand of 8 columns: every lane decodes what it multiplies, once for all rows.
    unsigned weights[kWarpTiles][4];
#pragma unroll
    for (int i = 0; i < kWarpTiles; ++i)
      decode_tile<BITS, kCodebook>(
          weights[i], reinterpret_cast<const unsigned*>(stage + (k * kWarpTiles + i) * kTileBytes), lane,
          factors);
    const unsigned char* chunk = row_chunk(step, lane % 16, 2 * (part * kStageTileRows + k) + lane / 16);
#pragma unroll
    for (int group = 0; group < Live; ++group) {
      unsigned rows[4];
      ptx::load_matrices(rows, chunk + group * 16 * kRowBytes);
#pragma unroll
      for (int i = 0; i < kWarpTiles; ++i) {
        // decode_tile's registers, pairs of k by columns: (0, n), (0, n + 8), (8, n), (8, n + 8).
        ptx::multiply_add(sums[group][i][0], rows, weights[i][0], weights[i][2]);
        ptx::multiply_add(sums[group][i][1], rows, weights[i][1], weights[i][3]);
      }
    }
  }
}

// Words of four neighbouring lanes, transposed: word i of lane j goes to word j of lane i.
inline void transpose_quads(unsigned (&words)[4]) {
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2) {
    const bool is_upper = (lane_id() & bit) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & bit) continue;
      const unsigned other = ptx::shuffle_xor(is_upper ? words[i] : words[i + bit], bit);
      (is_upper ? words[i] : words[i + bit]) = other;
    }
  }
}

// Rounds the sums to rows of halves. `routes`: of the block's rows.
template <int Live>
inline void store_sums(const LeanTile& tile, const LeanSums<Live>& sums, const int* routes, i64 live_routes) {
  static_assert(kWarpTiles == 2, "a lane stores one of four runs of 8 columns");
  const int lane = lane_id();
#pragma unroll
  for (int group = 0; group < Live; ++group) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      unsigned words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&d)[4] = sums[group][i / 2][i % 2];
        words[i] = ptx::halves_of(d[2 * half] * tile.factor, d[2 * half + 1] * tile.factor);
      }
      transpose_quads(words);
      const int route = routes[16 * group + 8 * half + lane / 4];
      if (route >= live_routes) continue;
      HalfBits* to = tile.output + route * tile.output_pitch + warp_id() * kLeanPrefillWarpColumns + lane % 4 * 8;
      *reinterpret_cast<HalfOctet*>(to) = {words[0], words[1], words[2], words[3]};
    }
  }
}

// `rows` makes the rows of a step, in parts: start() before the products of a stage and finish() behind them;
// settle() comes before the barrier behind which they are multiplied.
template <int Live, class Rows>
inline void multiply(const LeanTile& tile, const Rows& rows, const int* routes, i64 live_routes,
                     const StateFactors& factors) {
  const int steps = tile.depth / static_cast<int>(kLeanPrefillStepK);
  WeightRing ring(tile);
  rows.template make_first<Live>();
  for (int stage = 0; stage < kStages - 1; ++stage) ring.fetch(stage);
  ptx::wait_copies<kStages - 2>();
  ptx::block_sync();
  LeanSums<Live> sums = {};
  int place = 0;  // of the ring, that is multiplied
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const bool has_next = step + 1 < steps;
#pragma unroll 1
    for (int part = 0; part < kStepStages; ++part) {
      ptx::wait_copies<kStages - 2>();
      // All lanes' copies of this stage are there, and no lane reads the stage before.
      ptx::warp_sync();
      auto flight = rows.template start<Live>(has_next ? step + 1 : -1, part);
      ring.fetch(place == 0 ? kStages - 1 : place - 1);
      if (ring.has_columns()) multiply_stage<Live>(sums, shared_step(step), part, WeightRing::at(place), factors);
      rows.template finish<Live>(flight, has_next ? step + 1 : -1, part);
      place = place + 1 == kStages ? 0 : place + 1;
    }
    rows.settle();
    ptx::block_sync();
  }
  ptx::wait_copies<0>();
  if (ring.has_columns()) store_sums<Live>(tile, sums, routes, live_routes);
}

// Code of its own for a few counts of live groups, without branches between multiplications: short blocks
// decode as much as full ones, and multiply less.
template <class Rows>
inline void multiply_live(const LeanTile& tile, const Rows& rows, const int* routes, i64 live_routes,
                          const StateFactors& factors) {
  const int live = live_groups();
  if (live <= 1) return multiply<1>(tile, rows, routes, live_routes, factors);
  if (live <= 2) return multiply<2>(tile, rows, routes, live_routes, factors);
  if (live <= 4) return multiply<4>(tile, rows, routes, live_routes, factors);
  if (live <= 7) return multiply<7>(tile, rows, routes, live_routes, factors);
  multiply<kGroups>(tile, rows, routes, live_routes, factors);
}

// ---- Handing out the tiles. ----

// Draws the next of `items`. Every block draws until it gets one that is none, so the last of all draws is
// known, and leaves the ticket at zero again.
inline int draw(int* ticket, int items) {
  const int item = ptx::fetch_add(ticket, 1);
  if (item == items + static_cast<int>(gridDim.x) - 1) *ticket = 0;
  return item;
}

// Calls take(route block, expert, column tile) for the items that this block draws. `row_of(route)`: the row
// that a route multiplies.
template <class Arguments, class RowOf, class Take>
inline void for_each_item(const Arguments& args, int column_tiles, RowOf row_of, Take take) {
  const int items = *args.packed_route_count / kBlock * column_tiles;
  if (thread_id() == 0) *shared_item() = draw(args.ticket, items);
  ptx::block_sync();
  for (int item = *shared_item(); item < items; item = *shared_item()) {
    const int block = item / column_tiles;
    const int expert = args.block_expert_ids[block];
    for (int row = thread_id(); row < kBlock; row += kThreads) {
      const int route = args.packed_route_indices[block * kBlock + row];
      shared_rows()[row] = route < args.routes ? row_of(route) : -1;
    }
    ptx::block_sync();
    // Ahead of the work, in whose time the answer comes.
    if (thread_id() == 0) *shared_item() = draw(args.ticket, items);
    if (expert >= 0 && expert < args.experts) take(block, expert, item % column_tiles);
    ptx::block_sync();
  }
}

}  // namespace moeplan
