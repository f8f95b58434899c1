// One tile of the lean prefill executor's products, as large as kTile says, which whoever includes this
// defines: rows of one expert times columns of its weights, over all of K. Every warp has its columns and all
// rows: it streams its Trellis tiles through a ring of its own and decodes each once. Rows come a step of 128
// of K at a time from whoever makes them, for all warps, into one of two buffers while the other is
// multiplied.
//
// A row's sums do not depend on the rows beside it: they run over K from its start to its end.
#pragma once

#include "kernels/moe/instructions.cuh"
#include "kernels/moe/lanes.cuh"
#include "kernels/moe/trellis_decode.cuh"
#include "kernels/ptx.cuh"
#include "planner/moe/lean_prefill_geometry.hpp"

namespace moeplan {

constexpr LeanPrefillShared kShared = lean_prefill_shared(kTile, BITS);
static_assert(kShared.bytes == SHARED_BYTES, "host and device disagree about shared memory");

constexpr Codebook kCodebook = static_cast<Codebook>(CODEBOOK);
constexpr int kThreads = kTile.threads();
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");
constexpr int kWarps = kTile.warps;
constexpr int kWarpColumns = kTile.warp_columns;
constexpr int kWarpTiles = kWarpColumns / 16;  // Trellis tiles side by side
constexpr int kGroups = kTile.groups;          // of 16 rows: those of one multiply_add
constexpr int kRows = 16 * kGroups;
constexpr int kTileBytes = trellis_tile_bytes(BITS);
constexpr int kRowBytes = kLeanPrefillStepK * 2;
constexpr int kPartStages = kShared.part_stages;
constexpr int kParts = kLeanPrefillStepK / 16 / kPartStages;  // of a step, in which its rows are made
static_assert(kLeanBlock % 16 == 0);
static_assert(kPartStages % 2 == 0, "every part starts with the same one of the two decoded stages");

inline int* shared_rows() { return reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.rows); }
inline int* shared_routes() { return reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.routes); }
// The item that this block takes next.
inline int* shared_item() { return reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.item); }
// What is asked for too rarely to be kept in registers.
inline int* shared_column() { return reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.column); }
inline const HalfBits** shared_suh() {
  return reinterpret_cast<const HalfBits**>(ptx::dynamic_shared() + kShared.suh);
}
inline unsigned char* shared_step(int step) {
  return ptx::dynamic_shared() + kShared.steps + step % 2 * kShared.step_bytes;
}

// Where a chunk of a step's row lies: rows are 16 chunks apart, so without the swizzle the same chunk of
// eight rows, which one matrix load reads, would share its banks.
inline unsigned char* row_chunk(unsigned char* step, int row, int chunk) {
  return step + row * kRowBytes + (chunk ^ (row & 7)) * 16;
}

struct LeanTile {
  const unsigned char* weights;  // its first Trellis tile
  int weight_pitch;              // bytes from 16 rows of K to the next
  int depth;                     // K
  int columns;                   // up to kTile.columns()
  HalfBits* output;              // a row a route; the tile's first column is shared
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

// Its Trellis tiles of 16 of K are a stage. A part's stages are fetched together, kAhead parts ahead.
class WeightRing {
 public:
  // When a part is next its first stage is decoded already, and its place is the last that may be written:
  // kAhead * kPartStages + kPartStages - 1 <= stages.
  static constexpr int kAhead = (kShared.stages + 1 - kPartStages) / kPartStages;
  static_assert(kAhead >= 2, "the first stage of the part behind the one that is multiplied is decoded too");

  WeightRing(const LeanTile& tile)
      : has_columns_(warp_id() * kWarpColumns < tile.columns),
        parts_(tile.depth / (16 * kPartStages)),
        pitch_(tile.weight_pitch),
        from_(tile.weights + warp_id() * kRunBytes),
        ring_(static_cast<int>(kShared.rings + warp_id() * kShared.ring_bytes)) {}

