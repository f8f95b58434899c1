// Whether a plan needs its last element of every tensor: each is taken away in turn, and a launch has to be
// caught writing there. Nothing is compared with the plan.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/core/result.hpp"
#include "planner/moe/layout.hpp"
#include "runtime/arena/guards.hpp"
#include "runtime/validate/measurement.hpp"

namespace moeplan {

enum class ShrinkOutcome { caught, missed, not_observable };

struct Shrink {
  std::string tensor;
  i64 taken_bytes = 0;  // one element
  ShrinkOutcome outcome{};
  std::string how;
};
inline constexpr std::string_view kNotObservable = "never touched, shrink not observable";

// Runs the launches of the plan with its tensors placed so.
using MeasureIn = std::function<Result<std::vector<Measurement>>(Placement placement)>;

// Every tensor between guards of its own. `shrunk`: the one whose last element is a guard's; "": none.
Placement place_shrunk(const MoeLayout& layout, std::string_view shrunk);

// `tensor`: this one alone; "": every tensor of the arena. Error: of a measurement.
Result<std::vector<Shrink>> shrink_tensors(const MoeLayout& layout, const std::string& tensor,
                                           const MeasureIn& measure);

// The request with every size as small as it can be while the launches stay what they are: the same contract,
// weights, input type and block.
MoeRequest small_request(const MoeRequest& request);

}  // namespace moeplan
