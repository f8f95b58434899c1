#include "planner/moe/token_counts.hpp"

#include <algorithm>

namespace moeplan {

TokenCounts core_token_counts(const MoeRequest& request, bool bucketed) {
  const MoeCapacity& capacity = request.capacity;
  const auto bucket = [&](i64 tokens) {
    const i64 floored = max_of(tokens, 1);
    return bucketed ? pow2_ceil(floored) : floored;
  };
  TokenCounts counts;
  const auto add = [&](i64 count) {
    if (std::ranges::find(counts, count) == counts.end()) counts.push_back(count);
  };

  const i64 capacity_tokens = bucket(capacity.max_tokens);
  if (request.contract->lean_executor) {
    add(capacity_tokens);
    return counts;
  }
  if (const auto& given = capacity.core_token_counts) {
    const bool lists_capacity =
        std::ranges::any_of(*given, [&](i64 count) { return bucket(count) == capacity_tokens; });
    if (!lists_capacity) add(capacity_tokens);
    for (i64 count : *given) add(bucket(count));
  } else {
    add(capacity_tokens);
  }
  const i64 cutover_tokens = capacity.micro_cutover_pairs / capacity.routes_per_token();
  if (cutover_tokens >= 1) add(bucket(min_of(capacity_tokens, cutover_tokens)));
  return counts;
}

}  // namespace moeplan