  bool has_columns() const { return has_columns_; }

  // Starts the copies of the part `ahead` behind number `part`, which is next, if there is one. The lanes
  // have to have read the part before, and the first stage of the next.
  void fetch(int part, int ahead) {
    const bool is_there = has_columns_ && part + ahead < parts_;
    int next = read_ + ahead * kPartStages;
    if (next >= kStages) next -= kStages;
    const unsigned ring = ptx::shared_address(ptx::dynamic_shared()) + static_cast<unsigned>(ring_);
#pragma unroll
    for (int first = 0; first < kPartChunks; first += 32) {
      const int chunk = first + ptx::opaque(lane_id()), stage = chunk / kRunChunks,
                at = chunk % kRunChunks * 16;
      const int place = next + stage - (next + stage >= kStages ? kStages : 0);
      ptx::copy_async_if(is_there && chunk < kPartChunks,
                         ring + static_cast<unsigned>(place * kRunBytes + at), from_ + stage * pitch_ + at);
    }
    from_ += kPartStages * pitch_;
    ptx::commit_copies();
  }
  // Waits for all of the next part, and for the one behind it.
  static void wait() {
    ptx::wait_copies<kAhead - 2>();
    ptx::warp_sync();
  }
  // The stage that is next.
  const unsigned char* stage() const { return ptx::dynamic_shared() + ring_ + read_ * kRunBytes; }
  void advance() { read_ = read_ + 1 == kStages ? 0 : read_ + 1; }

 private:
  static constexpr int kStages = kShared.stages;
  static constexpr int kRunBytes = kShared.stage_bytes;  // tiles side by side
  static constexpr int kRunChunks = kRunBytes / 16;
  static constexpr int kPartChunks = kPartStages * kRunChunks;

  bool has_columns_;
  int parts_;  // of all of K
  int pitch_;
  const unsigned char* from_;  // the next part that is not fetched
  int ring_;                   // in shared memory
  int read_ = 0;               // place in the ring of the stage that is next
};

// ---- The products. ----

// Of a warp: [group][tile][n] are 16 rows by 8 columns, as multiply_add has them.
template <int Live>
using LeanSums = float[Live][kWarpTiles][2][4];

// A stage of weights as halves.
using Weights = unsigned[kWarpTiles][4];
inline void decode_tile_of(Weights& weights, int tile, const unsigned char* stage,
                           const StateFactors& factors) {
  decode_tile<BITS, kCodebook>(weights[tile], reinterpret_cast<const unsigned*>(stage + tile * kTileBytes),
                               lane_id(), factors);
}

// Adds the products of one stage, number `k` of its step, and decodes the next one on the way: neither waits
// for the other.
template <int Live>
inline void multiply_stage(LeanSums<Live>& sums, unsigned step_address, int k, const Weights& weights,
                           Weights& next, const unsigned char* next_stage, const StateFactors& factors) {
  const int lane = lane_id();
  // Rows of all groups are swizzled alike, so that one address serves them.
  const unsigned chunk = step_address + lane % 16 * kRowBytes + ((2 * k + lane / 16) ^ (lane & 7)) * 16;
  // Of this group and of the next, where no other block of threads has the time in between.
  constexpr int kBuffers = kTile.blocks_per_sm == 1 ? 2 : 1;
  unsigned rows[kBuffers][4];
  if (kBuffers > 1) ptx::load_matrices(rows[0], chunk);
#pragma unroll
  for (int group = 0; group < Live; ++group) {
    const int loaded = group + kBuffers - 1;
    if (loaded < Live) ptx::load_matrices(rows[loaded % kBuffers], chunk + loaded * 16 * kRowBytes);
#pragma unroll
    for (int i = 0; i < kWarpTiles; ++i)
      if (group == i * Live / kWarpTiles) decode_tile_of(next, i, next_stage, factors);
#pragma unroll
    for (int i = 0; i < kWarpTiles; ++i) {
      // decode_tile's registers, pairs of k by columns: (0, n), (0, n + 8), (8, n), (8, n + 8).
      ptx::multiply_add(sums[group][i][0], rows[group % kBuffers], weights[i][0], weights[i][2]);
      ptx::multiply_add(sums[group][i][1], rows[group % kBuffers], weights[i][1], weights[i][3]);
    }
  }
}

// Words of neighbouring lanes, transposed: word i of lane j goes to word j of lane i.
template <int Words>
inline void transpose_words(unsigned (&words)[Words]) {
#pragma unroll
  for (int bit = 1; bit < Words; bit *= 2) {
    const bool is_upper = (lane_id() & bit) != 0;
#pragma unroll
    for (int i = 0; i < Words; ++i) {
      if (i & bit) continue;
      const unsigned other = ptx::shuffle_xor(is_upper ? words[i] : words[i + bit], bit);
      (is_upper ? words[i] : words[i + bit]) = other;
    }
  }
}

// Rounds the sums to rows of halves. Of a row, four lanes have two columns each of every 8.
template <int Live>
inline void store_sums(const LeanTile& tile, const LeanSums<Live>& sums) {
  constexpr int kWords = 2 * kWarpTiles;  // that a lane has of a row; side by side behind the transposition
  struct alignas(4 * kWords) Run {
    unsigned words[kWords];
  };
  const int lane = lane_id();
  // With two words, lanes 0 and 1 have the first halves of two runs of 8 columns, lanes 2 and 3 the second.
  const int column = lane % kWords * 8 + lane % 4 / kWords * 2 * kWords;
  HalfBits* const output = tile.output + *shared_column() + warp_id() * kWarpColumns + column;
#pragma unroll
  for (int group = 0; group < Live; ++group) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Run run;
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const float(&d)[4] = sums[group][i / 2][i % 2];
        run.words[i] = ptx::halves_of(d[2 * half] * tile.factor, d[2 * half + 1] * tile.factor);
      }
      transpose_words(run.words);
      const int route = shared_routes()[16 * group + 8 * half + lane / 4];
      if (route >= 0) *reinterpret_cast<Run*>(output + route * tile.output_pitch) = run;
    }
  }
}

