// The indexer's rows of a memory budget.
#pragma once

#include "planner/deployment/memory_budget.hpp"

namespace moeplan {

// Its arenas, unless the profile's peak was measured and so contains them, and the largest allocation a call
// makes after the profile. Nothing where the deployment has no indexer or does not state its sizes.
BudgetExtras indexer_budget_extras(const Deployment& deployment);

}  // namespace moeplan
