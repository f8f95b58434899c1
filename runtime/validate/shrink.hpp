// Whether a plan needs its last element of every tensor: each is taken away in turn, and a launch has to be
// caught writing there. Nothing is compared with the plan.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/core/result.hpp"
#include "planner/indexer/layout.hpp"
#include "planner/moe/layout.hpp"
#include "runtime/arena/guards.hpp"
#include "runtime/validate/measurement.hpp"
#include "runtime/validate/room.hpp"

namespace moeplan {

enum class ShrinkOutcome { caught, missed, not_observable };

struct Shrink {
  std::string tensor;
  i64 taken_bytes = 0;  // one element
  bool is_observable = false;
  std::string refusal;  // of the executor, which counted what it needs; "": none
  std::string guard;    // the write that a guard saw when the launch ran all the same; "": none

  ShrinkOutcome outcome() const;
  // What happened, in a line.
  std::string text() const;
};
inline constexpr std::string_view kNotObservable = "never touched, shrink not observable";

// Runs the launches of the plan with its tensors placed so.
using MeasureIn = std::function<Result<std::vector<Measurement>>(const Placement& placement, RoomCheck)>;

// Launches of which some touch as much of each tensor as any launch can.
std::vector<TestLaunch> launches_to_shrink(const FusedPlan& plan, bool may_lack_map, bool may_have_map);

// The arena of a plan, of whatever kind.
struct PlannedArena {
  const ArenaLayout& layout;
  i64 total_bytes;
  PlannedArena(const MoeLayout& plan) : layout(plan.arena), total_bytes(plan.total_bytes) {}
  PlannedArena(const IndexerLayout& plan) : layout(plan.arena), total_bytes(plan.total_bytes) {}
};

// Every tensor between guards of its own. `shrunk`: the one whose last element is a guard's; "": none.
Placement place_shrunk(const PlannedArena& arena, std::string_view shrunk);

// Each tensor is taken its last element away twice: the executor has to refuse, or a guard has to be hit
// where it is not asked. `tensor`: this one alone; "": every tensor of the arena. Error: of a measurement.
Result<std::vector<Shrink>> shrink_tensors(const PlannedArena& arena, const std::string& tensor,
                                           const MeasureIn& measure);

// The request with every size as small as it can be while the launches stay what they are: the same contract,
// weights, input type and block. Of packed plans every route can have a block of its own, so that columns
// bound the split-K scratch and a launch can touch all of it.
MoeRequest small_request(const MoeRequest& request, WeightLayout layout);

}  // namespace moeplan
