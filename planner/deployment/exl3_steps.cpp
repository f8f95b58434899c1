#include "planner/deployment/exl3_steps.hpp"

#include <algorithm>

namespace moeplan {
namespace {

// Rows of the last launch of each step of first..last rows, all above the capacity.
std::vector<LiveRange> tails_of(i64 first, i64 last, i64 capacity) {
  if (first > last) return {};
  if (last - first + 1 >= capacity) return {{1, capacity - 1}};
  const i64 from = first % capacity, to = last % capacity;
  if (from <= to) return {{max_of(from, 1), to}};
  return {{from, capacity - 1}, {1, to}};
}

void add_step(PlanSteps& steps, std::vector<i64> PlanSteps::*kind, i64 rows, i64 capacity) {
  for (i64 launch : launches_of_step(rows, capacity)) {
    if (std::ranges::find(steps.*kind, launch) == (steps.*kind).end()) (steps.*kind).push_back(launch);
  }
}

}  // namespace

std::vector<i64> launches_of_step(i64 rows, i64 capacity) {
  const PrefillSlices slices = prefill_slices(rows, capacity);
  if (slices.launches == 1) return {rows};
  if (slices.tail == 0) return {capacity};
  return {capacity, slices.tail};
}

Exl3Steps exl3_steps(const Exl3Settings& s, const EngineSettings& engine) {
  const i64 scheduled = engine.max_num_batched_tokens, capacity = s.prefill_tokens;
  const LiveRange decode{s.decode_min_tokens, s.decode_tokens};
  Exl3Steps steps;
  steps.reaches_parity = s.decode_min_tokens > 1 || (!s.prefill_enabled && scheduled > s.decode_tokens);

  const auto add = [&](std::vector<i64> PlanSteps::*kind, i64 rows) {
    if (decode.contains(rows))
      add_step(steps.decode, kind, rows, rows);
    else if (s.prefill_enabled && rows > s.decode_tokens && rows <= scheduled)
      add_step(steps.prefill, kind, rows, capacity);
  };
  add(&PlanSteps::profiled, scheduled);
  std::vector<LiveRange> decode_live{{decode.first, min_of(decode.last, scheduled)}};
  for (i64 size : engine.cudagraph_capture_sizes.value_or(std::vector<i64>{})) {
    add(&PlanSteps::captured, size);
    // A graph may be padded beyond what the scheduler batches.
    if (decode.contains(size)) decode_live.push_back({size, size});
  }
  steps.decode.live = united(decode_live);
  if (!s.prefill_enabled) return steps;

  std::vector<LiveRange> live{{s.decode_tokens + 1, min_of(capacity, scheduled)}};
  const i64 first_sliced = max_of(capacity, s.decode_tokens) + 1;
  if (first_sliced <= scheduled) {
    live.push_back({capacity, capacity});
    for (const LiveRange& tails : tails_of(first_sliced, scheduled, capacity)) live.push_back(tails);
  }
  steps.prefill.live = united(live);
  return steps;
}

}  // namespace moeplan
