// Which live token counts reach which plan of an EXL3 runtime, and which of them the engine runs before it
// serves. Source: docs/launches.md section 5.
#pragma once

#include <vector>

#include "planner/deployment/exl3_settings.hpp"
#include "planner/launch/launch_set.hpp"

namespace moeplan {

struct Exl3Steps {
  PlanSteps decode;
  PlanSteps prefill;
  bool reaches_parity = false;  // some step is served by neither plan
};

// `settings` as parsed; a runtime of mixed bit widths clamps its decode plan to the scheduler, which changes
// no step. Without stated capture sizes `captured` is empty.
Exl3Steps exl3_steps(const Exl3Settings& settings, const EngineSettings& engine);

// Rows of the launches that a step of `rows` rows makes of a prefill plan: whole slices, then the rest.
std::vector<i64> launches_of_step(i64 rows, i64 capacity);

}  // namespace moeplan
