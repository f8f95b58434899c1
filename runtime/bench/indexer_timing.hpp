// What timing a call of an indexer came to, and what is said of it. Times are in whole nanoseconds.
#pragma once

#include <string>
#include <vector>

#include "runtime/bench/indexer_peers.hpp"
#include "runtime/bench/rates.hpp"
#include "runtime/evidence.hpp"

namespace moeplan {

struct IndexerTiming {
  IndexerShape shape;
  std::string plan_id;
  IndexerRoute route{};
  IndexerFold fold{};
  i64 calls = 0;            // of a replay
  std::vector<i64> chain;   // each replay's nanoseconds, logits and top-k of all its calls
  std::vector<i64> logits;  // without selecting, all of them; empty where nobody asked

  // Of one call, rounded.
  i64 chain_ns(i64 percent = 50) const;
  i64 logits_ns() const;
};

// What a call would take if it did nothing but move its floor_bytes, in thousandths of what it takes.
i64 floor_permille(const IndexerTiming& timing, i64 gb_s);

// What a call takes, in thousandths of what the peer took.
i64 peer_permille(const IndexerTiming& timing, const IndexerPeer& peer);

// Samples, and the figures that follow from them. `peer`: null without one to compare with.
void add_timing(Evidence& evidence, const IndexerTiming& timing, const Bandwidth& bandwidth,
                const IndexerPeer* peer);

}  // namespace moeplan
