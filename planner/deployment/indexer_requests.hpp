// The sparse-attention indexer of a deployment: its arenas, the calls an engine makes on them, and what those
// calls allocate outside every arena.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/core/result.hpp"
#include "planner/deployment/deployment.hpp"
#include "planner/indexer/fold.hpp"
#include "planner/indexer/layout.hpp"

namespace moeplan {

// Whether the model selects keys with an indexer at all.
bool has_indexer(const Deployment& deployment);

// Rows of a decode step that are one sequence's, and so share its pages: a token and its speculative ones.
i64 decode_rows_per_request(const EngineSettings& engine);

// A decode plan of max_num_seqs * decode_rows_per_request rows and a prefill plan of max_num_batched_tokens
// rows, both as wide as max_model_len. Empty without an indexer, and where one of these settings is not
// stated (a finding says so). Errors point into the config.
Result<std::vector<PlanRequest>> indexer_requests(const Deployment& deployment);

// Where in the config a field of one of those requests comes from.
std::string indexer_config_pointer(std::string_view request_pointer);

// Layers that compute an index each step; a draft's own forwards come on top.
i64 indexer_layers(const ModelShape& model);

// What one call may allocate on the device: neither in an arena nor seen by the engine's start-up profile.
struct LateAllocation {
  std::string_view what;
  i64 bytes;   // the most over all reachable widths and rows; 0: nothing
  i64 rows;    // of a call that allocates that much
  i64 tokens;  // its context length
  i64 slices;  // S_f; 0 where nothing is folded
};

// Of a planned paged arena. Errors point into the request.
Result<LateAllocation> late_allocation(const PlanRequest& request, const IndexerLayout& layout);

}  // namespace moeplan
