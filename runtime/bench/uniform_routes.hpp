// Routes of tokens that choose their experts uniformly: what MoE launches are timed with.
#pragma once

#include <random>
#include <span>
#include <vector>

#include "planner/core/integer.hpp"

namespace moeplan {

// top_k experts a token, all different while there are so many.
std::vector<int> uniform_routes(std::mt19937_64& engine, i64 tokens, i64 top_k, i64 experts);

// How many experts the routes go to. Ids lie below `experts`.
i64 distinct_experts(std::span<const int> ids, i64 experts);

}  // namespace moeplan
