// The token counts a tensor-parallel plan has to serve.
#pragma once

#include <vector>

#include "planner/moe/request.hpp"

namespace moeplan {

// Distinct counts in upstream's order: capacity first unless listed, the given counts, the micro cut-over.
// `bucketed`: each count rounds up to a power of two. Source: docs/contracts.md section 6.
std::vector<i64> core_token_counts(const MoeCapacity& capacity, bool bucketed);

}  // namespace moeplan
