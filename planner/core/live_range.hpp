// Sets of live token counts: sorted, disjoint ranges with both ends included.
#pragma once

#include <algorithm>
#include <vector>

#include "planner/core/integer.hpp"

namespace moeplan {

struct LiveRange {
  i64 first;
  i64 last;
  bool operator==(const LiveRange&) const = default;
  constexpr bool contains(i64 tokens) const { return first <= tokens && tokens <= last; }
};

// The union of `ranges`, of which empty ones (first > last) do not count: sorted, and neighbours joined.
inline std::vector<LiveRange> united(std::vector<LiveRange> ranges) {
  std::erase_if(ranges, [](const LiveRange& range) { return range.first > range.last; });
  std::ranges::sort(ranges, {}, &LiveRange::first);
  std::vector<LiveRange> out;
  for (const LiveRange& range : ranges) {
    if (!out.empty() && range.first <= out.back().last + 1)
      out.back().last = max_of(out.back().last, range.last);
    else
      out.push_back(range);
  }
  return out;
}

inline bool contains(const std::vector<LiveRange>& ranges, i64 tokens) {
  return std::ranges::any_of(ranges, [&](const LiveRange& range) { return range.contains(tokens); });
}

inline i64 count_of(const std::vector<LiveRange>& ranges) {
  i64 count = 0;
  for (const LiveRange& range : ranges) count += range.last - range.first + 1;
  return count;
}

}  // namespace moeplan
