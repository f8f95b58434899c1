// The routes of a decoding launch, sorted by expert into blocks of 8. Every block of threads sorts them
// anew into its own shared memory: for so few that is quicker than a launch of its own.
#pragma once

#include "kernels/moe/instructions.cuh"
#include "kernels/moe/lanes.cuh"
#include "kernels/moe/lean_decode_arguments.hpp"
#include "kernels/moe/lean_routing.cuh"
#include "kernels/moe/trellis_decode.cuh"
#include "planner/moe/lean_decode_geometry.hpp"

namespace moeplan {

// A block of routes: its expert, its first slot, and how many rows it has.
struct LeanBlock {
  int expert, first, rows;
};
inline unsigned packed(const LeanBlock& block) {
  return static_cast<unsigned>(block.expert | block.first << 10 | block.rows << 20);
}
inline LeanBlock unpacked(unsigned bits) {
  return {static_cast<int>(bits & 1023), static_cast<int>(bits >> 10 & 1023), static_cast<int>(bits >> 20)};
}
static_assert(kLeanExperts <= 1024 && kLeanRoutes <= 1024, "ten bits each");

// Counts of slots and of blocks travel in one word.
constexpr int kBlockShift = 16;
constexpr int kSlotMask = (1 << kBlockShift) - 1;

// Notes the blocks of an expert. `before`: slots and blocks of those before it.
inline void add_blocks(const LeanTables& tables, int before, int expert, int count) {
  auto* blocks = reinterpret_cast<unsigned*>(ptx::dynamic_shared() + tables.blocks) + (before >> kBlockShift);
  for (int row = 0; row < count; row += kLeanDecodeBlock)
    blocks[row / kLeanDecodeBlock] =
        packed({expert, (before & kSlotMask) + row, static_cast<int>(min_of(kLeanDecodeBlock, count - row))});
}

// As sort_routes, of at most 32 routes, a lane of the first warp each.
inline void sort_few_routes(const LeanRouting& routing, const LeanTables& tables) {
  if (warp_id() == 0) {
    unsigned char* const shared = ptx::dynamic_shared();
    const int lane = lane_id();
    const int expert = lane < routing.routes ? routed_expert(routing, lane) : -1;
    const unsigned peers = ptx::match_any(expert), lower = peers & ((1u << lane) - 1);
    const int count = ptx::population(peers);
    const bool is_first = expert >= 0 && lower == 0;
    const int own = is_first ? count | static_cast<int>(ceil_div(count, kLeanDecodeBlock)) << kBlockShift : 0;
    int through = own;
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = ptx::shuffle_up(through, distance);
      if (lane >= distance) through += other;
    }
    if (lane == 31) *reinterpret_cast<int*>(shared + tables.block_count) = through >> kBlockShift;
    const int before = through - own;
    if (is_first) add_blocks(tables, before, expert, count);
    // Of the expert's first route, the lowest of the peers.
    const int first = ptx::shuffle(before, ptx::population((peers & (0u - peers)) - 1)) & kSlotMask;
    if (expert >= 0)
      reinterpret_cast<HalfBits*>(shared + tables.slots)[first + ptx::population(lower)] =
          static_cast<HalfBits>(lane);
  }
  ptx::block_sync();
}

