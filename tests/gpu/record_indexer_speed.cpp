// How long the indexer's calls take, logits and top-2048 together, at every shape of which a peer's time was
// recorded, and whether that passes its bars.
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
  for (const IndexerPeer& peer : indexer_peers()) {
    auto made = indexer_case(peer.shape, "", request_of(peer.shape, contract), gpu.launcher.gpu().sm_count);
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
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const IndexerPeer& peer = indexer_peers()[i];
    const auto timings = (*bench)->time(cases[i], TimedFolds::all);
    if (!timings) return timings.error();
    for (const IndexerTiming& timing : *timings) add_timing(evidence, timing, *bandwidth, &peer);
    if (least_tflop_s(peer.shape))
      evidence.facts.push_back(
          {concat(name_of(peer.shape), ", scoring, TFLOP/s"), tflop_s(timings->front())});
    for (EvidenceFact& bar : missed_bars(timings->front(), peer)) missed.push_back(std::move(bar));
  }
  if (gpu.launcher.gpu().name != kPeerGpu)
    missed.push_back({"missed bar: all", concat("not judged: this is no ", kPeerGpu)});
  evidence.is_pass = missed.empty();
  evidence.facts.insert(evidence.facts.end(), missed.begin(), missed.end());
  gpu.compiled.insert(gpu.compiled.end(), (*bench)->compiled().begin(), (*bench)->compiled().end());
  return evidence;
}

}  // namespace moeplan::test
