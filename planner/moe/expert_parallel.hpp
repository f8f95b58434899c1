// The expert-parallel W4A16 plan with replicated input. Source: docs/contracts.md section 7.
#pragma once

#include "planner/core/result.hpp"
#include "planner/moe/layout.hpp"

namespace moeplan {

// Plans a request of kind expert_parallel.
Result<MoeLayout> plan_expert_parallel(const MoeRequest& request);

}  // namespace moeplan