// Fills the tables. `counts`: room for kLeanExperts ints that is free until the function returns. Returns the
// number of blocks.
template <int Threads>
inline int sort_routes(const LeanRouting& routing, const LeanTables& tables, int* counts) {
  if (routing.routes <= 32) {
    sort_few_routes(routing, tables);
    return *reinterpret_cast<const int*>(ptx::dynamic_shared() + tables.block_count);
  }
  constexpr int kOwn = ceil_div(kLeanRoutes, Threads);
  unsigned char* const shared = ptx::dynamic_shared();
  int* const block_count = reinterpret_cast<int*>(shared + tables.block_count);
  const int routes = static_cast<int>(routing.routes);
  for (int expert = thread_id(); expert < kLeanExperts; expert += Threads) counts[expert] = 0;
  int experts[kOwn], ranks[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int route = i * Threads + thread_id();
    experts[i] = route < routes ? routed_expert(routing, route) : -1;
  }
  ptx::block_sync();
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
    ranks[i] = experts[i] >= 0 ? ptx::fetch_add_shared(counts + experts[i], 1) : 0;
  ptx::block_sync();
  if (warp_id() == 0) {
    const int share = static_cast<int>(ceil_div(routing.experts, 32));
    const int begin = lane_id() * share;
    const int end = static_cast<int>(min_of(begin + share, routing.experts));
    int sum = 0;
    for (int expert = begin; expert < end; ++expert)
      sum += counts[expert] | static_cast<int>(ceil_div(counts[expert], kLeanDecodeBlock)) << kBlockShift;
    int through = sum;
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = ptx::shuffle_up(through, distance);
      if (lane_id() >= distance) through += other;
    }
    if (lane_id() == 31) *block_count = through >> kBlockShift;
    int before = through - sum;
    for (int expert = begin; expert < end; ++expert) {
      const int count = counts[expert];
      add_blocks(tables, before, expert, count);
      counts[expert] = (before & kSlotMask) | count << kBlockShift;
      before += count | static_cast<int>(ceil_div(count, kLeanDecodeBlock)) << kBlockShift;
    }
  }
  ptx::block_sync();
  auto* slots = reinterpret_cast<HalfBits*>(shared + tables.slots);
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    if (experts[i] >= 0)
      slots[(counts[experts[i]] & kSlotMask) + ranks[i]] = static_cast<HalfBits>(i * Threads + thread_id());
  }
  ptx::block_sync();
  // Ranks came as threads did. Where an expert has several blocks, all blocks of threads have to agree on
  // which route is in which: by number.
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int route = i * Threads + thread_id();
    const int share = experts[i] >= 0 ? counts[experts[i]] : 0, count = share >> kBlockShift;
    ranks[i] = -1;
    if (count <= kLeanDecodeBlock) continue;
    ranks[i] = share & kSlotMask;
#pragma unroll 1
    for (int other = 0; other < count; ++other) ranks[i] += slots[(share & kSlotMask) + other] < route;
  }
  ptx::block_sync();
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
    if (ranks[i] >= 0) slots[ranks[i]] = static_cast<HalfBits>(i * Threads + thread_id());
  const int blocks = *block_count;
  ptx::block_sync();
  return blocks;
}

// The block's expert, slots and rows.
inline LeanBlock block_of(const LeanTables& tables, int block) {
  return unpacked(reinterpret_cast<const unsigned*>(ptx::dynamic_shared() + tables.blocks)[block]);
}
inline int route_of(const LeanTables& tables, int slot) {
  return reinterpret_cast<const HalfBits*>(ptx::dynamic_shared() + tables.slots)[slot];
}

// A worker's share of `items`, of which every worker has as many, but for one.
struct LeanShare {
  int begin, end;
};
inline LeanShare lean_share(i64 items, i64 worker, i64 workers) {
  return {static_cast<int>(items * worker / workers), static_cast<int>(items * (worker + 1) / workers)};
}

// ---- Rows as the products take them: every element twice, for the two summands of a weight. ----

// Rows of 16 of K take 32 units of 16 bytes: unit 4 n + q holds elements 2 q, 2 q + 8, 2 q + 1, 2 q + 9 of
// row n, twice each, which is what lane 4 n + q multiplies by. The swizzle keeps those who write apart.
struct alignas(16) RowUnit {
  unsigned even0, even8, odd0, odd8;
};
inline int swizzled_unit(int unit, int tile) { return unit ^ ((unit >> 3 & 3) << 1) ^ (tile & 7); }
inline RowUnit* row_unit(unsigned char* rows, int tile, int row, int quad) {
  return reinterpret_cast<RowUnit*>(rows + tile * kLeanRowTileBytes) + swizzled_unit(4 * row + quad, tile);
}

// Where the lane's unit of a tile is, as an address of shared memory. `rows`: at a multiple of 128.
inline unsigned own_unit(unsigned rows, int tile) {
  return rows + static_cast<unsigned>(tile * kLeanRowTileBytes + swizzled_unit(lane_id(), tile) * 16);
}
// The lane's unit `behind` tiles behind that of a tile whose number is a multiple of 4, or of 2 with `behind`
// below 2: (tile + behind) % 8 is tile % 8 ^ behind, so that one instruction finds it.
inline DoubledRows rows_behind(unsigned own, int behind) {
  const RowUnit unit = *reinterpret_cast<const RowUnit*>(
      ptx::shared_pointer(own ^ static_cast<unsigned>(16 * behind)) + behind * kLeanRowTileBytes);
  return {unit.even0, unit.even8, unit.odd0, unit.odd8};
}

}  // namespace moeplan
