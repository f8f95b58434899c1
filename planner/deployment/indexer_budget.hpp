// The indexer's rows of a memory budget.
#pragma once

#include "planner/deployment/memory_budget.hpp"

namespace moeplan {

// Bytes of all indexer arenas, whatever was measured; 0 where the engine path is not modelled, the model has
// no indexer, or its sizes are not stated.
i64 indexer_arena_bytes_of(const Deployment& deployment);

// Its arenas, unless the profile's peak was measured and so contains them, and the largest allocation a call
// makes after the profile. Nothing where indexer_arena_bytes_of is 0.
BudgetExtras indexer_budget_extras(const Deployment& deployment);

}  // namespace moeplan
