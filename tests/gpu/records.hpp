// The records of tests/gpu/evidence: a function each, which runs something on the GPU and says what it saw.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "runtime/evidence.hpp"
#include "tests/gpu/gpu.hpp"

namespace moeplan::test {

// A plan of the record's config.
struct RecordPlan {
  MoeRequest request;
  MoeLayout layout;
};

// The GPU, and the plans that the record's config makes.
struct RecordContext {
  Gpu& gpu;
  RecordPlan decode;
  RecordPlan prefill;
};

// Guards of the decode plan catch a byte at every edge; how fast fill and scan run.
Result<Evidence> record_arena_guards(const RecordContext& context);
// Captured launches: what was not resolved is refused, replays equal eager launches, and what a launch costs.
Result<Evidence> record_launch_capture(const RecordContext& context);

// How long the launches of a Trellis layer take, planned for this GPU's own multiprocessors.
Result<Evidence> record_trellis_speed(const RecordContext& context);

// How long the indexer's calls take, planned for this GPU's own multiprocessors.
Result<Evidence> record_indexer_speed(const RecordContext& context);

inline i64 median(std::vector<i64> values) {
  MOEPLAN_CHECK(!values.empty(), "the median of nothing");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Nanoseconds of the stream's work between two calls, by events.
class StreamTimer {
 public:
  explicit StreamTimer(cudaStream_t stream);
  ~StreamTimer();
  StreamTimer(const StreamTimer&) = delete;
  StreamTimer& operator=(const StreamTimer&) = delete;
  Status start() { return check_cuda(cudaEventRecord(start_, stream_), "cudaEventRecord"); }
  // Waits for the work.
  Result<i64> stop();

 private:
  cudaStream_t stream_;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
};

}  // namespace moeplan::test
