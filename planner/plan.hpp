// plan: the one front door for requests of every kind.
#pragma once

#include <variant>

#include "planner/core/result.hpp"
#include "planner/indexer/layout.hpp"
#include "planner/moe/layout.hpp"
#include "planner/plan_request.hpp"

namespace moeplan {

using PlanLayout = std::variant<MoeLayout, IndexerLayout>;

// The answer to `request`, by the planner of its kind; a pure function.
Result<PlanLayout> plan(const PlanRequest& request);

}  // namespace moeplan
