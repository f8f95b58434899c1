#include "runtime/jit/kernel_catalog.hpp"

#include <algorithm>
#include <iterator>

#include "planner/core/check.hpp"
#include "planner/core/text.hpp"
#include "planner/moe/geometry.hpp"

namespace moeplan {
namespace {

template <KernelId id>
std::vector<KernelVariant> only_variant() {
  return {{id, {}}};
}

constexpr i64 kIdBytes[] = {4, 8};
constexpr i64 kMcgCodebook = 1;                           // as kernels/moe/trellis_decode.cuh numbers them
constexpr i64 kSharedLimits[] = {99 * 1024, 227 * 1024};  // of the parts that plans are made for

constexpr std::string_view kRoutePackDefines[] = {"BLOCK", "ID_BYTES"};
std::vector<KernelVariant> route_pack_variants() {
  std::vector<KernelVariant> variants;
  for (i64 block : kBlockSizes) {
    for (i64 id_bytes : kIdBytes) variants.push_back(route_pack_variant(block, id_bytes));
  }
  return variants;
}

constexpr std::string_view kFusedTrellisDefines[] = {"BLOCK",  "BITS",     "TILE_K",    "TILE_N",
                                                     "STAGES", "CODEBOOK", "INPUT_BF16"};
std::vector<KernelVariant> fused_trellis_variants() {
  std::vector<KernelVariant> variants;
  for (i64 block : kBlockSizes) {
    for (i64 bits = kFewestTrellisBits; bits <= kMostTrellisBits; ++bits) {
      for (bool is_bfloat16 : {false, true}) {
        for (i64 limit : kSharedLimits) {
          const KernelVariant variant = fused_trellis_variant(trellis_tile(block, bits, limit), is_bfloat16);
          if (std::ranges::find(variants, variant) == variants.end()) variants.push_back(variant);
        }
      }
    }
  }
  return variants;
}

constexpr std::string_view kTopKSumDefines[] = {"ID_BYTES"};
std::vector<KernelVariant> top_k_sum_variants() {
  std::vector<KernelVariant> variants;
  for (i64 id_bytes : kIdBytes) variants.push_back(top_k_sum_variant(id_bytes));
  return variants;
}

constexpr KernelRow kKernels[] = {
    {.id = KernelId::arena_fill,
     .name = "arena_fill",
     .source = "kernels/arena/fill.cu",
     .defines = {},
     .threads = 256,
     .variants = only_variant<KernelId::arena_fill>,
     .what = "poison of tensors, and the pattern of guards"},
    {.id = KernelId::arena_scan,
     .name = "arena_scan",
     .source = "kernels/arena/scan.cu",
     .defines = {},
     .threads = 256,
     .variants = only_variant<KernelId::arena_scan>,
     .what = "first and last byte of a range that left its pattern, and how many did"},
    {.id = KernelId::route_pack,
     .name = "route_pack",
     .source = "kernels/moe/route_pack.cu",
     .defines = kRoutePackDefines,
     .threads = kRoutePackThreads,
     .shared_bytes = [](const KernelVariant&) { return route_pack_shared().bytes; },
     .variants = route_pack_variants,
     .what = "routes sorted by expert, padded to blocks"},
    {.id = KernelId::fused_trellis,
     .name = "fused_trellis",
     .source = "kernels/moe/fused_trellis.cu",
     .defines = kFusedTrellisDefines,
     .threads = kFusedThreads,
     .shared_bytes =
         [](const KernelVariant& variant) {
           const auto& v = variant.values;
           return trellis_shared({v[0], v[1], v[2], v[3], v[4]}).bytes;
         },
     .has_grid_barrier = true,
     .variants = fused_trellis_variants,
     .what = "input rotation, FC1, activation and FC2 of a Trellis launch"},
    {.id = KernelId::top_k_sum,
     .name = "top_k_sum",
     .source = "kernels/moe/top_k_sum.cu",
     .defines = kTopKSumDefines,
     .threads = kTopKSumThreads,
     .variants = top_k_sum_variants,
     .what = "output rotation and weighted sum of a token's routes"},
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

KernelVariant fused_trellis_variant(const TrellisTile& tile, bool is_bfloat16) {
  return {KernelId::fused_trellis,
          {tile.block, tile.bits, tile.tile_k, tile.tile_n, tile.stages, kMcgCodebook, is_bfloat16}};
}

KernelVariant top_k_sum_variant(i64 id_bytes) { return {KernelId::top_k_sum, {id_bytes}}; }

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
