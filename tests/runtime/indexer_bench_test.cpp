// The figures of timed indexer calls: floors, peers, quantiles, what a record holds, and the bars it is held
// to.
#include <algorithm>
#include <set>

#include "runtime/bench/indexer_timing.hpp"
#include "runtime/bench/quantile.hpp"
#include "tests/catch.hpp"
#include "tests/gpu/indexer_bars.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

constexpr i64 kTokens = 1024;

// A timing whose calls take so many nanoseconds.
IndexerTiming timing_of(const IndexerShape& shape, i64 chain_ns, i64 logits_ns) {
  return {.shape = shape, .calls = 10, .chain = {10 * chain_ns}, .logits = {10 * logits_ns}};
}

const IndexerPeer& peer_of(const IndexerShape& shape) {
  const IndexerPeer* peer = find_peer(shape);
  REQUIRE(peer != nullptr);
  return *peer;
}

}  // namespace

TEST_CASE("the byte floor reads each request's pages once, and each row's logits out and back") {
  CHECK(floor_bytes({32, 1, 1, 131'072}) == 132 * 131'072 + 8 * 131'072);
  CHECK(floor_bytes({32, 48, 1, 131'072}) == 48 * (132 + 8) * i64{131'072});
  CHECK(floor_bytes({64, 48, 6, 131'072}) == (8 * 132 + 48 * 8) * i64{131'072});
  CHECK(floor_bytes({32, 3072, 3072, 32 * kTokens, 2048, true}) == (132 + 3072 * 8) * 32 * kTokens);
}

TEST_CASE("the calls of a replay together read several times what the L2 cache holds") {
  constexpr i64 kCache = 60'000'000;
  for (const IndexerPeer& peer : indexer_peers()) {
    const i64 calls = calls_of(peer.shape, kCache);
    const i64 bytes =
        peer.shape.requests() * peer.shape.context * 132 + peer.shape.rows * peer.shape.heads * 132;
    CHECK(calls >= 1);
    CHECK(calls * bytes >= 2 * kCache);
    CHECK((calls - 1) * bytes < 4 * kCache);
  }
  CHECK(calls_of({32, 1, 1, 64}, kCache) == 160);
  CHECK(calls_of({32, 1, 1, 64}, 0) == 1);
}

TEST_CASE("a peer is found for its own shape, and for single rows of 64 heads that of 32") {
  const IndexerShape shape{32, 16, 1, 128 * kTokens};
  CHECK(peer_of(shape).chain_ns == 95'500);
  CHECK(peer_of(shape).logits_ns == 73'700);
  CHECK(peer_of({32, 3072, 3072, 32 * kTokens, 2048, true}).chain_ns == 1'140'000);
  const IndexerPeer& twin = peer_of({64, 16, 1, 128 * kTokens});
  CHECK(&twin == &peer_of(shape));
  CHECK(peer_note(shape, twin).empty());
  CHECK(peer_note({64, 16, 1, 128 * kTokens}, twin) == "of 32 heads");
  for (const IndexerShape& other :
       {IndexerShape{64, 48, 4, 128 * kTokens}, IndexerShape{32, 48, 6, 128 * kTokens},
        IndexerShape{64, 3072, 3072, 32 * kTokens, 2048, true}, IndexerShape{16, 16, 1, 128 * kTokens},
        IndexerShape{32, 15, 1, 128 * kTokens}, IndexerShape{32, 16, 4, 128 * kTokens},
        IndexerShape{32, 16, 1, 64 * kTokens}, IndexerShape{32, 16, 1, 128 * kTokens, 1024},
        IndexerShape{32, 16, 1, 128 * kTokens, 2048, true}})
    CHECK(find_peer(other) == nullptr);
}

TEST_CASE("the peer of groups has logits of its own, and a chain that adds the top-k of as many rows") {
  const std::pair<i64, i64> logits_ns[] = {{8, 11'400}, {32, 42'300}, {128, 205'200}, {512, 805'100}};
  for (const auto& [context_k, logits] : logits_ns) {
    const IndexerShape shape{32, 48, 4, context_k * kTokens};
    const IndexerPeer& peer = peer_of(shape);
    CHECK(peer.logits_ns == logits);
    CHECK(peer.is_sum);
    CHECK(peer_note(shape, peer) == "logits + top-k");
  }
  CHECK(peer_of({32, 48, 4, 128 * kTokens}).chain_ns == 205'200 + 30'600);
  for (const IndexerPeer& peer : indexer_peers()) CHECK(peer.is_sum == (peer.shape.rows_per_request > 1));
}

TEST_CASE("the table of peers has each shape once, and every plan of them has kernels") {
  std::set<std::string> names;
  for (const IndexerPeer& peer : indexer_peers()) {
    CHECK(names.insert(name_of(peer.shape)).second);
    CHECK(peer.shape.rows % peer.shape.rows_per_request == 0);
    CHECK(peer.chain_ns > peer.logits_ns);
    const auto made = indexer_case(peer.shape, "", request_of(peer.shape, contracts().front()), 132);
    REQUIRE(made);
    CHECK(made->plan.multiprocessors == 132);
    CHECK((made->plan.route == IndexerRoute::packed_contiguous) == peer.shape.is_prefill);
  }
  CHECK(names.size() == 24);
  CHECK(names.contains("32 heads 48x512k groups of 4"));
  CHECK(names.contains("prefill 32 heads 3072x32k"));
}

TEST_CASE("the record times 44 shapes: those of peers, single rows of 64 heads, and groups of 6") {
  std::set<std::string> names;
  for (const IndexerShape& shape : held_shapes()) {
    CHECK(names.insert(name_of(shape)).second);
    CHECK(shape.rows % shape.rows_per_request == 0);
    CHECK(largest_permille(shape).has_value() != shape.is_prefill);
    CHECK(peer_held_to(shape) != nullptr);
    CHECK(indexer_case(shape, "", request_of(shape, contracts().front()), 132));
  }
  CHECK(names.size() == 44);
  CHECK(names.contains("64 heads 48x512k"));
  CHECK(names.contains("32 heads 48x512k groups of 6"));
}

TEST_CASE("quantiles are values that are there, and times are of one call") {
  CHECK(median({5}) == 5);
  CHECK(median({9, 1, 5}) == 5);
  std::vector<i64> values;
  for (i64 i = 0; i <= 20; ++i) values.push_back(20 - i);
  CHECK(quantile(values, 0) == 0);
  CHECK(quantile(values, 10) == 2);
  CHECK(quantile(values, 90) == 18);
  CHECK(quantile(values, 100) == 20);
  const IndexerTiming timing{
      .shape = {32, 1, 1, kTokens}, .calls = 4, .chain = {400, 402, 800}, .logits = {202, 201, 203}};
  CHECK(timing.chain_ns() == 101);
  CHECK(timing.chain_ns(90) == 200);
  CHECK(timing.logits_ns() == 51);
  // 143,360 B at 10 B a nanosecond would take 14,336 ns.
  CHECK(floor_permille(timing_of(timing.shape, 28'672, 1), 10) == 500);
}

TEST_CASE(
    "bars: few rows 0.8, 32 heads 1.0, 64 heads by their work, groups 0.7 of the peer's time of single "
    "rows") {
  const std::pair<IndexerShape, i64> bars[] = {
      {{32, 1, 1, 8 * kTokens}, 800},     {{32, 4, 1, 512 * kTokens}, 800},
      {{32, 16, 1, 8 * kTokens}, 1000},   {{32, 48, 1, 512 * kTokens}, 1000},
      {{64, 1, 1, 512 * kTokens}, 1000},  {{64, 4, 1, 512 * kTokens}, 1200},
      {{64, 16, 1, 32 * kTokens}, 1000},  {{64, 16, 1, 128 * kTokens}, 1200},
      {{64, 48, 1, 8 * kTokens}, 1000},   {{64, 48, 1, 32 * kTokens}, 1100},
      {{64, 48, 1, 128 * kTokens}, 1200}, {{32, 48, 4, 8 * kTokens}, 700},
      {{32, 48, 6, 512 * kTokens}, 700}};
  for (const auto& [shape, permille] : bars) {
    CHECK(largest_permille(shape) == permille);
    const IndexerPeer& peer = peer_of({32, shape.rows, 1, shape.context});
    CHECK(peer_held_to(shape) == &peer);
    const i64 most = permille * peer.chain_ns / 1000;
    CHECK(missed_bars(timing_of(shape, most, 1)).empty());
    const auto missed = missed_bars(timing_of(shape, most + 1, 1));
    REQUIRE(missed.size() == 1);
    CHECK(missed[0].name == "missed bar: " + name_of(shape));
  }
  const IndexerShape first = bars[0].first;
  CHECK(std::get<std::string>(missed_bars(timing_of(first, 12'300, 1))[0].value) ==
        "12300 ns, 1000 thousandths of the peer's 12300, 32 heads 1x8k; at most 800");
}

TEST_CASE("the bar of a prefill is what its scorer does, 250 TFLOP/s, and not the peer's time") {
  const IndexerShape shape{32, 3072, 3072, 32 * kTokens, 2048, true};
  // 2 * 3072 * 32768 * 32 * 128 flop.
  CHECK(missed_bars(timing_of(shape, 9'000'000, 3'298'000)).empty());
  const auto missed = missed_bars(timing_of(shape, 1'000'000, 3'299'000));
  REQUIRE(missed.size() == 1);
  CHECK(std::get<std::string>(missed[0].value) == "249 TFLOP/s of scoring; at least 250");
  const IndexerShape shorter{32, 3072, 3072, 8 * kTokens, 2048, true};
  CHECK(missed_bars(timing_of(shorter, 9'000'000, 9'000'000)).empty());
}

TEST_CASE("a record holds the samples of a timing, and the figures that follow from them") {
  const IndexerShape shape{32, 16, 1, 128 * kTokens};
  const IndexerTiming timing{.shape = shape,
                             .fold = IndexerFold::two_level,
                             .calls = 2,
                             .chain = {160'000, 150'000, 170'000},
                             .logits = {100'000, 110'000, 120'000}};
  Evidence evidence;
  add_timing(evidence, timing, {4000, true}, &peer_of(shape));
  REQUIRE(evidence.samples.size() == 2);
  CHECK(evidence.samples[0].name == "32 heads 16x128k, two-level");
  CHECK(evidence.samples[0].unit == "ns a 2 calls");
  CHECK(evidence.samples[0].values == timing.chain);
  CHECK(evidence.samples[1].values == timing.logits);
  const auto fact = [&](const std::string& what) {
    const auto found =
        std::ranges::find(evidence.facts, "32 heads 16x128k, two-level, " + what, &EvidenceFact::name);
    REQUIRE(found != evidence.facts.end());
    return std::get<double>(found->value);
  };
  CHECK(fact("median microseconds") == 80.0);
  CHECK(fact("without selecting, median microseconds") == 55.0);
  CHECK(fact("of the peer's time") == 0.838);
  CHECK(fact("of its time for its bytes alone") == 0.918);
  add_timing(evidence, timing_of({64, 16, 1, 128 * kTokens}, 95'500, 1), {4000, true}, &peer_of(shape));
  CHECK(evidence.facts.back().name == "64 heads 16x128k, single, of the peer's time, of 32 heads");
  evidence.samples.resize(2);
  // Another fold has been run without its logits alone.
  IndexerTiming other = timing;
  other.logits.clear();
  add_timing(evidence, other, {4000, true}, &peer_of(shape));
  CHECK(evidence.samples.size() == 3);
}
