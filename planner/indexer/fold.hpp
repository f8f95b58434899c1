// Two-level fold: whether a call folds its candidates in two levels, and what that allocates. The candidate
// slab lives outside every arena unless the plan reserves it.
#pragma once

#include <string_view>

#include "planner/core/result.hpp"
#include "planner/indexer/environment.hpp"

namespace moeplan {

struct FoldSettings {
  FoldMode mode;
  i64 budget_bytes;
};
Result<FoldSettings> fold_settings(const IndexerEnvironment& env);

// One call. All sizes are positive.
struct FoldCall {
  i64 rows;
  i64 top_k;
  i64 page_size;
  i64 pages;        // live width of the page table
  i64 chunk_pages;  // pages of a supertile
  bool output_physical_slots;
};

struct FoldDecision {
  bool two_level;
  i64 total_slices;     // S_f; 0 on carry
  i64 candidate_bytes;  // of the slab; 0 where the size did not matter
  std::string_view reason;
};
// An Error about the field at `rows_pointer` when the slab leaves 63 bits.
Result<FoldDecision> choose_fold(const FoldCall& call, const FoldSettings& settings,
                                 std::string_view rows_pointer);

// The calls a plan has to be ready for.
struct FoldCapacity {
  i64 max_rows;
  i64 top_k;
  i64 page_size;
  i64 max_pages;
  i64 chunk_pages;
  bool output_physical_slots;
};

// The largest slab any call of the capacity allocates, and the narrowest call that does.
struct FoldPeak {
  i64 bytes;  // 0: no call folds in two levels
  i64 rows;
  i64 pages;
  i64 tokens;
  i64 slices;
};
FoldPeak worst_fold_slab(const FoldCapacity& capacity, const FoldSettings& settings);

}  // namespace moeplan
