// The shapes that the options of moeplan bench ask for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands/options.hpp"
#include "planner/core/result.hpp"
#include "runtime/bench/indexer_shape.hpp"

namespace moeplan {

// The lists of the options, read and within their limits; an empty one was not given.
struct ShapeLists {
  std::vector<i64> heads, rows, contexts;
  std::optional<i64> group;
  i64 top_k = kDefaultTopK;
  std::optional<i64> bandwidth_gb_s;
};

// Error: names the option, the item and what would work.
Result<ShapeLists> read_shape_lists(const BenchOptions& options);

// Every combination, in the order of the lists. Error: one of them is missing, or cannot be timed.
Result<std::vector<IndexerShape>> listed_shapes(const ShapeLists& lists, bool is_prefill);

// Those of a plan: its heads and top-k, and its capacity and its requests' rows where an option was not
// given. Error: more than its capacity, or no whole number of requests.
Result<std::vector<IndexerShape>> planned_shapes(const ShapeLists& lists, const std::string& plan_id,
                                                 const IndexerPlan& plan, i64 rows_per_request);

}  // namespace moeplan
