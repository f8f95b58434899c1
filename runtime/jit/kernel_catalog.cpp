#include "runtime/jit/kernel_catalog.hpp"

#include <algorithm>
#include <iterator>

#include "kernels/arena/arguments.hpp"
#include "kernels/bench/arguments.hpp"
#include "kernels/oracle/arguments.hpp"
#include "kernels/oracle/indexer_arguments.hpp"
#include "planner/core/check.hpp"
#include "planner/core/text.hpp"
#include "planner/moe/geometry.hpp"
#include "planner/moe/lean_decode_geometry.hpp"
#include "planner/moe/lean_prefill_geometry.hpp"

namespace moeplan {
namespace {

template <KernelId id>
std::vector<KernelVariant> only_variant() {
  return {{id, {}}};
}

constexpr i64 kIdBytes[] = {4, 8};

constexpr std::string_view kRoutePackDefines[] = {"BLOCK", "ID_BYTES"};
std::vector<KernelVariant> route_pack_variants() {
  std::vector<KernelVariant> variants;
  for (i64 block : kBlockSizes) {
    for (i64 id_bytes : kIdBytes) variants.push_back(route_pack_variant(block, id_bytes));
  }
  for (i64 id_bytes : kIdBytes) variants.push_back(route_pack_variant(kLeanBlock, id_bytes));
  return variants;
}

constexpr std::string_view kFusedTrellisDefines[] = {"BLOCK",  "BITS",     "TILE_K",    "TILE_N",
                                                     "STAGES", "CODEBOOK", "INPUT_BF16"};
std::vector<KernelVariant> fused_trellis_variants() {
  std::vector<KernelVariant> variants;
  for (i64 block : kBlockSizes) {
    for (i64 bits = kFewestTrellisBits; bits <= kMostTrellisBits; ++bits) {
      for (bool is_bfloat16 : {false, true})
        variants.push_back(fused_trellis_variant(trellis_tile(block, bits), Codebook::mcg, is_bfloat16));
    }
  }
  return variants;
}

constexpr std::string_view kFusedTrellisNarrowDefines[] = {"BLOCK", "BITS", "CODEBOOK", "INPUT_BF16"};
std::vector<KernelVariant> fused_trellis_narrow_variants() {
  std::vector<KernelVariant> variants;
  for (i64 bits = kFewestTrellisBits; bits <= kMostTrellisBits; ++bits) {
    for (bool is_bfloat16 : {false, true})
      variants.push_back(fused_trellis_narrow_variant(bits, Codebook::mcg, is_bfloat16));
  }
  // No plan has these codebooks yet: this kernel shows that their weights are decoded right.
  for (Codebook codebook : {Codebook::three_instructions, Codebook::mul1}) {
    for (i64 bits = kFewestTrellisBits; bits <= kMostTrellisBits; ++bits)
      variants.push_back(fused_trellis_narrow_variant(bits, codebook, false));
  }
  return variants;
}

constexpr std::string_view kTopKSumDefines[] = {"ID_BYTES"};
std::vector<KernelVariant> top_k_sum_variants() {
  std::vector<KernelVariant> variants;
  for (i64 id_bytes : kIdBytes) variants.push_back(top_k_sum_variant(id_bytes));
  return variants;
}

constexpr std::string_view kLeanPrefillFc1Defines[] = {"BITS", "GROUPS", "CODEBOOK", "INPUT_BF16"};
std::vector<KernelVariant> lean_prefill_fc1_variants() {
  std::vector<KernelVariant> variants;
  for (i64 bits = kFewestTrellisBits; bits <= kMostTrellisBits; ++bits) {
    for (i64 groups : {kLeanPrefillFewGroups, kLeanPrefillGroups}) {
      for (bool is_bfloat16 : {false, true})
        variants.push_back(lean_prefill_fc1_variant(bits, groups, Codebook::mcg, is_bfloat16));
    }
  }
  return variants;
}

constexpr std::string_view kLeanPrefillFc2Defines[] = {"BITS", "CODEBOOK"};
std::vector<KernelVariant> lean_prefill_fc2_variants() {
  std::vector<KernelVariant> variants;
  for (i64 bits = kFewestTrellisBits; bits <= kMostTrellisBits; ++bits)
    variants.push_back(lean_prefill_fc2_variant(bits, Codebook::mcg));
  return variants;
}

constexpr std::string_view kLeanDecodeFc1Defines[] = {"BITS", "CODEBOOK", "INPUT_BF16"};
std::vector<KernelVariant> lean_decode_fc1_variants() {
  std::vector<KernelVariant> variants;
  for (i64 bits = kFewestTrellisBits; bits <= kMostTrellisBits; ++bits) {
    for (bool is_bfloat16 : {false, true})
      variants.push_back(lean_decode_fc1_variant(bits, Codebook::mcg, is_bfloat16));
  }
  return variants;
}

constexpr std::string_view kLeanDecodeFc2Defines[] = {"BITS", "CODEBOOK", "INTERMEDIATE", "SIDE"};
std::vector<KernelVariant> lean_decode_fc2_variants() {
  std::vector<KernelVariant> variants;
  for (i64 bits = kFewestTrellisBits; bits <= kMostTrellisBits; ++bits) {
    for (i64 intermediate : {128, 256, 512, 1024}) {
      if (lean_decode_fc2_shared(bits, intermediate).stages < kLeanFewestStages) continue;
      for (i64 side = 1; side <= kLeanMostSide; ++side)
        variants.push_back(lean_decode_fc2_variant(bits, Codebook::mcg, intermediate, side));
    }
  }
  return variants;
}

constexpr std::string_view kFusedPackedDefines[] = {"BLOCK", "TILE_K", "TILE_N", "STAGES", "IO_BF16"};
std::vector<KernelVariant> fused_packed_variants() {
  std::vector<KernelVariant> variants;
  for (i64 block : kBlockSizes) {
    for (bool is_bfloat16 : {false, true})
      variants.push_back(fused_packed_variant(packed_tile(block), is_bfloat16));
  }
  return variants;
}

constexpr std::string_view kRouteSumDefines[] = {"IO_BF16", "ID_BYTES"};
std::vector<KernelVariant> route_sum_variants() {
  std::vector<KernelVariant> variants;
  for (bool is_bfloat16 : {false, true}) {
    for (i64 id_bytes : kIdBytes) variants.push_back(route_sum_variant(is_bfloat16, id_bytes));
  }
  return variants;
}

constexpr std::string_view kIndexerScoreDefines[] = {"HEADS", "TOKENS", "ROWS", "WARPS"};
// Of every tile that requests take. A sieve takes those that hold all rows of one.
std::vector<KernelVariant> tile_variants(KernelVariant (*variant_of)(const ScoreTile&)) {
  std::vector<KernelVariant> variants;
  for (i64 heads : kIndexerHeads) {
    for (i64 rows = 1; rows <= kMostTileRows + 1; ++rows) {
      const ScoreTile tile = score_tile(heads, rows);
      const KernelVariant variant = variant_of(tile);
      if (variant.kernel == KernelId::indexer_sieve && rows > tile.rows) continue;
      if (std::ranges::find(variants, variant) == variants.end()) variants.push_back(variant);
    }
  }
  return variants;
}
std::vector<KernelVariant> indexer_score_variants() { return tile_variants(indexer_score_variant); }
std::vector<KernelVariant> indexer_sieve_variants() { return tile_variants(indexer_sieve_variant); }

constexpr std::string_view kIndexerSelectDefines[] = {"WARPS"};
std::vector<KernelVariant> indexer_select_variants() {
  std::vector<KernelVariant> variants;
  for (i64 warps : kSelectWarps) variants.push_back(indexer_select_variant(warps));
  return variants;
}

constexpr KernelRow kKernels[] = {
    {.id = KernelId::arena_fill,
     .name = "arena_fill",
     .source = "kernels/arena/fill.cu",
     .defines = {},
     .threads = kArenaThreads,
     .variants = only_variant<KernelId::arena_fill>},
    {.id = KernelId::arena_scan,
     .name = "arena_scan",
     .source = "kernels/arena/scan.cu",
     .defines = {},
     .threads = kArenaThreads,
     .variants = only_variant<KernelId::arena_scan>},
    {.id = KernelId::route_pack,
     .name = "route_pack",
     .source = "kernels/moe/route_pack.cu",
     .defines = kRoutePackDefines,
     .threads = kRoutePackThreads,
     .shared_bytes = [](const KernelVariant&) { return route_pack_shared().bytes; },
     .variants = route_pack_variants},
    {.id = KernelId::fused_trellis,
     .name = "fused_trellis",
     .source = "kernels/moe/fused_trellis.cu",
     .defines = kFusedTrellisDefines,
     .threads = kFusedThreads,
     .shared_bytes =
         [](const KernelVariant& variant) { return trellis_shared(trellis_tile_of(variant)).bytes; },
     .shared_depends_on_block = true,
     .has_grid_barrier = true,
     .variants = fused_trellis_variants},
    {.id = KernelId::fused_trellis_narrow,
     .name = "fused_trellis_narrow",
     .source = "kernels/moe/fused_trellis_narrow.cu",
     .defines = kFusedTrellisNarrowDefines,
     .threads = kFusedThreads,
     .shared_bytes = [](const KernelVariant& variant) { return narrow_shared(variant.values[1]).bytes; },
     // The kernel of block 8 alone: plans of other blocks launch fused_trellis.
     .shared_depends_on_block = true,
     .has_grid_barrier = true,
     .variants = fused_trellis_narrow_variants},
    {.id = KernelId::top_k_sum,
     .name = "top_k_sum",
     .source = "kernels/moe/top_k_sum.cu",
     .defines = kTopKSumDefines,
     .threads = kTopKSumThreads,
     .variants = top_k_sum_variants},
    {.id = KernelId::lean_prefill_fc1,
     .name = "lean_prefill_fc1",
     .source = "kernels/moe/lean_prefill_fc1.cu",
     .defines = kLeanPrefillFc1Defines,
     .shared_bytes =
         [](const KernelVariant& variant) {
           const auto [bits, groups] = std::pair(variant.values[0], variant.values[1]);
           return lean_prefill_shared(lean_prefill_fc1_tile(groups), bits).bytes;
         },
     .variants = lean_prefill_fc1_variants,
     .threads_of =
         [](const KernelVariant& variant) { return lean_prefill_fc1_tile(variant.values[1]).threads(); }},
    {.id = KernelId::lean_prefill_fc2,
     .name = "lean_prefill_fc2",
     .source = "kernels/moe/lean_prefill_fc2.cu",
     .defines = kLeanPrefillFc2Defines,
     .threads = lean_prefill_fc2_tile(kFewestTrellisBits).threads(),  // of all bits
     .shared_bytes =
         [](const KernelVariant& variant) {
           return lean_prefill_shared(lean_prefill_fc2_tile(variant.values[0]), variant.values[0]).bytes;
         },
     .variants = lean_prefill_fc2_variants},
    {.id = KernelId::lean_decode_fc1,
     .name = "lean_decode_fc1",
     .source = "kernels/moe/lean_decode_fc1.cu",
     .defines = kLeanDecodeFc1Defines,
     .threads = kLeanDecodeFc1Threads,
     .shared_bytes =
         [](const KernelVariant& variant) { return lean_decode_fc1_shared(variant.values[0]).bytes; },
     .overlaps_last = true,
     .variants = lean_decode_fc1_variants},
    {.id = KernelId::lean_decode_fc2,
     .name = "lean_decode_fc2",
     .source = "kernels/moe/lean_decode_fc2.cu",
     .defines = kLeanDecodeFc2Defines,
     .threads = kLeanDecodeFc2Threads,
     .shared_bytes =
         [](const KernelVariant& variant) {
           return lean_decode_fc2_shared(variant.values[0], variant.values[2]).bytes;
         },
     .overlaps_last = true,
     .variants = lean_decode_fc2_variants},
    {.id = KernelId::lean_activate,
     .name = "lean_activate",
     .source = "kernels/moe/lean_activate.cu",
     .defines = {},
     .threads = kLeanActivateThreads,
     .overlaps_last = true,
     .variants = only_variant<KernelId::lean_activate>},
    {.id = KernelId::lean_sum,
     .name = "lean_sum",
     .source = "kernels/moe/lean_sum.cu",
     .defines = {},
     .threads = kLeanSumThreads,
     .overlaps_last = true,
     .variants = only_variant<KernelId::lean_sum>},
    {.id = KernelId::fused_packed,
     .name = "fused_packed",
     .source = "kernels/moe/fused_packed.cu",
     .defines = kFusedPackedDefines,
     .threads = kFusedThreads,
     .shared_bytes =
         [](const KernelVariant& variant) { return packed_shared(packed_tile_of(variant)).bytes; },
     .shared_depends_on_block = true,
     .has_grid_barrier = true,
     .variants = fused_packed_variants},
    {.id = KernelId::route_sum,
     .name = "route_sum",
     .source = "kernels/moe/route_sum.cu",
     .defines = kRouteSumDefines,
     .threads = kTopKSumThreads,
     .variants = route_sum_variants},
    {.id = KernelId::indexer_score,
     .name = "indexer_score",
     .source = "kernels/indexer/indexer_score.cu",
     .defines = kIndexerScoreDefines,
     .shared_bytes = [](const KernelVariant& variant) { return score_shared(score_tile_of(variant)).bytes; },
     .overlaps_last = true,
     .variants = indexer_score_variants,
     .threads_of = [](const KernelVariant& variant) { return score_tile_of(variant).warps * 32; }},
    {.id = KernelId::indexer_select,
     .name = "indexer_select",
     .source = "kernels/indexer/indexer_select.cu",
     .defines = kIndexerSelectDefines,
     .shared_bytes = [](const KernelVariant&) { return select_shared().bytes; },
     .overlaps_last = true,
     .variants = indexer_select_variants,
     .threads_of = [](const KernelVariant& variant) { return variant.values[0] * 32; }},
    {.id = KernelId::indexer_gather,
     .name = "indexer_gather",
     .source = "kernels/indexer/indexer_gather.cu",
     .defines = {},
     .threads = kGatherThreads,
     .variants = only_variant<KernelId::indexer_gather>},
    {.id = KernelId::indexer_split,
     .name = "indexer_split",
     .source = "kernels/indexer/indexer_split.cu",
     .defines = {},
     .threads = kSplitThreads,
     .overlaps_last = true,
     .variants = only_variant<KernelId::indexer_split>},
    {.id = KernelId::indexer_sieve,
     .name = "indexer_sieve",
     .source = "kernels/indexer/indexer_sieve.cu",
     .defines = kIndexerScoreDefines,
     .shared_bytes = [](const KernelVariant& variant) { return score_shared(score_tile_of(variant)).bytes; },
     .overlaps_last = true,
     .variants = indexer_sieve_variants,
     .threads_of = [](const KernelVariant& variant) { return score_tile_of(variant).warps * 32; }},
    {.id = KernelId::indexer_join,
     .name = "indexer_join",
     .source = "kernels/indexer/indexer_join.cu",
     .defines = {},
     .threads = kJoinThreads,
     .overlaps_last = true,
     .variants = only_variant<KernelId::indexer_join>},
    {.id = KernelId::random_fill,
     .name = "random_fill",
     .source = "kernels/oracle/random_fill.cu",
     .defines = {},
     .threads = kOracleThreads,
     .variants = only_variant<KernelId::random_fill>},
    {.id = KernelId::trellis_reference,
     .name = "trellis_reference",
     .source = "kernels/oracle/trellis_reference.cu",
     .defines = {},
     .threads = kOracleThreads,
     .variants = only_variant<KernelId::trellis_reference>},
    {.id = KernelId::packed_reference,
     .name = "packed_reference",
     .source = "kernels/oracle/packed_reference.cu",
     .defines = {},
     .threads = kOracleThreads,
     .variants = only_variant<KernelId::packed_reference>},
    {.id = KernelId::compare_launch,
     .name = "compare_launch",
     .source = "kernels/oracle/compare_launch.cu",
     .defines = {},
     .threads = kOracleThreads,
     .variants = only_variant<KernelId::compare_launch>},
    {.id = KernelId::indexer_reference,
     .name = "indexer_reference",
     .source = "kernels/oracle/indexer_reference.cu",
     .defines = {},
     .threads = kIndexerOracleThreads,
     .variants = only_variant<KernelId::indexer_reference>},
    {.id = KernelId::mma_rate,
     .name = "mma_rate",
     .source = "kernels/bench/mma_rate.cu",
     .defines = {},
     .threads = kMmaRateThreads,
     .variants = only_variant<KernelId::mma_rate>},
};

}  // namespace

std::span<const KernelRow> kernel_catalog() { return kKernels; }

const KernelRow& row_of(KernelId id) {
  const auto* row = std::ranges::find(kKernels, id, &KernelRow::id);
  MOEPLAN_CHECK(row != std::end(kKernels), "a kernel without a row in the catalog");
  return *row;
}

KernelVariant route_pack_variant(i64 block, i64 id_bytes) {
  return {KernelId::route_pack, {block, id_bytes}};
}

KernelVariant fused_trellis_variant(const TrellisTile& tile, Codebook codebook, bool is_bfloat16) {
  return {KernelId::fused_trellis,
          {tile.block, tile.bits, tile.tile_k, tile.tile_n, tile.stages, static_cast<i64>(codebook),
           is_bfloat16}};
}

TrellisTile trellis_tile_of(const KernelVariant& variant) {
  const auto& v = variant.values;
  return {v[0], v[1], v[2], v[3], v[4]};
}

KernelVariant fused_trellis_narrow_variant(i64 bits, Codebook codebook, bool is_bfloat16) {
  return {KernelId::fused_trellis_narrow, {kNarrowBlock, bits, static_cast<i64>(codebook), is_bfloat16}};
}

KernelVariant top_k_sum_variant(i64 id_bytes) { return {KernelId::top_k_sum, {id_bytes}}; }

KernelVariant lean_prefill_fc1_variant(i64 bits, i64 groups, Codebook codebook, bool is_bfloat16) {
  return {KernelId::lean_prefill_fc1, {bits, groups, static_cast<i64>(codebook), is_bfloat16}};
}

KernelVariant lean_prefill_fc2_variant(i64 bits, Codebook codebook) {
  return {KernelId::lean_prefill_fc2, {bits, static_cast<i64>(codebook)}};
}

KernelVariant lean_decode_fc1_variant(i64 bits, Codebook codebook, bool is_bfloat16) {
  return {KernelId::lean_decode_fc1, {bits, static_cast<i64>(codebook), is_bfloat16}};
}

KernelVariant lean_decode_fc2_variant(i64 bits, Codebook codebook, i64 intermediate, i64 side) {
  return {KernelId::lean_decode_fc2, {bits, static_cast<i64>(codebook), intermediate, side}};
}

KernelVariant fused_packed_variant(const PackedTile& tile, bool is_bfloat16) {
  return {KernelId::fused_packed, {tile.block, tile.tile_k, tile.tile_n, tile.stages, is_bfloat16}};
}

PackedTile packed_tile_of(const KernelVariant& variant) {
  const auto& v = variant.values;
  return {v[0], v[1], v[2], v[3]};
}

KernelVariant route_sum_variant(bool is_bfloat16, i64 id_bytes) {
  return {KernelId::route_sum, {is_bfloat16, id_bytes}};
}

KernelVariant indexer_select_variant(i64 warps) { return {KernelId::indexer_select, {warps}}; }

KernelVariant indexer_score_variant(const ScoreTile& tile) {
  return {KernelId::indexer_score, {tile.heads, tile.tokens, tile.rows, tile.warps}};
}

KernelVariant indexer_sieve_variant(const ScoreTile& tile) {
  return {KernelId::indexer_sieve, indexer_score_variant(tile).values};
}

ScoreTile score_tile_of(const KernelVariant& variant) {
  const auto& v = variant.values;
  return {v[0], v[1], v[2], v[3]};
}

i64 threads_of(const KernelVariant& variant) {
  const KernelRow& row = row_of(variant.kernel);
  return row.threads_of ? row.threads_of(variant) : row.threads;
}

i64 shared_bytes_of(const KernelVariant& variant) {
  const KernelRow& row = row_of(variant.kernel);
  return row.shared_bytes ? row.shared_bytes(variant) : 0;
}

std::string text_of(const KernelVariant& variant) {
  const KernelRow& row = row_of(variant.kernel);
  std::string text(row.name);
  for (std::size_t i = 0; i < row.defines.size(); ++i)
    text += concat(" ", row.defines[i], "=", variant.values[i]);
  return text;
}

}  // namespace moeplan