// `rows` makes the rows of the step behind the one that is multiplied, in parts: start() before a part's
// products and finish() behind them.
template <int Live, class Rows>
inline void multiply(const LeanTile& tile, const Rows& rows, const StateFactors& factors) {
  const int steps = tile.depth / static_cast<int>(kLeanPrefillStepK);
  WeightRing ring(tile);
  rows.template make_first<Live>(steps);
  for (int part = 0; part < WeightRing::kAhead; ++part) ring.fetch(0, part);
  ptx::wait_copies<WeightRing::kAhead - 1>();
  ptx::block_sync();
  LeanSums<Live> sums = {};
  Weights weights[2] = {};
#pragma unroll
  for (int i = 0; i < kWarpTiles; ++i) decode_tile_of(weights[0], i, ring.stage(), factors);
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const unsigned step_address = ptx::shared_address(shared_step(step));
#pragma unroll 1
    for (int part = 0; part < kParts; ++part) {
      ring.wait();
      // Behind the wait, which would wait for these too.
      auto flight = rows.template start<Live>(step, steps, part);
      ring.fetch(step * kParts + part, WeightRing::kAhead);
#pragma unroll
      for (int k = 0; k < kPartStages; ++k) {
        ring.advance();
        if (ring.has_columns())
          multiply_stage<Live>(sums, step_address, part * kPartStages + k, weights[k % 2], weights[1 - k % 2],
                               ring.stage(), factors);
      }
      rows.template finish<Live>(flight, step, steps, part);
    }
    // Copies that were started with a step's first part are there behind it.
    ptx::wait_copies<kParts - 1>();
    ptx::block_sync();
  }
  ptx::wait_copies<0>();
  if (ring.has_columns()) store_sums<Live>(tile, sums);
}

