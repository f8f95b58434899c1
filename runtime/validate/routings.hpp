// Where a launch's routes go, and which launches a plan is validated with: the same in every run.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/integer.hpp"
#include "runtime/moe/fused_plan.hpp"

namespace moeplan {

enum class RoutingKind {
  uniform,        // top_k different experts a token
  all_to_one,     // every route to the last expert
  one_an_expert,  // as evenly as can be
  most_padding,   // as many experts as can be with one route more than whole blocks
  zipf,           // expert i as often as 1 / (i + 1), the experts in another order
  invalid,        // some routes, and all of every fourth token, go nowhere
  all_invalid,    // every route goes nowhere
};
inline constexpr std::string_view kRoutingNames[] = {"uniform", "all to one", "one an expert", "most padding",
                                                     "zipf",    "invalid",    "all invalid"};
inline constexpr RoutingKind kRoutingKinds[] = {
    RoutingKind::uniform, RoutingKind::all_to_one, RoutingKind::one_an_expert, RoutingKind::most_padding,
    RoutingKind::zipf,    RoutingKind::invalid,    RoutingKind::all_invalid};

// A launch to be run.
struct TestLaunch {
  i64 tokens = 0;
  RoutingKind routing{};
  bool has_map = false;  // an expert map sends some of the router's experts elsewhere
  bool operator==(const TestLaunch&) const = default;
};
// "zipf" or "zipf, mapped".
std::string routing_name(const TestLaunch& launch);

struct RoutingShape {
  i64 top_k;
  i64 route_experts;  // ids below this are valid
  i64 experts;        // of the weights
  i64 block;          // rows of a route block
};

struct Routes {
  i64 id_bytes = 4;
  std::vector<i64> ids;        // of the router
  std::vector<float> weights;  // each above 0
  std::vector<int> map;        // empty: none
  std::vector<int> experts;    // of the weights; -1: the route goes nowhere
};
Routes routes_of(const TestLaunch& launch, const RoutingShape& shape);

// 1, 2, the last count and the next of every power-of-two bucket and of every route block, capacity - 1 and
// the capacity; rising.
std::vector<i64> live_counts(const LiveRuntime& runtime);

// What is run, and what a limit of work left out.
struct TestLaunches {
  std::vector<TestLaunch> launches;  // by tokens, then by map
  i64 left_out = 0;
};
// Multiply-adds of the reference that one plan may cost.
inline constexpr double kMostValidationWork = 15e12;

// Uniform routings at every live count; the others at the two smallest, the middle and the two largest
// counts. Behind the limit the largest are left out, but never the uniform one at the capacity.
TestLaunches launches_to_validate(const FusedPlan& plan, bool may_lack_map, bool may_have_map,
                                  double most_work = kMostValidationWork);

}  // namespace moeplan
