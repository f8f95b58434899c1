// What timing a fused MoE layer came to, and what is said of it. Times are in whole nanoseconds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/result.hpp"
#include "planner/moe/layout.hpp"
#include "runtime/bench/moe_peers.hpp"
#include "runtime/bench/paired_verdict.hpp"
#include "runtime/bench/rates.hpp"
#include "runtime/evidence.hpp"
#include "runtime/planned_kernels.hpp"

namespace moeplan {

// A plan that is timed, and who runs it.
struct MoeCase {
  std::string executor;
  std::string contract;
  std::string plan_id;
  i64 capacity = 0;  // tokens
  MoeShape shape;
  MoeLayout layout;
  KernelPlan plan;
};

// In the plan of a request, made for so many multiprocessors. Error: the planner refuses it, or `no_kernels`:
// it is no Trellis plan that kernels of ours run without an expert map.
Result<MoeCase> moe_case(std::string executor, std::string plan_id, MoeRequest request, i64 multiprocessors);

// What a launch has to do at least, whoever does it.
struct MoeWork {
  i64 bytes = 0;    // its experts' weights and scales, x and the output, each moved once
  i64 weights = 0;  // of its experts, each decoded once
  i64 flops = 0;    // of the routes, padding left out

  MoeWork& operator+=(const MoeWork& other);
};
// `distinct`: experts that its routes go to.
MoeWork work_of(const MoeShape& shape, i64 tokens, i64 distinct);

// Layers that calls go through in turn, so that their weights are twice what the L2 cache holds, two to
// eight. `call_bytes`: what one call reads.
i64 rotating_layers(i64 call_bytes, i64 l2_bytes);

// Calls of one replay: whole turns of the layers.
i64 moe_calls(i64 tokens, i64 layers);

// Tokens of the launches that take `tokens` in a plan of that capacity, the last one's maybe fewer.
std::vector<i64> launch_tokens(i64 tokens, i64 capacity);

struct MoeTiming {
  std::string executor, contract, plan_id;
  i64 capacity = 0;
  MoeShape shape;
  i64 tokens = 0;             // of a call
  i64 calls = 0;              // of a replay
  i64 layers = 0;             // that they go through
  MoeWork work;               // of a replay
  i64 distinct_experts = 0;   // of a replay, summed over its launches
  std::vector<i64> replays;   // nanoseconds of each; the i-th of all that are timed together took turns
  std::optional<i64> sm_mhz;  // while replays of it ran behind the timed ones

  i64 launches() const { return ceil_div(tokens, capacity); }
  // Of one call, rounded.
  i64 call_ns(i64 percent = 50) const;
  i64 gb_s() const;
  i64 gflop_s() const;
};

// What floors go by.
struct MoeRates {
  Bandwidth bandwidth;
  std::optional<FlopRate> flops;
  std::optional<i64> decode_per_ns;  // weights, as given: thousands of them are T/s
};

// Thousandths of a call's time; none where the rate is not known.
i64 byte_floor_permille(const MoeTiming& timing, const MoeRates& rates);
std::optional<i64> decode_floor_permille(const MoeTiming& timing, const MoeRates& rates);
std::optional<i64> flop_floor_permille(const MoeTiming& timing, const MoeRates& rates);

// The timing as its record names it: "faithful, decode, 64 tokens".
std::string name_of(const MoeTiming& timing);
// Samples, and the figures that follow from them.
void add_timing(Evidence& evidence, const MoeTiming& timing, const MoeRates& rates);

}  // namespace moeplan
