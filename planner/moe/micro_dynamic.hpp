// The micro and dynamic workspaces: nvfp4, w4a8_mx, w4a8_nvfp4 and w6a8_mx. Source: docs/contracts.md
// section 9.
#pragma once

#include "planner/core/arena_layout.hpp"
#include "planner/core/formula.hpp"
#include "planner/moe/layout.hpp"

namespace moeplan {

// What one token count decides.
struct MicroDynamicCore {
  Implementation implementation;
  i64 tile_m;  // dynamic
  i64 tile_n;
  i64 max_tokens_per_launch;  // informative
};

// The core of `request` at `tokens`, placed behind what `arena` holds.
MicroDynamicCore place_micro_dynamic_core(ArenaLayout& arena, const MoeRequest& request, i64 tokens);

// The symbols of its formulas, behind E, k, n, topk and t (`tokens`).
void add_micro_dynamic_symbols(Symbols& symbols, const MoeRequest& request, i64 tokens);

}  // namespace moeplan
