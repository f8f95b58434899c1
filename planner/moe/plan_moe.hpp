// plan_moe: the front door of the MoE planner.
#pragma once

#include "planner/core/result.hpp"
#include "planner/moe/layout.hpp"

namespace moeplan {

// The arena of one fused MoE plan, a pure function of the request. The numbers of `request` are within
// limits.hpp; anything the contract refuses is an Error.
Result<MoeLayout> plan_moe(const MoeRequest& request);

}  // namespace moeplan
