// The supertile of a paged plan: how many keys are scored at a time.
#pragma once

#include "planner/core/result.hpp"
#include "planner/indexer/environment.hpp"

namespace moeplan {

struct SupertileInputs {
  i64 rows;
  i64 capacity_tokens;
  i64 page_size;
  i64 requested;  // tokens; 0: the environment's, else the default
};

// Tokens, a multiple of 512 and of the page size.
Result<i64> resolve_supertile(const SupertileInputs& inputs, const IndexerEnvironment& env);

}  // namespace moeplan
