// Quantiles of measured values.
#pragma once

#include <algorithm>
#include <vector>

#include "planner/core/check.hpp"
#include "planner/core/integer.hpp"

namespace moeplan {

// The value that so many percent of the values do not pass, one of them. Of one value at least.
inline i64 quantile(std::vector<i64> values, i64 percent) {
  MOEPLAN_CHECK(!values.empty(), "a quantile of nothing");
  const auto place = values.begin() + ((std::ssize(values) - 1) * percent + 50) / 100;
  std::ranges::nth_element(values, place);
  return *place;
}
inline i64 median(const std::vector<i64>& values) { return quantile(values, 50); }

}  // namespace moeplan
