#include "planner/indexer/contiguous.hpp"

#include "planner/core/text.hpp"
#include "planner/indexer/device.hpp"
#include "planner/indexer/msa.hpp"
#include "planner/indexer/plan_indexer.hpp"

namespace moeplan {
namespace {

struct ContiguousSizes {
  i64 rows;
  i64 top_k;
  i64 keys;  // rounded up
  i64 chunk_keys;
  bool on_cuda;
};

using Tensor = IndexerTensor<ContiguousSizes>;
using S = const ContiguousSizes&;

constexpr i64 kDescriptorWords = 16;  // a TMA descriptor: 128 bytes

constexpr Tensor always(std::string_view name, ElementType type, Shape (*shape_of)(S),
                        std::string_view formula) {
  return {{name, type, shape_of, formula}, kContiguousRoute};
}

// On CUDA the binding writes the address of a descriptor it encoded on the device.
constexpr Tensor descriptor_pointer(std::string_view name) {
  Tensor tensor = always(
      name, ElementType::int64, [](S) { return shape(1); }, "1");
  tensor.fill = [](S s) { return Fill{s.on_cuda ? FillKind::none : FillKind::own_address, 0}; };
  return tensor;
}

constexpr Shape rows_shape(S s) { return shape(s.rows); }
constexpr Shape selected_shape(S s) { return shape(s.rows, s.top_k); }
// Always two halves, even when one chunk holds every key.
constexpr Shape carried_shape(S s) { return shape(2, s.rows, s.top_k); }
constexpr Shape descriptor_shape(S) { return shape(kDescriptorWords); }

// In arena order.
constexpr Tensor kTensors[] = {
    always(
        "k_quant", ElementType::cache, [](S s) { return shape(s.keys, kKeyElements); }, "up(keys,64)*128"),
    always(
        "k_scale", ElementType::uint8, [](S s) { return shape(s.keys, kKeyScaleBytes); }, "up(keys,64)*4"),
    always(
        "dummy_logits", ElementType::float32, [](S) { return shape(1, 1); }, "1"),
    always(
        "tile_logits", ElementType::float32,
        [](S s) { return shape(tile_logits_elements(s.rows, s.chunk_keys)); }, "up(R,32)*256*tiles"),
    always("lengths", ElementType::int32, rows_shape, "R"),
    always("topk_values", ElementType::float32, selected_shape, "R*K"),
    always("topk_indices", ElementType::int32, selected_shape, "R*K"),
    always("candidate_values", ElementType::float32, carried_shape, "2*R*K"),
    always("candidate_indices", ElementType::int32, carried_shape, "2*R*K"),
    always("metadata_k_start", ElementType::int32, rows_shape, "R"),
    always("metadata_k_end", ElementType::int32, rows_shape, "R"),
    always("k_tma_desc", ElementType::uint64, descriptor_shape, "16"),
    descriptor_pointer("k_tma_desc_ptrs"),
    always("k_tma_prefill_desc", ElementType::uint64, descriptor_shape, "16"),
    descriptor_pointer("k_tma_prefill_desc_ptrs"),
};

}  // namespace

ContiguousCaps contiguous_caps(const IndexerCaps& caps) {
  return {.max_q_rows = *caps.max_q_rows,
          .max_k_rows = *caps.max_k_rows,
          .top_k = *caps.top_k,
          .supertile_k = caps.supertile_k.value_or(kDefaultSupertile),
          .prefill_block_k = caps.prefill_block_k,
          .score_mode = caps.score_mode,
          .num_idx_heads = caps.num_idx_heads.value_or(1),
          .k_dtype = caps.k_dtype.value_or(DType::float8_e4m3fn)};
}

Result<IndexerLayout> lay_out_contiguous(const IndexerRequest& request, const ContiguousCaps& caps) {
  const i64 block_k = caps.prefill_block_k.value_or(kContiguousTileKeys);
  if (block_k != kContiguousTileKeys)
    return Error{ErrorCode::indexer_block_k, "/caps/prefill_block_k",
                 concat("prefill_block_k of a contiguous arena must be 256, got ", block_k), ""};
  const auto score_mode = parse_score_mode(caps.score_mode);
  if (!score_mode) return score_mode.error();

  const i64 keys = align_up(max_of(caps.max_k_rows, 1), kContiguousKeyStep);
  const i64 supertile = align_up(max_of(caps.supertile_k, block_k), kContiguousTileKeys);
  const i64 tiles = min_of(supertile / kContiguousTileKeys, ceil_div(keys, kContiguousTileKeys));
  const ContiguousSizes sizes{.rows = max_of(caps.max_q_rows, 1),
                              .top_k = max_of(caps.top_k, 1),
                              .keys = keys,
                              .chunk_keys = tiles * kContiguousTileKeys,
                              .on_cuda = is_cuda(request.device)};

  Result<IndexerLayout> result{IndexerLayout{}};
  IndexerLayout& layout = *result;
  layout.contract = request.contract;
  layout.route = IndexerRoute::contiguous;
  layout.route_reason = "the keys are contiguous";
  layout.meta = ContiguousMeta{.max_k_rows = keys,
                               .max_chunk_tiles = tiles,
                               .tile_logits_elements = tile_logits_elements(sizes.rows, sizes.chunk_keys)};
  place_indexer_tensors<ContiguousSizes>(layout.arena, kTensors, sizes, {.cache = caps.k_dtype});
  if (*score_mode == ScoreMode::msa)
    place_msa_tensors(layout.arena, {.heads = max_of(caps.num_idx_heads, 1),
                                     .rows = sizes.rows,
                                     .top_k = sizes.top_k,
                                     .tokens = keys,
                                     .pages = 0});
  layout.total_bytes = indexer_arena_bytes(layout.arena.end);
  return result;
}

Result<IndexerLayout> plan_indexer_contiguous(const IndexerRequest& request) {
  const IndexerCaps& caps = request.caps;
  MOEPLAN_CHECK(request.contract && caps.max_q_rows && caps.max_k_rows && caps.top_k,
                "a contiguous indexer request without its sizes");
  return lay_out_contiguous(request, contiguous_caps(caps));
}

}  // namespace moeplan
