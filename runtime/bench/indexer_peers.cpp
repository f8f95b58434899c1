#include "runtime/bench/indexer_peers.hpp"

#include <algorithm>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// Measured by us on one NVIDIA H200 of 132 multiprocessors, with the public kernels that kPeers names, as
// this project times its own: calls over rotating random inputs of more bytes than the L2 cache holds,
// captured into one graph, events around its replays, the median of those. Scores are fp32 logits of keys of
// 128 elements in pages of 64, and the top-k is the fastest of the exact ones.
constexpr i64 kTokens = 1024;
constexpr i64 kTopK = 2048;

constexpr IndexerShape decode(i64 heads, i64 rows, i64 group, i64 context_k) {
  return {heads, rows, group, context_k * kTokens, kTopK, false};
}

// Rows with pages of their own: logits and top-k in one graph.
constexpr IndexerPeer single(i64 rows, i64 context_k, i64 chain_ns, i64 logits_ns) {
  return {decode(32, rows, 1, context_k), chain_ns, logits_ns, false};
}
// Rows that share their request's pages; the peer reads those again for each row. No chain was recorded:
// top-k is that of as many single rows.
constexpr IndexerPeer grouped(i64 rows, i64 group, i64 context_k, i64 logits_ns, i64 top_k_ns) {
  return {decode(32, rows, group, context_k), logits_ns + top_k_ns, logits_ns, true};
}
// No chain was recorded of these either.
constexpr IndexerPeer prefill(i64 rows, i64 context_k, i64 logits_ns, i64 top_k_ns) {
  return {{32, rows, rows, context_k * kTokens, kTopK, true}, logits_ns + top_k_ns, logits_ns, true};
}

// clang-format off
constexpr IndexerPeer kRecorded[] = {
    single(1, 8, 12'300, 4'200),
    single(1, 32, 15'800, 5'000),
    single(1, 128, 23'100, 8'600),
    single(1, 512, 47'500, 22'500),
    single(4, 8, 14'600, 4'900),
    single(4, 32, 19'800, 8'700),
    single(4, 128, 38'100, 22'700),
    single(4, 512, 107'500, 74'100),
    single(16, 8, 18'800, 8'600),
    single(16, 32, 36'200, 22'700),
    single(16, 128, 95'500, 73'700),
    single(16, 512, 323'400, 275'600),
    single(48, 8, 28'300, 18'100),
    single(48, 32, 74'700, 57'500),
    single(48, 128, 241'700, 208'300),
    single(48, 512, 912'500, 811'600),
    grouped(48, 4, 8, 11'400, 8'700),
    grouped(48, 4, 32, 42'300, 16'500),
    grouped(48, 4, 128, 205'200, 30'600),
    grouped(48, 4, 512, 805'100, 100'700),
    prefill(512, 32, 142'000, 66'000),
    prefill(3072, 8, 218'000, 91'000),
    prefill(3072, 32, 863'000, 277'000),
    prefill(3072, 128, 3'642'000, 909'000),
};
// clang-format on

const IndexerPeer* recorded_peer(const IndexerShape& shape) {
  const auto* found = std::ranges::find(kRecorded, shape, &IndexerPeer::shape);
  return found == std::end(kRecorded) ? nullptr : found;
}

}  // namespace

std::span<const IndexerPeer> indexer_peers() { return kRecorded; }

const IndexerPeer* find_peer(const IndexerShape& shape) {
  if (const IndexerPeer* peer = recorded_peer(shape)) return peer;
  // Seen, and not kept as rows: logits of single rows take as long at 64 heads, within 3 %.
  const bool has_twin = shape.heads == 64 && !shape.is_prefill && shape.rows_per_request == 1;
  if (!has_twin) return nullptr;
  IndexerShape twin = shape;
  twin.heads = 32;
  return recorded_peer(twin);
}

std::string peer_note(const IndexerShape& shape, const IndexerPeer& peer) {
  if (peer.shape.heads != shape.heads) return concat("of ", peer.shape.heads, " heads");
  return peer.is_sum ? "logits + top-k" : "";
}

}  // namespace moeplan
