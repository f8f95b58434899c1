// The contiguous arena: keys packed once, scored by supertiles of 256-key tiles.
#pragma once

#include "planner/core/result.hpp"
#include "planner/indexer/layout.hpp"
#include "planner/indexer/request.hpp"

namespace moeplan {

// Capacities of a contiguous arena; the members as requested.
struct ContiguousCaps {
  i64 max_q_rows;
  i64 max_k_rows;
  i64 top_k;
  i64 supertile_k;
  std::optional<i64> prefill_block_k;
  std::optional<std::string> score_mode;
  i64 num_idx_heads;
  DType k_dtype;
};

// From the members of an `indexer_contiguous` request, or of a front door's over contiguous keys.
ContiguousCaps contiguous_caps(const IndexerCaps& caps);
ContiguousCaps front_door_contiguous_caps(const IndexerCaps& caps);

Result<IndexerLayout> lay_out_contiguous(const IndexerRequest& request, const ContiguousCaps& caps);

}  // namespace moeplan
