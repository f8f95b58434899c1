// Which route a paged plan takes: decided once, from capacities, never from live rows or lengths.
#pragma once

#include <optional>
#include <string>

#include "planner/core/device_profile.hpp"
#include "planner/core/result.hpp"
#include "planner/indexer/environment.hpp"
#include "planner/indexer/layout.hpp"
#include "planner/indexer/request.hpp"

namespace moeplan {

// The shape a fused launch would serve.
struct FusedShape {
  i64 rows;
  i64 width_tokens;
  i64 heads;
  i64 top_k;
};

// Whether the fused kernel may serve a shape, and the rule that says so.
struct FusedAvailability {
  bool available;
  std::string rule;
};
FusedAvailability fused_availability(const FusedShape& shape, const DeviceProfile& device,
                                     const IndexerEnvironment& env);

// What the route follows from.
struct RouteInputs {
  FusedShape shape;
  IndexerMode mode;
  bool shared_page_table;
  RouteChoice choice;
};
struct ChosenRoute {
  IndexerRoute route;
  std::string reason;
};
Result<ChosenRoute> choose_route(const RouteInputs& inputs, const DeviceProfile& device,
                                 const IndexerEnvironment& env);

// The key block of a packed_contiguous plan: 256 or 512.
Result<i64> choose_prefill_block_k(i64 rows, i64 supertile, i64 heads, const IndexerEnvironment& env);

}  // namespace moeplan
