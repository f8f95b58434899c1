#include "planner/indexer/fold.hpp"

#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"
#include "planner/indexer/geometry.hpp"

namespace moeplan {
namespace {

FoldDecision carry(std::string_view reason, i64 candidate_bytes = 0) {
  return {.two_level = false, .total_slices = 0, .candidate_bytes = candidate_bytes, .reason = reason};
}

// The widest page table that has as many slices as one of `pages` pages, seen from `pages` upwards.
i64 last_with_same_slices(i64 pages, i64 page_size, i64 chunk_pages) {
  const i64 slice = fold_slice_tokens(pages * page_size, page_size);
  const i64 whole_pages = (pages - 1) / chunk_pages * chunk_pages;
  const i64 chunk_end = whole_pages + chunk_pages;
  // Slices only grow with the context: once one holds a chunk, chunks alone count.
  if (slice >= chunk_pages * page_size) return chunk_end;
  const i64 last_slices = fold_chunk_slices((pages - whole_pages) * page_size, slice);
  return min_of(min_of(chunk_end, whole_pages + last_slices * slice / page_size),
                kFoldSlices * slice / page_size);
}

}  // namespace

Result<FoldSettings> fold_settings(const IndexerEnvironment& env) {
  const auto mode = env.fold_mode();
  if (!mode) return mode.error();
  const auto budget = env.fold_budget_bytes();
  if (!budget) return budget.error();
  return FoldSettings{*mode, *budget};
}

Result<FoldDecision> choose_fold(const FoldCall& call, const FoldSettings& settings,
                                 std::string_view rows_pointer) {
  if (call.output_physical_slots) return carry("physical output requires streaming carry");
  if (call.pages * call.page_size < kFoldMinTokens) return carry("context is below the two-level threshold");
  if (settings.mode == FoldMode::off) return carry("two-level fold is disabled");

  const i64 slices = fold_total_slices(call.pages, call.page_size, call.chunk_pages);
  const i64 row_bytes = fold_row_bytes(slices, call.top_k);
  if (call.rows > kMaxFoldBytes / row_bytes)
    return Error{ErrorCode::out_of_range, std::string(rows_pointer),
                 concat("the fold slab of ", call.rows, " rows with ", slices, " slices leaves 63 bits"), ""};
  const i64 bytes = call.rows * row_bytes;
  if (settings.mode == FoldMode::automatic && bytes > settings.budget_bytes)
    return carry("candidate slab exceeds the memory budget", bytes);
  return FoldDecision{.two_level = true,
                      .total_slices = slices,
                      .candidate_bytes = bytes,
                      .reason = settings.mode == FoldMode::on ? "forced" : "within memory budget"};
}

FoldPeak worst_fold_slab(const FoldCapacity& capacity, const FoldSettings& settings) {
  FoldPeak peak{};
  if (settings.mode == FoldMode::off || capacity.output_physical_slots) return peak;
  // The slab follows from rows and slices alone, and slices are no monotone function of the width: a narrower
  // table can need more than the widest. So each run of widths with equal slices is visited once.
  const i64 page = capacity.page_size;
  for (i64 pages = ceil_div(kFoldMinTokens, page); pages <= capacity.max_pages;
       pages = last_with_same_slices(pages, page, capacity.chunk_pages) + 1) {
    const i64 slices = fold_total_slices(pages, page, capacity.chunk_pages);
    const i64 row_bytes = fold_row_bytes(slices, capacity.top_k);
    const i64 most_bytes = settings.mode == FoldMode::automatic ? settings.budget_bytes : kMaxFoldBytes;
    const i64 rows = min_of(capacity.max_rows, most_bytes / row_bytes);
    if (rows * row_bytes > peak.bytes) peak = {rows * row_bytes, rows, pages, pages * page, slices};
  }
  return peak;
}

}  // namespace moeplan
