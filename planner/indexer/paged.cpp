#include "planner/indexer/paged.hpp"

#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"
#include "planner/indexer/device.hpp"
#include "planner/indexer/fold.hpp"
#include "planner/indexer/plan_indexer.hpp"
#include "planner/indexer/route.hpp"
#include "planner/indexer/supertile.hpp"

namespace moeplan {
namespace {

struct PagedSizes {
  i64 rows;       // R
  i64 top_k;      // K
  i64 tokens;     // T
  i64 supertile;  // st
  i64 chunks;
  i64 multiprocessors;  // S; fused only
  i64 fold_bytes;
  IndexerRoute route;
};

using Tensor = IndexerTensor<PagedSizes>;
using S = const PagedSizes&;

constexpr RouteSet kChunkedRoutes = kTiledRoute | kPackedRoute;
constexpr bool is_packed(S s) { return s.route == IndexerRoute::packed_contiguous; }
constexpr bool is_fused(S s) { return s.route == IndexerRoute::paged_fused; }
constexpr bool has_chunks(S s) { return s.chunks > 1; }

// In arena order.
constexpr Tensor kTensors[] = {
    {.rule = {"gather_k_quant", ElementType::uint8, [](S s) { return shape(s.supertile, kKeyElements); },
              "st*128"},
     .touched_by = kPackedRoute,
     .is_present = is_packed},
    {.rule = {"gather_k_scale", ElementType::uint8, [](S s) { return shape(s.supertile, kKeyScaleBytes); },
              "st*4"},
     .touched_by = kPackedRoute,
     .is_present = is_packed},
    {.rule = {"contiguous_lengths", ElementType::int32, [](S s) { return shape(s.rows); }, "R"},
     .touched_by = kPackedRoute},
    {.rule = {"runtime_lengths", ElementType::int32, [](S s) { return shape(s.rows); }, "R"},
     .touched_by = kPackedRoute},
    {.rule = {"tile_logits", ElementType::float32,
              [](S s) { return shape(tile_logits_elements(s.rows, s.supertile)); }, "up(R,32)*st"},
     .touched_by = kChunkedRoutes},
    {.rule = {"topk_values", ElementType::float32, [](S s) { return shape(s.rows, s.top_k); }, "R*K"},
     .touched_by = kChunkedRoutes},
    {.rule = {"topk_indices", ElementType::int32, [](S s) { return shape(s.rows, s.top_k); }, "R*K"},
     .touched_by = kChunkedRoutes},
    {.rule = {"candidate_values", ElementType::float32, [](S s) { return shape(2, s.rows, s.top_k); },
              "2*R*K"},
     .touched_by = kChunkedRoutes,
     .is_present = has_chunks,
     .only_carry = true},
    {.rule = {"candidate_indices", ElementType::int32, [](S s) { return shape(2, s.rows, s.top_k); },
              "2*R*K"},
     .touched_by = kChunkedRoutes,
     .is_present = has_chunks,
     .only_carry = true},
    {.rule = {"active_width", ElementType::int32, [](S) { return shape(1); }, "1"},
     .touched_by = kChunkedRoutes,
     .fill =
         [](S s) {
           return Fill{FillKind::value, max_of(s.tokens, s.supertile)};
         }},
    {.rule = {"fused_pack_values", ElementType::float32,
              [](S s) { return shape(s.multiprocessors * s.top_k); }, "sms*K"},
     .touched_by = kFusedRoute,
     .is_present = is_fused},
    {.rule = {"fused_pack_indices", ElementType::int32,
              [](S s) { return shape(s.multiprocessors * s.top_k); }, "sms*K"},
     .touched_by = kFusedRoute,
     .is_present = is_fused},
    {.rule = {"fused_merge_state", ElementType::int32, [](S s) { return shape(s.rows * kMergeStateWords); },
              "R*772"},
     .touched_by = kFusedRoute,
     .is_present = is_fused,
     .fill =
         [](S) {
           return Fill{FillKind::value, 0};
         }},
    // Ours, not the engine's: behind the engine's own tensors, whose offsets stay as they are.
    {.rule = {"fold_slab", ElementType::uint8, [](S s) { return shape(s.fold_bytes); },
              "max over widths and rows of rows*(slices*K*8+4)"},
     .touched_by = kChunkedRoutes,
     .is_present = [](S s) { return s.fold_bytes > 0; }},
};

// Bytes of the reserved fold slab; 0 when none is.
Result<i64> reserved_fold_bytes(const PagedCaps& caps, i64 supertile, IndexerRoute route,
                                const IndexerEnvironment& env) {
  if (!caps.reserve_fold || route == IndexerRoute::paged_fused) return i64{0};
  const auto settings = fold_settings(env);
  if (!settings) return settings.error();
  const FoldPeak peak = worst_fold_slab(fold_capacity(caps, supertile), *settings);
  if (peak.bytes > kMaxTileLogitsBytes)
    return Error{ErrorCode::out_of_range, "/caps/reserve_fold",
                 concat("the fold slab would pass ", kMaxTileLogitsBytes, " bytes"),
                 "set a budget, or do not force the fold"};
  return peak.bytes;
}

Status check_tokens(const PagedCaps& caps) {
  if (caps.tokens() <= kMaxIndexerTokens) return Ok{};
  return Error{ErrorCode::out_of_range, "/caps/max_page_table_width",
               concat("a page table covers at most ", kMaxIndexerTokens, " tokens, got ",
                      caps.max_page_table_width, " pages of ", caps.page_size),
               "the kernels count keys in int32"};
}

}  // namespace

Result<PagedCaps> paged_caps(const IndexerCaps& caps) {
  MOEPLAN_CHECK(caps.num_q_heads && caps.max_q_rows && caps.max_page_table_width && caps.top_k,
                "a paged indexer request without its sizes");
  const auto score_mode = parse_score_mode(caps.score_mode);
  if (!score_mode) return score_mode.error();
  return PagedCaps{.num_q_heads = max_of(*caps.num_q_heads, 1),
                   .max_q_rows = max_of(*caps.max_q_rows, 1),
                   .max_page_table_width = max_of(*caps.max_page_table_width, 1),
                   .top_k = max_of(*caps.top_k, 1),
                   .page_size = max_of(caps.page_size.value_or(kKernelPageSize), 1),
                   .supertile = max_of(caps.paged_tile_logits_k_rows.value_or(0), 0),
                   .mode = caps.mode.value_or(IndexerMode::decode),
                   .shared_page_table = caps.shared_page_table.value_or(false),
                   .route = caps.route.value_or(RouteChoice::automatic),
                   .score_mode = *score_mode,
                   .num_idx_heads = max_of(caps.num_idx_heads.value_or(1), 1),
                   .reserve_fold = caps.reserve_fold.value_or(false)};
}

FoldCapacity fold_capacity(const PagedCaps& caps, i64 supertile) {
  return {.max_rows = caps.max_q_rows,
          .top_k = caps.top_k,
          .page_size = caps.page_size,
          .max_pages = caps.max_page_table_width,
          .chunk_pages = supertile / caps.page_size,
          .output_physical_slots = false};
}

Result<IndexerLayout> lay_out_paged(const IndexerRequest& request, const PagedCaps& caps) {
  const IndexerEnvironment env(request.contract->environment_prefix, request.env);
  if (auto s = check_tokens(caps); !s) return s.error();
  const auto supertile = resolve_supertile({.rows = caps.max_q_rows,
                                            .capacity_tokens = caps.tokens(),
                                            .page_size = caps.page_size,
                                            .requested = caps.supertile},
                                           env);
  if (!supertile) return supertile.error();
  auto route = choose_route({.shape = {.rows = caps.max_q_rows,
                                       .width_tokens = caps.tokens(),
                                       .heads = caps.num_q_heads,
                                       .top_k = caps.top_k},
                             .mode = caps.mode,
                             .shared_page_table = caps.shared_page_table,
                             .choice = caps.route},
                            request.device, env);
  if (!route) return route.error();

  PagedSizes sizes{.rows = caps.max_q_rows,
                   .top_k = caps.top_k,
                   .tokens = caps.tokens(),
                   .supertile = *supertile,
                   .chunks = ceil_div(caps.max_page_table_width, *supertile / caps.page_size),
                   .multiprocessors = 0,
                   .fold_bytes = 0,
                   .route = route->route};
  PagedMeta meta{.supertile_tokens = *supertile,
                 .max_chunks = sizes.chunks,
                 .prefill_block_k = std::nullopt,
                 .tile_logits_elements = tile_logits_elements(sizes.rows, *supertile),
                 .gather_k_rows = 0,
                 .fused_pack_elements = 0,
                 .fused_state_words = 0};
  if (is_packed(sizes)) {
    const auto block_k = choose_prefill_block_k(sizes.rows, *supertile, caps.num_q_heads, env);
    if (!block_k) return block_k.error();
    meta.prefill_block_k = *block_k;
    meta.gather_k_rows = *supertile;
  }
  if (is_fused(sizes)) {
    // Only this route sizes anything by the device, so only it asks how large the device is.
    const auto multiprocessors = indexer_multiprocessors(request.device);
    if (!multiprocessors) return multiprocessors.error();
    sizes.multiprocessors = *multiprocessors;
    meta.fused_pack_elements = *multiprocessors * sizes.top_k;
    meta.fused_state_words = sizes.rows * kMergeStateWords;
  }
  const auto fold_bytes = reserved_fold_bytes(caps, *supertile, sizes.route, env);
  if (!fold_bytes) return fold_bytes.error();
  sizes.fold_bytes = *fold_bytes;

  Result<IndexerLayout> result{IndexerLayout{}};
  IndexerLayout& layout = *result;
  layout.contract = request.contract;
  layout.route = sizes.route;
  layout.route_reason = std::move(route->reason);
  layout.meta = meta;
  place_indexer_tensors<PagedSizes>(layout.arena, kTensors, sizes, {});
  if (caps.score_mode == ScoreMode::msa)
    place_msa_tensors(layout.arena, {.heads = caps.num_idx_heads,
                                     .rows = caps.max_q_rows,
                                     .top_k = caps.top_k,
                                     .tokens = caps.tokens(),
                                     .pages = caps.max_page_table_width});
  layout.total_bytes = indexer_arena_bytes(layout.arena.end);
  return result;
}

Result<IndexerLayout> plan_indexer_paged(const IndexerRequest& request) {
  MOEPLAN_CHECK(request.contract, "a request without contract");
  const auto caps = paged_caps(request.caps);
  if (!caps) return caps.error();
  return lay_out_paged(request, *caps);
}

bool route_touches(IndexerRoute route, std::string_view tensor, FoldUse fold) {
  for (const Tensor& entry : kTensors) {
    if (entry.rule.name != tensor) continue;
    return (entry.touched_by & route_bit(route)) != 0 && !(entry.only_carry && fold == FoldUse::two_level);
  }
  return true;  // MSA scores and the contiguous arena's tensors: nothing is known to be idle
}

}  // namespace moeplan
