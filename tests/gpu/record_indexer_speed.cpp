// How long the indexer's calls take, logits and top-2048 together, at every shape that has a bar or a peer,
// and whether they pass.
#include <thread>

#include "planner/core/text.hpp"
#include "runtime/device/indexer_bench.hpp"
#include "tests/gpu/indexer_bars.hpp"
#include "tests/gpu/records.hpp"

namespace moeplan::test {

Result<Evidence> record_indexer_speed(const RecordContext& context) {
  Gpu& gpu = context.gpu;
  const auto bench = open_indexer_bench(gpu.compiler, i64{std::thread::hardware_concurrency()});
  if (!bench) return bench.error();
  const Contract& contract = *context.decode.layout.contract;
  std::vector<IndexerCase> cases;
  for (const IndexerShape& shape : held_shapes()) {
    auto made = indexer_case(shape, "", request_of(shape, contract), gpu.launcher.gpu().sm_count);
    if (!made) return made.error();
    cases.push_back(std::move(*made));
  }
  const auto bandwidth = (*bench)->copy_bandwidth();
  if (!bandwidth) return bandwidth.error();

  Evidence evidence{.is_pass = true};
  evidence.facts.push_back({"floors of bytes at", text_of(*bandwidth)});
  evidence.facts.push_back({"peers were recorded on", std::string(kPeerGpu)});
  (*bench)->expect(cases);
  std::vector<EvidenceFact> missed;
  for (const IndexerCase& each : cases) {
    const auto timings = (*bench)->time(each, TimedFolds::all);
    if (!timings) return timings.error();
    for (const IndexerTiming& timing : *timings)
      add_timing(evidence, timing, *bandwidth, find_peer(each.shape));
    if (least_tflop_s(each.shape))
      evidence.facts.push_back(
          {concat(name_of(each.shape), ", scoring, TFLOP/s"), tflop_s(timings->front())});
    for (EvidenceFact& bar : missed_bars(timings->front())) missed.push_back(std::move(bar));
  }
  if (gpu.launcher.gpu().name != kPeerGpu)
    missed.push_back({"missed bar: all", concat("not judged: this is no ", kPeerGpu)});
  evidence.is_pass = missed.empty();
  evidence.facts.insert(evidence.facts.end(), missed.begin(), missed.end());
  gpu.compiled.insert(gpu.compiled.end(), (*bench)->compiled().begin(), (*bench)->compiled().end());
  return evidence;
}

}  // namespace moeplan::test
