// The picture of a sweep: bytes over its longest axis, a curve for each combination of the others, and what
// the points are made of.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cli/sweep/point_planner.hpp"
#include "planner/core/report.hpp"

namespace moeplan {

// None where there are more points or curves than a picture can tell apart. `arenas`: of each point.
std::optional<Chart> sweep_chart(const Sweep& sweep, std::span<const SweepPoint> points,
                                 std::span<const std::vector<PointArena>> arenas);

}  // namespace moeplan
