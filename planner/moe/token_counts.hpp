// The token counts a tensor-parallel plan has to serve.
#pragma once

#include "planner/core/fixed_vector.hpp"
#include "planner/core/limits.hpp"
#include "planner/moe/request.hpp"

namespace moeplan {

// The given counts, the capacity and the cut-over.
using TokenCounts = FixedVector<i64, kMaxTokenCounts + 2>;

// Distinct counts in upstream's order: capacity first unless listed, the given counts, the micro cut-over.
// `bucketed`: each count rounds up to a power of two. A lean plan has the capacity alone. Source:
// docs/contracts.md section 6.
TokenCounts core_token_counts(const MoeRequest& request, bool bucketed);

}  // namespace moeplan
