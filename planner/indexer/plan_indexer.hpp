// The planners of the indexer, one a request kind: each a pure function of the request. The numbers of
// `request` are within limits.hpp, and the members its kind requires are present.
#pragma once

#include "planner/core/result.hpp"
#include "planner/indexer/layout.hpp"
#include "planner/indexer/request.hpp"

namespace moeplan {

// Arenas, from `caps`.
Result<IndexerLayout> plan_indexer_paged(const IndexerRequest& request);
Result<IndexerLayout> plan_indexer_contiguous(const IndexerRequest& request);
Result<IndexerLayout> plan_indexer(const IndexerRequest& request);  // front door of the two
Result<IndexerLayout> plan_indexer_fused(const IndexerRequest& request);
Result<IndexerLayout> plan_indexer_persistent_topk(const IndexerRequest& request);

// Calls, from `args`.
Result<IndexerLayout> plan_indexer_fold(const IndexerRequest& request);
Result<IndexerLayout> plan_indexer_fused_policy(const IndexerRequest& request);
Result<IndexerLayout> plan_indexer_step(const IndexerRequest& request);

}  // namespace moeplan
