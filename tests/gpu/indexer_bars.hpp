// What the indexer's speed is held to, beside the recorded peers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/text.hpp"
#include "runtime/bench/indexer_timing.hpp"

namespace moeplan::test {

// The shapes that are timed for the record: those of peers, single rows of 64 heads too, and groups of 6.
inline std::vector<IndexerShape> held_shapes() {
  std::vector<IndexerShape> shapes;
  for (const IndexerPeer& peer : indexer_peers()) shapes.push_back(peer.shape);
  for (const IndexerPeer& peer : indexer_peers()) {
    IndexerShape shape = peer.shape;
    if (shape.is_prefill) continue;
    if (shape.rows_per_request == 1)
      shape.heads = 64;
    else
      shape.rows_per_request = 6;
    shapes.push_back(shape);
  }
  return shapes;
}

// The peer whose time a shape is held to. Of groups that of as many rows with pages of their own: a bar asks
// what sharing pages is worth, not how a peer copes with groups.
inline const IndexerPeer* peer_held_to(IndexerShape shape) {
  if (!shape.is_prefill) shape.rows_per_request = 1;
  return find_peer(shape);
}

// The most that logits and top-2048 may take, in thousandths of that peer's time; none: not held to any.
inline std::optional<i64> largest_permille(const IndexerShape& shape) {
  if (shape.is_prefill) return std::nullopt;
  if (shape.rows_per_request > 1) return 700;
  if (shape.heads == 32) return shape.rows <= 4 ? 800 : 1000;
  if (shape.rows == 48 && shape.context == 32 * 1024) return 1100;
  return shape.rows * shape.context >= 1'500'000 ? 1200 : 1000;
}

// The least that scoring alone may do.
inline std::optional<i64> least_tflop_s(const IndexerShape& shape) {
  const bool is_held =
      shape.is_prefill && shape.heads == 32 && shape.rows == 3072 && shape.context == 32 * 1024;
  return is_held ? std::optional<i64>(250) : std::nullopt;
}

inline double tflop_s(const IndexerTiming& timing) {
  const IndexerShape& shape = timing.shape;
  return static_cast<double>(2 * shape.rows * shape.context * shape.heads * kKeyElements) /
         static_cast<double>(timing.logits_ns()) / 1000;
}

// A fact a bar that is missed, and by how much.
inline std::vector<EvidenceFact> missed_bars(const IndexerTiming& timing) {
  std::vector<EvidenceFact> missed;
  const auto miss = [&](std::string text) {
    missed.push_back({concat("missed bar: ", name_of(timing.shape)), std::move(text)});
  };
  const auto most = largest_permille(timing.shape);
  const IndexerPeer* peer = peer_held_to(timing.shape);
  if (most && !peer) miss("no peer to hold it to");
  if (most && peer && timing.chain_ns() * 1000 > *most * peer->chain_ns)
    miss(concat(timing.chain_ns(), " ns, ", peer_permille(timing, *peer), " thousandths of the peer's ",
                peer->chain_ns, ", ", name_of(peer->shape), "; at most ", *most));
  const auto least = least_tflop_s(timing.shape);
  if (least && tflop_s(timing) < static_cast<double>(*least))
    miss(concat(static_cast<i64>(tflop_s(timing)), " TFLOP/s of scoring; at least ", *least));
  return missed;
}

}  // namespace moeplan::test
