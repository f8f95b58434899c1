// The vertical scale of pictures: from zero to the largest value, in round steps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/core/report.hpp"

namespace moeplan {

struct Scale {
  i64 step = 1;   // bytes
  i64 steps = 1;  // the top is step * steps
  i64 unit = 1;   // of labels, in bytes
  std::string_view unit_name = "B";

  i64 top() const { return step * steps; }
  // How far `value` is up, in `length` units; rounded down.
  i64 position(i64 value, i64 length) const;
  // "512 MiB": a whole number, since steps are whole units.
  std::string label(i64 value) const;
};

// At most five steps of 1, 2 or 5 times a power of ten units; labels have at most nine characters.
Scale scale_for(i64 largest);

// The largest value of all series; 0 without any.
i64 largest_value(const std::vector<ChartSeries>& series);

}  // namespace moeplan
