// What a request asks of its capacity beyond sizes: checks shared by all plans.
#pragma once

#include "planner/core/result.hpp"
#include "planner/moe/request.hpp"

namespace moeplan {

// Swiglu limit, alpha and beta against the activation.
Status check_swiglu(const MoeRequest& request);

// What engines take of a request and the lean executor does not.
Status check_lean(const MoeRequest& request);

// The pinned block size, in every quantisation mode.
Status check_block_size(const MoeCapacity& capacity);

}  // namespace moeplan
