// Every kernel of ours: one row each. A variant is a row with values for the names it is compiled with; what
// only decides how much work there is (live tokens, capacity, routes) is an argument of the launch instead.
#pragma once

#include <array>
#include <compare>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/integer.hpp"
#include "planner/indexer/kernel_geometry.hpp"
#include "planner/moe/kernel_geometry.hpp"

namespace moeplan {

enum class KernelId : i64 {
  arena_fill,
  arena_scan,
  route_pack,
  fused_trellis,
  fused_trellis_narrow,
  top_k_sum,
  lean_prefill_fc1,
  lean_prefill_fc2,
  lean_decode_fc1,
  lean_decode_fc2,
  lean_activate,
  lean_sum,
  fused_packed,
  route_sum,
  indexer_score,
  indexer_select,
  indexer_gather,
  indexer_split,
  indexer_sieve,
  indexer_join,
  random_fill,
  trellis_reference,
  packed_reference,
  compare_launch,
  indexer_reference,
  mma_rate
};

inline constexpr int kMostDefines = 10;

// A kernel with the values of its row's defines, in their order. Plain bits: launches look it up.
struct KernelVariant {
  KernelId kernel{};
  std::array<i64, kMostDefines> values{};
  auto operator<=>(const KernelVariant&) const = default;
};

struct KernelRow {
  KernelId id;
  std::string_view name;                      // its entry point too
  std::string_view source;                    // text it is compiled from, as embedded
  std::span<const std::string_view> defines;  // names; each value is passed as -DNAME=VALUE
  i64 threads;                                // a block
  i64 (*shared_bytes)(const KernelVariant&);  // dynamic, a block; null: none
  bool shared_depends_on_block;               // plans of another block size take another amount
  bool has_grid_barrier;                      // launched cooperatively: all blocks have to be resident
  bool overlaps_last;                         // may start before the launch before it ends, and waits itself
  std::vector<KernelVariant> (*variants)();   // that plans can ask for
  i64 (*threads_of)(const KernelVariant&);    // where variants differ in them; null: threads
};

std::span<const KernelRow> kernel_catalog();
const KernelRow& row_of(KernelId id);

// What proves an arena, whatever runs in it: one fills with poison and guards, the other scans.
inline constexpr KernelVariant kArenaFill = {.kernel = KernelId::arena_fill};
inline constexpr KernelVariant kArenaScan = {.kernel = KernelId::arena_scan};
inline constexpr std::array<KernelVariant, 2> kArenaKernels = {kArenaFill, kArenaScan};

// The kernels of the indexer that are compiled once for all plans.
inline constexpr KernelVariant kIndexerGather = {.kernel = KernelId::indexer_gather};
inline constexpr KernelVariant kIndexerSplit = {.kernel = KernelId::indexer_split};
inline constexpr KernelVariant kIndexerJoin = {.kernel = KernelId::indexer_join};

// What judges a plan's kernels: one makes a layer up, one computes what it has to come to, by the kind of its
// weights, and one compares.
inline constexpr KernelVariant kRandomFill = {.kernel = KernelId::random_fill};
inline constexpr KernelVariant kTrellisReference = {.kernel = KernelId::trellis_reference};
inline constexpr KernelVariant kPackedReference = {.kernel = KernelId::packed_reference};
inline constexpr KernelVariant kCompareLaunch = {.kernel = KernelId::compare_launch};

// Of a lean launch: what stands between its two products, and what stands behind them.
inline constexpr KernelVariant kLeanActivate = {.kernel = KernelId::lean_activate};
inline constexpr KernelVariant kLeanSum = {.kernel = KernelId::lean_sum};

inline constexpr KernelVariant kIndexerReference = {.kernel = KernelId::indexer_reference};

// What floors of flops are measured with.
inline constexpr KernelVariant kMmaRate = {.kernel = KernelId::mma_rate};

// Variants by what they are compiled for, in the order of their rows' defines. `id_bytes`: 4 or 8.
KernelVariant route_pack_variant(i64 block, i64 id_bytes);
KernelVariant fused_trellis_variant(const TrellisTile& tile, Codebook codebook, bool is_bfloat16);
TrellisTile trellis_tile_of(const KernelVariant& variant);
KernelVariant fused_trellis_narrow_variant(i64 bits, Codebook codebook, bool is_bfloat16);
KernelVariant top_k_sum_variant(i64 id_bytes);
KernelVariant lean_prefill_fc1_variant(i64 bits, i64 groups, Codebook codebook, bool is_bfloat16);
KernelVariant lean_prefill_fc2_variant(i64 bits, Codebook codebook);
KernelVariant lean_decode_fc1_variant(i64 bits, Codebook codebook, bool is_bfloat16);
// `side`: tiles side by side that a warp multiplies, 1 to kLeanMostSide.
KernelVariant lean_decode_fc2_variant(i64 bits, Codebook codebook, i64 intermediate, i64 side);
KernelVariant fused_packed_variant(const PackedTile& tile, bool is_bfloat16);
PackedTile packed_tile_of(const KernelVariant& variant);
KernelVariant route_sum_variant(bool is_bfloat16, i64 id_bytes);
KernelVariant indexer_score_variant(const ScoreTile& tile);
KernelVariant indexer_sieve_variant(const ScoreTile& tile);
ScoreTile score_tile_of(const KernelVariant& variant);
KernelVariant indexer_select_variant(i64 warps);

i64 threads_of(const KernelVariant& variant);
i64 shared_bytes_of(const KernelVariant& variant);
// "route_pack BLOCK=8 ID_BYTES=4": names a variant in tables and errors.
std::string text_of(const KernelVariant& variant);

}  // namespace moeplan
