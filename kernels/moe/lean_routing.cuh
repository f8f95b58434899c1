// Where the routes of a lean launch go.
#pragma once

#include "kernels/moe/lean_arguments.hpp"
#include "kernels/moe/route.cuh"

namespace moeplan {

// The expert of a route, or -1.
inline int routed_expert(const LeanRouting& routing, int route) {
  const i64 id = routing.id_bytes == 8 ? static_cast<const long long*>(routing.topk_ids)[route]
                                       : static_cast<const int*>(routing.topk_ids)[route];
  return static_cast<int>(expert_of(id, routing.expert_map, routing.route_experts, routing.experts));
}

}  // namespace moeplan