// Code of its own for a few counts of live groups, without branches between multiplications: short blocks
// decode as much as full ones, and multiply less.
template <class Rows>
inline void multiply_live(const LeanTile& tile, const Rows& rows, const StateFactors& factors) {
  const int live = live_groups();
  if (live == 0) return;
  if (live <= 1) return multiply<1>(tile, rows, factors);
  if (live <= 2) return multiply<2>(tile, rows, factors);
  if constexpr (kGroups > 4) {
    if (live <= 4) return multiply<4>(tile, rows, factors);
    if (live <= 7) return multiply<7>(tile, rows, factors);
  }
  multiply<kGroups>(tile, rows, factors);
}

// ---- Handing out the tiles. ----

// Draws the next of `items`. Every block draws until it gets one that is none, so the last of all draws is
// known, and leaves the ticket at zero again.
inline int draw(int* ticket, int items) {
  const int item = ptx::fetch_add(ticket, 1);
  if (item == items + static_cast<int>(gridDim.x) - 1) *ticket = 0;
  return item;
}

// Every pair of a route block and one of `tiles` of columns, twice: blocks of many rows take longest and come
// first, and one of both times is the right one. With a few rows at a time, every block has several items.
struct RowItems {
  const int* packed_route_indices;
  const int* packed_route_count;
  int tiles;
  const i64& live_routes;

  static constexpr int kFewRows = 16 * kLeanPrefillFewGroups;
  static constexpr bool kHasPasses = kRows > kFewRows;
  static constexpr int kTimes = kHasPasses ? 2 : ceil_div(kLeanBlock, kRows);

  // Read where they are asked for, in place of being kept through the multiplications.
  int routes() const { return static_cast<int>(live_routes); }
  int pass() const { return *packed_route_count / static_cast<int>(kLeanBlock) * tiles; }
  int count() const { return pass() * kTimes; }

  struct Item {
    int block, first_row, tile;
  };
  Item item(int index) const {
    const int item = index % pass();
    return {item / tiles, kHasPasses ? 0 : index / pass() * kRows, item % tiles};
  }
  // Whether there is anything to multiply.
  bool is_due(int index) const {
    const Item at = item(index);
    const int* rows = packed_route_indices + at.block * static_cast<int>(kLeanBlock);
    if constexpr (kHasPasses) return (rows[kFewRows] < routes()) == (index < pass());
    return rows[at.first_row] < routes();
  }
  // Notes the routes of an item's rows, and the rows that they multiply.
  template <class RowOf>
  void note(const Item& at, RowOf row_of) const {
    for (int row = thread_id(); row < kRows; row += kThreads) {
      const int place = at.first_row + row;
      const int route = place < kLeanBlock
                            ? packed_route_indices[at.block * static_cast<int>(kLeanBlock) + place]
                            : routes();
      shared_routes()[row] = route < routes() ? route : -1;
      shared_rows()[row] = route < routes() ? row_of(route) : -1;
    }
  }
};

// Calls take(route block, column tile) for the items that this block draws, with their rows noted.
// `row_of(route)`: the row that a route multiplies.
template <class RowOf, class Take>
inline void for_each_item(const RowItems& items, int* ticket, RowOf row_of, Take take) {
  // -1: there is none.
  const auto draw_due = [&] {
    const int count = items.count();
    int item = draw(ticket, count);
    while (item < count && !items.is_due(item)) item = draw(ticket, count);
    return item < count ? item : -1;
  };
  if (thread_id() == 0) *shared_item() = draw_due();
  ptx::block_sync();
  for (int item = *shared_item(); item >= 0; item = *shared_item()) {
    const auto at = items.item(item);
    items.note(at, row_of);
    ptx::block_sync();
    // Ahead of the work, in whose time the answer comes.
    if (thread_id() == 0) *shared_item() = draw_due();
    take(at.block, at.tile);
    ptx::block_sync();
  }
}

}  // namespace moeplan
