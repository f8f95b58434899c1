// How long a layer of the record's config takes in plans of the lean contract and of the config's own, at
// every token count that deployments bring, and whether the lean one passes its bars.
#include <thread>

#include "planner/core/text.hpp"
#include "runtime/device/moe_bench.hpp"
#include "tests/gpu/moe_bars.hpp"
#include "tests/gpu/records.hpp"

namespace moeplan::test {
namespace {

constexpr i64 kTokens[] = {1, 2, 4, 8, 16, 32, 64, 512, 1024, 3072};
constexpr std::string_view kLean = "lean";

struct Executor {
  std::string_view name;
  const Contract* contract;  // null: the config's own
};

// Of the executor's decode plan and its prefill plan the smaller one that holds the tokens.
Result<MoeCase> case_of(const RecordContext& context, const Executor& executor, i64 tokens) {
  const bool is_decode = tokens <= context.decode.request.capacity.tokens();
  MoeRequest request = is_decode ? context.decode.request : context.prefill.request;
  if (executor.contract) request.contract = executor.contract;
  return moe_case(std::string(executor.name), is_decode ? "decode" : "prefill", std::move(request),
                  context.gpu.launcher.gpu().sm_count);
}

}  // namespace

Result<Evidence> record_lean_speed(const RecordContext& context) {
  Gpu& gpu = context.gpu;
  const auto bench = open_moe_bench(gpu.compiler, i64{std::thread::hardware_concurrency()});
  if (!bench) return bench.error();
  const auto bandwidth = (*bench)->copy_bandwidth();
  if (!bandwidth) return bandwidth.error();
  const auto flops = (*bench)->flop_rate();
  if (!flops) return flops.error();
  const MoeRates rates{*bandwidth, *flops, std::nullopt};
  const Executor executors[] = {{"faithful", nullptr}, {kLean, find_contract("moeplan-lean-1")}};

  Evidence evidence{.is_pass = true};
  evidence.facts.push_back({"planned for multiprocessors", gpu.launcher.gpu().sm_count});
  evidence.facts.push_back({"floors of bytes at", text_of(*bandwidth)});
  evidence.facts.push_back({"floors of flops at", text_of(*flops)});
  for (const i64 tokens :
       {context.decode.request.capacity.tokens(), context.prefill.request.capacity.tokens()}) {
    for (const Executor& executor : executors) {
      const auto made = case_of(context, executor, tokens);
      if (!made) return made.error();
      evidence.facts.push_back(
          {concat(executor.name, ", ", made->plan_id, " of ", made->capacity, ", arena bytes"),
           made->layout.total_bytes});
    }
  }
  std::vector<EvidenceFact> missed;
  for (const i64 tokens : kTokens) {
    std::vector<MoeCase> cases;
    for (const Executor& executor : executors) {
      auto made = case_of(context, executor, tokens);
      if (!made) return made.error();
      cases.push_back(std::move(*made));
    }
    const auto timings = (*bench)->time(cases, tokens);
    if (!timings) return timings.error();
    for (const MoeTiming& timing : *timings) {
      add_timing(evidence, timing, rates);
      if (timing.executor != kLean) continue;
      if (auto bar = missed_bar(timing)) missed.push_back(std::move(*bar));
    }
  }
  if (gpu.launcher.gpu().name != kMoePeerGpu)
    missed.push_back({"missed bar: all", concat("not judged: this is no ", kMoePeerGpu)});
  evidence.is_pass = missed.empty();
  evidence.facts.insert(evidence.facts.end(), missed.begin(), missed.end());
  gpu.compiled.insert(gpu.compiled.end(), (*bench)->compiled().begin(), (*bench)->compiled().end());
  return evidence;
}

}  // namespace moeplan::test
