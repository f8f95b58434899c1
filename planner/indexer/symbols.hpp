// The symbols of an indexer arena's formulas, with the values its plan gives them. Names: docs/indexer.md.
#pragma once

#include "planner/core/formula.hpp"
#include "planner/indexer/layout.hpp"
#include "planner/plan_request.hpp"

namespace moeplan {

// Of a request of an indexer kind and the layout it was planned to. With them every tensor's formula
// evaluates to its elements.
Symbols indexer_symbols(const PlanRequest& request, const IndexerLayout& layout);

}  // namespace moeplan
