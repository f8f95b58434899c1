// What moeplan bench moe says of the layers that it timed: pure functions of what was measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands/bench_report.hpp"
#include "runtime/bench/moe_timing.hpp"

namespace moeplan {

// A chunk that was run in launches of a plan of one capacity.
struct CapacityTiming {
  MoeTiming timing;
  i64 arena_bytes = 0;               // of its plan, for the config's device
  i64 scratch_bytes = 0;             // of all MoE runtimes there
  std::optional<i64> gained_tokens;  // of KV cache, against the first executor's largest capacity
};

// What was timed: lists hold one entry an executor, the first of which the others are compared with.
struct MoeTimings {
  std::vector<std::vector<MoeTiming>> by_tokens;
  std::vector<CapacityTiming> capacities;
  std::optional<i64> chunk_tokens;  // what capacities were timed with
  std::optional<i64> moe_layers;    // of the model
};

struct MoeMachine {
  std::string gpu;
  i64 gpu_sms = 0;
  MoeRates rates;
  std::string clock_trouble;  // why there are no clocks; "": there are
};

Report bench_moe_report(const BenchSubject& subject, const MoeMachine& machine, const MoeTimings& timings,
                        std::vector<Finding> findings);

// As of bench_report.
Report skipped_bench_moe_report(const BenchSubject& subject, std::vector<Finding> findings, const Error& why);

}  // namespace moeplan
