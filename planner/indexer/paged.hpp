// The paged arena: one ordered list of tensors for the fused, the tiled and the packed route.
#pragma once

#include <string_view>

#include "planner/core/result.hpp"
#include "planner/indexer/fold.hpp"
#include "planner/indexer/layout.hpp"
#include "planner/indexer/msa.hpp"
#include "planner/indexer/request.hpp"

namespace moeplan {

// Capacities of a paged arena, with defaults and floors applied.
struct PagedCaps {
  i64 num_q_heads;
  i64 max_q_rows;            // R
  i64 max_page_table_width;  // W
  i64 top_k;                 // K
  i64 page_size;
  i64 supertile;  // requested; 0: resolve
  IndexerMode mode;
  bool shared_page_table;
  RouteChoice route;
  ScoreMode score_mode;
  i64 num_idx_heads;  // H
  bool reserve_fold;

  i64 tokens() const { return max_page_table_width * page_size; }  // T
};

// From the members of an `indexer_paged` request.
Result<PagedCaps> paged_caps(const IndexerCaps& caps);

// From those of a front door's request over pages.
Result<PagedCaps> front_door_paged_caps(IndexerCaps caps);

// The calls such a plan has to be ready for, with logical output.
FoldCapacity fold_capacity(const PagedCaps& caps, i64 supertile);

Result<IndexerLayout> lay_out_paged(const IndexerRequest& request, const PagedCaps& caps);

// Which way a call folds its candidates.
enum class FoldUse { carry, two_level };

// Whether calls of that route ever read or write the tensor; reserved bytes that no call touches are slack.
bool route_touches(IndexerRoute route, std::string_view tensor, FoldUse fold = FoldUse::carry);

}  // namespace moeplan
