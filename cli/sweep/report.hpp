// A sweep's shown points as a report.
#pragma once

#include <vector>

#include "cli/sweep/columns.hpp"
#include "cli/sweep/select.hpp"
#include "planner/core/report.hpp"

namespace moeplan {

// What a run left.
struct ShownPoints {
  std::vector<SweepPoint> points;
  i64 done = 0;    // points planned; fewer than the sweep has when it was interrupted
  i64 failed = 0;  // of those
  i64 raised = 0;
  i64 incomparable = 0;
};

// What columns are computed from: the configured point and the KV cache, where the config has them.
SweepView view_of(const Sweep& sweep);

// `are_usual`: nobody chose the columns, so that programs and people each see theirs.
Report sweep_report(SweepView view, const Selection& selection, std::span<const SweepColumn* const> columns,
                    bool are_usual, const ShownPoints& shown);

}  // namespace moeplan
