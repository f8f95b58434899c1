// Runs calls of an indexer's plan from two poisons and as a graph whose lengths change, and measures what
// they did.
#pragma once

#include <vector>

#include "runtime/device/device_arena.hpp"
#include "runtime/device/test_bench.hpp"
#include "runtime/validate/indexer_calls.hpp"
#include "runtime/validate/measurement.hpp"

namespace moeplan {

// Where the reference leaves its logits.
struct ReferenceRoom {
  // For the largest of these calls.
  static Result<ReferenceRoom> create(std::span<const IndexerTestCall> calls);

  DeviceMemory memory;
  double* logits;
  double* magnitudes;
};

class IndexerMeasurer {
 public:
  // All of these have to outlive it.
  IndexerMeasurer(const IndexerPlan& plan, Tolerance tolerance, const ReferenceRoom& room, DeviceArena& arena,
                  Launches& launches)
      : plan_(plan), tolerance_(tolerance), room_(room), arena_(arena), launches_(launches) {}

  Result<Measurement> measure(const IndexerTestCall& call);

 private:
  // What a call selected, as it lies in the arena.
  struct Selected {
    std::vector<std::int32_t> indices;
    std::vector<std::uint32_t> scores;  // bits
  };
  struct Uploads;

  Result<Uploads> upload(const IndexerTestCall& call) const;
  Status set_lengths(const IndexerTestCall& call, const std::vector<std::int32_t>& lengths,
                     const Uploads& uploads) const;
  Status run_poisoned(const std::vector<IndexerLaunch>& calls, const ArenaPattern& poison);
  Status run(const std::vector<IndexerLaunch>& calls);
  Result<Selected> selected(i64 rows) const;
  // Compares with the reference's logits.
  Status note_selection(Measurement& m, const IndexerTestCall& call, const Uploads& uploads,
                        const std::vector<std::int32_t>& lengths, const Selected& selected) const;

  const IndexerPlan& plan_;
  Tolerance tolerance_;
  const ReferenceRoom& room_;
  DeviceArena& arena_;
  Launches& launches_;
};

}  // namespace moeplan
