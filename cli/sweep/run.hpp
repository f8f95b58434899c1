// Planning all points of a sweep on threads, block by block in order.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli/sweep/point_planner.hpp"

namespace moeplan {

struct RunOptions {
  i64 threads = 0;  // 0: as many as the machine has
  bool shows_progress = true;
};

// Consecutive points, and what each formatter made of them.
struct SweepBlock {
  std::vector<SweepPoint> points;
  std::vector<std::string> texts;
};

struct RunEnd {
  i64 done = 0;    // points handed over
  int signal = 0;  // that ended the run ahead of its end; else 0
};

// Appends one point's text; called on the threads.
using FormatPoint = std::function<void(const SweepPoint&, std::string&)>;
// Takes the blocks in order; false ends the run.
using TakeBlock = std::function<bool(const SweepBlock&)>;

// Whatever the number of threads, `take` sees the same blocks. SIGINT and SIGTERM end the run behind a whole
// block; the second one kills.
RunEnd run_sweep_points(const Sweep& sweep, const RunOptions& options, std::span<const FormatPoint> formats,
                        const TakeBlock& take);

}  // namespace moeplan
