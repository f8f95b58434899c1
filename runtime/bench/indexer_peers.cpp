#include "runtime/bench/indexer_peers.hpp"

#include <algorithm>

namespace moeplan {
namespace {

constexpr i64 kTokens = 1024;
constexpr i64 kTopK = 2048;

// Calls of the engine's steps. Rows of 64 heads take the peer within 3 % of those of 32, whose times stand
// for both; it reads the pages of a request again for each of its rows, so groups have the times of single
// rows.
constexpr IndexerPeer decode(i64 heads, i64 rows, i64 group, i64 context_k, i64 chain_ns, i64 logits_ns) {
  return {{heads, rows, group, context_k * kTokens, kTopK, false}, chain_ns, logits_ns};
}
constexpr IndexerPeer prefill(i64 heads, i64 rows, i64 context_k, i64 chain_ns, i64 logits_ns) {
  return {{heads, rows, rows, context_k * kTokens, kTopK, true}, chain_ns, logits_ns};
}

// clang-format off
constexpr IndexerPeer kRecorded[] = {
    decode(32, 1, 1, 8, 12'300, 4'200),
    decode(32, 1, 1, 32, 15'800, 5'000),
    decode(32, 1, 1, 128, 23'100, 8'600),
    decode(32, 1, 1, 512, 47'500, 22'500),
    decode(32, 4, 1, 8, 14'600, 4'900),
    decode(32, 4, 1, 32, 19'800, 8'700),
    decode(32, 4, 1, 128, 38'100, 22'700),
    decode(32, 4, 1, 512, 107'500, 74'100),
    decode(32, 16, 1, 8, 18'800, 8'600),
    decode(32, 16, 1, 32, 36'200, 22'700),
    decode(32, 16, 1, 128, 95'500, 73'700),
    decode(32, 16, 1, 512, 323'400, 275'600),
    decode(32, 48, 1, 8, 28'300, 18'100),
    decode(32, 48, 1, 32, 74'700, 57'500),
    decode(32, 48, 1, 128, 241'700, 208'300),
    decode(32, 48, 1, 512, 912'500, 811'600),
    decode(64, 1, 1, 8, 12'300, 4'200),
    decode(64, 1, 1, 32, 15'800, 5'000),
    decode(64, 1, 1, 128, 23'100, 8'600),
    decode(64, 1, 1, 512, 47'500, 22'500),
    decode(64, 4, 1, 8, 14'600, 4'900),
    decode(64, 4, 1, 32, 19'800, 8'700),
    decode(64, 4, 1, 128, 38'100, 22'700),
    decode(64, 4, 1, 512, 107'500, 74'100),
    decode(64, 16, 1, 8, 18'800, 8'600),
    decode(64, 16, 1, 32, 36'200, 22'700),
    decode(64, 16, 1, 128, 95'500, 73'700),
    decode(64, 16, 1, 512, 323'400, 275'600),
    decode(64, 48, 1, 8, 28'300, 18'100),
    decode(64, 48, 1, 32, 74'700, 57'500),
    decode(64, 48, 1, 128, 241'700, 208'300),
    decode(64, 48, 1, 512, 912'500, 811'600),
    decode(32, 48, 4, 8, 28'300, 18'100),
    decode(32, 48, 4, 32, 74'700, 57'500),
    decode(32, 48, 4, 128, 241'700, 208'300),
    decode(32, 48, 4, 512, 912'500, 811'600),
    decode(32, 48, 6, 8, 28'300, 18'100),
    decode(32, 48, 6, 32, 74'700, 57'500),
    decode(32, 48, 6, 128, 241'700, 208'300),
    decode(32, 48, 6, 512, 912'500, 811'600),
    prefill(32, 512, 32, 208'000, 142'000),
    prefill(32, 3072, 8, 309'000, 218'000),
    prefill(32, 3072, 32, 1'140'000, 863'000),
    prefill(32, 3072, 128, 4'551'000, 3'642'000),
};
// clang-format on

}  // namespace

std::span<const IndexerPeer> indexer_peers() { return kRecorded; }

const IndexerPeer* find_peer(const IndexerShape& shape) {
  const auto* found = std::ranges::find(kRecorded, shape, &IndexerPeer::shape);
  return found == std::end(kRecorded) ? nullptr : found;
}

}  // namespace moeplan
