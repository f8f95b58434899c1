// The symbols of the KV cache's formulas, with a deployment's values. Names: docs/memory.md section 6.
#pragma once

#include "planner/core/formula.hpp"
#include "planner/deployment/kv_cache.hpp"

namespace moeplan {

// Of a deployment and its cache: `token` is the bytes a token takes on a rank, `page` those of a block.
Symbols kv_symbols(const Deployment& deployment, const KvCache& cache);

}  // namespace moeplan
