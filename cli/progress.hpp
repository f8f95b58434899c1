// How far a long command is: a line on a terminal's stderr, from half a second on, gone at the end.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "planner/core/integer.hpp"

namespace moeplan {

class ProgressLine {
 public:
  // `unit`: what is counted, such as "points". Shows nothing where stderr is no terminal.
  ProgressLine(i64 total, std::string_view unit, bool wanted);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(i64 done);

 private:
  using Clock = std::chrono::steady_clock;
  i64 total_;
  std::string unit_;
  bool shows_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

}  // namespace moeplan
