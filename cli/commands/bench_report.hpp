// What moeplan bench says of the calls that it timed: pure functions of what was measured.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/options.hpp"
#include "planner/core/report.hpp"
#include "planner/core/result.hpp"
#include "runtime/bench/indexer_timing.hpp"

namespace moeplan {

// What was asked about: a config, or shapes of the command line.
struct BenchSubject {
  std::optional<std::string> name;  // of the config
  std::string contract;             // of the plans
  std::string text;                 // one line
  std::string rest;                 // what the verdict says of plans that are not timed
};

// What timed them.
struct BenchMachine {
  std::string gpu;
  i64 gpu_sms = 0;
  Bandwidth bandwidth;
};

// Null: none was recorded for the shape, or on another GPU than this one.
const IndexerPeer* comparable_peer(const IndexerShape& shape, const BenchMachine& machine);

// The rule of a shape that could not be timed.
inline constexpr std::string_view kNotTimed = "not-timed";

// `findings`: of those, and of plans without kernels, which fail nothing.
Report bench_report(const BenchSubject& subject, const BenchMachine& machine,
                    const std::vector<IndexerTiming>& timings, std::vector<Finding> findings);

// The answer where nothing could be run and --if-available asks for no more. `findings`: of plans without
// kernels.
Report skipped_bench_report(const BenchSubject& subject, std::vector<Finding> findings, const Error& why);

}  // namespace moeplan
