// The records of tests/gpu/evidence: a function each, which runs something on the GPU and says what it saw.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/bench/quantile.hpp"
#include "runtime/device/stream.hpp"
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

// How long a layer takes in lean plans and in the config's own, planned for this GPU's own multiprocessors.
Result<Evidence> record_lean_speed(const RecordContext& context);

}  // namespace moeplan::test
