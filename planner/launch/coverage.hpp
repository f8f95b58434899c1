// Launch coverage of one plan: which keys its live token counts probe, and which of those are compiled before
// the engine serves. Source: docs/launches.md section 5.
#pragma once

#include <map>
#include <vector>

#include "planner/core/live_range.hpp"
#include "planner/launch/launch_key.hpp"

namespace moeplan {

// What compiles a key before the first request.
struct Warmth {
  bool prewarmed = false;  // with the plan
  bool profiled = false;   // by the profile run
  bool captured = false;   // by the warm-up of a graph
  constexpr bool cold() const { return !prewarmed && !profiled && !captured; }
  bool operator==(const Warmth&) const = default;
};

// Consecutive token counts whose keys are one key, or differ in max_m_blocks alone.
struct KeyRun {
  LiveRange tokens;
  LaunchKey key;      // of the first
  i64 last_m_blocks;  // max_m_blocks of the last; it never falls within a run
  i64 keys;           // distinct ones
  Warmth warmth;      // of each of them
};

// The keys of `live` in ascending order of tokens. Error: some launch is refused at run time.
Result<std::vector<KeyRun>> key_runs(const LaunchPlan& plan, const std::vector<LiveRange>& live);

// Keys that something compiles early: by family, the key without its blocks, and max_m_blocks.
class WarmKeys {
 public:
  void add(const LaunchKey& key, const Warmth& warmth);
  // Those of the family of `key`, by max_m_blocks; null where there are none.
  const std::map<i64, Warmth>* family_of(const LaunchKey& key) const;

 private:
  std::map<LaunchKey, std::map<i64, Warmth>> families_;
};

// Splits runs so that each is warm as a whole, or not at all.
void mark_warm(const LaunchPlan& plan, std::vector<KeyRun>& runs, const WarmKeys& warm);

// The distinct values of max_m_blocks of a run, ascending.
std::vector<i64> m_blocks_of(const LaunchPlan& plan, const KeyRun& run);

// Sums over runs.
struct Coverage {
  i64 keys = 0;
  i64 cold_keys = 0;
  i64 tokens = 0;            // live token counts
  i64 prewarmed_tokens = 0;  // of which the plan compiled the kernel
  i64 cold_tokens = 0;
};
Coverage coverage_of(const std::vector<KeyRun>& runs);

}  // namespace moeplan
