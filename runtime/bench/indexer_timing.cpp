#include "runtime/bench/indexer_timing.hpp"

#include "planner/core/text.hpp"
#include "runtime/bench/quantile.hpp"

namespace moeplan {
namespace {

double microseconds(i64 nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

}  // namespace

i64 IndexerTiming::chain_ns(i64 percent) const { return rounded_div(quantile(chain, percent), calls); }
i64 IndexerTiming::logits_ns() const { return rounded_div(median(logits), calls); }

i64 floor_permille(const IndexerTiming& timing, i64 gb_s) {
  return floor_permille(floor_bytes(timing.shape), gb_s, timing.chain_ns());
}

i64 peer_permille(const IndexerTiming& timing, const IndexerPeer& peer) {
  return rounded_div(timing.chain_ns() * 1000, peer.chain_ns);
}

void add_timing(Evidence& evidence, const IndexerTiming& timing, const Bandwidth& bandwidth,
                const IndexerPeer* peer) {
  const std::string name = concat(name_of(timing.shape), ", ", name_of(timing.fold));
  const std::string unit = concat("ns a ", timing.calls, timing.calls == 1 ? " call" : " calls");
  const auto fact = [&](std::string_view what, double value) {
    evidence.facts.push_back({concat(name, ", ", what), value});
  };
  evidence.samples.push_back({name, unit, timing.chain});
  fact("median microseconds", microseconds(timing.chain_ns()));
  if (timing.logits.empty()) return;
  evidence.samples.push_back({concat(name, ", without selecting"), unit, timing.logits});
  fact("without selecting, median microseconds", microseconds(timing.logits_ns()));
  fact("of its time for its bytes alone", static_cast<double>(floor_permille(timing, bandwidth.gb_s)) / 1000);
  if (!peer) return;
  const std::string note = peer_note(timing.shape, *peer);
  fact(concat("of the peer's time", note.empty() ? "" : concat(", ", note)),
       static_cast<double>(peer_permille(timing, *peer)) / 1000);
}

}  // namespace moeplan
