// The figures of timed MoE layers: paired verdicts, floors, routes, peers, and what a record holds.
#include "runtime/bench/moe_timing.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "kernels/bench/arguments.hpp"
#include "runtime/bench/uniform_routes.hpp"
#include "tests/catch.hpp"
#include "tests/gpu/moe_bars.hpp"
#include "tests/support.hpp"

using namespace moeplan;

namespace {

constexpr MoeShape kGlm = {6144, 512, 160, 8, 3};

// As many runs of 1,000 us, and of that by the ratios of the other.
PairedComparison compared(const std::vector<i64>& ppm) {
  std::vector<i64> first, second;
  i64 drift = 1'000'000;
  for (const i64 ratio : ppm) {
    first.push_back(drift);
    second.push_back(drift * ratio / 1'000'000);
    drift += 100'000;  // what moves both is not seen
  }
  return compare_paired(first, second);
}

std::vector<i64> ratios(i64 count, i64 from, i64 step) {
  std::vector<i64> ppm;
  for (i64 i = 0; i < count; ++i) ppm.push_back(from + i * step);
  return ppm;
}

MoeTiming timing_of(i64 tokens, i64 call_ns) {
  MoeTiming timing{.executor = "faithful",
                   .contract = "sparkinfer-de04125",
                   .plan_id = "decode",
                   .capacity = 64,
                   .shape = kGlm,
                   .tokens = tokens,
                   .calls = 4,
                   .layers = 2};
  for (int i = 0; i < 4; ++i) timing.work += work_of(kGlm, tokens, 8);
  for (i64 i = -10; i <= 10; ++i) timing.replays.push_back(4 * (call_ns + 100 * i));
  return timing;
}

MoeRequest request_of(i64 tokens) {
  return test::trellis_request("sparkinfer-de04125", 16, 256, 128, 4, tokens, 188);
}

}  // namespace

TEST_CASE("a median's interval leaves at most 2.5 % of all signs on either side") {
  for (i64 values = 0; values <= 16; ++values) {
    // Every choice of which values lie below the median.
    std::vector<i64> choices(static_cast<std::size_t>(values + 1));
    for (i64 signs = 0; signs < i64{1} << values; ++signs)
      ++choices[static_cast<std::size_t>(std::popcount(static_cast<std::uint64_t>(signs)))];
    i64 rank = 0, below = 0;
    while (rank <= values && 40 * (below + choices[static_cast<std::size_t>(rank)]) <= i64{1} << values)
      below += choices[static_cast<std::size_t>(rank++)];
    INFO(values);
    CHECK(median_interval_rank(values) == rank);
  }
  CHECK(median_interval_rank(5) == 0);
  CHECK(median_interval_rank(6) == 1);
  CHECK(median_interval_rank(21) == 6);
  CHECK(median_interval_rank(60) == 22);
}

TEST_CASE("runs that took turns say FASTER where the interval is below equal and the median by over 1 %") {
  const PairedComparison faster = compared(ratios(21, 800'000, 1'000));
  CHECK(faster.verdict == PairedVerdict::faster);
  CHECK(faster.pairs == 21);
  CHECK(faster.ratio_ppm == 810'000);
  CHECK(faster.low_ppm == 805'000);
  CHECK(faster.high_ppm == 815'000);
  CHECK(compared(std::vector<i64>(6, 980'000)).verdict == PairedVerdict::faster);
  // Half of the runs much slower: the interval passes equal.
  std::vector<i64> torn(11, 900'000);
  torn.insert(torn.end(), 10, 1'200'000);
  CHECK(compared(torn).verdict == PairedVerdict::unsure);
  // A few outliers decide nothing.
  std::vector<i64> outliers(16, 900'000);
  outliers.insert(outliers.end(), 5, 9'000'000);
  CHECK(compared(outliers).verdict == PairedVerdict::faster);
}

TEST_CASE("SLOWER is the mirror of FASTER") {
  CHECK(compared(ratios(21, 1'100'000, 1'000)).verdict == PairedVerdict::slower);
  CHECK(compared(std::vector<i64>(6, 1'011'000)).verdict == PairedVerdict::slower);
  std::vector<i64> torn(11, 1'200'000);
  torn.insert(torn.end(), 10, 900'000);
  CHECK(compared(torn).verdict == PairedVerdict::unsure);
}

TEST_CASE("SAME is said of an interval within 1 % of equal, ends included, and of nothing wider") {
  CHECK(compared(std::vector<i64>(21, 1'000'000)).verdict == PairedVerdict::same);
  CHECK(compared(ratios(21, 995'000, 500)).verdict == PairedVerdict::same);
  CHECK(compared(std::vector<i64>(21, 990'000)).verdict == PairedVerdict::same);
  CHECK(compared(std::vector<i64>(21, 1'010'000)).verdict == PairedVerdict::same);
  // Below equal throughout, by less than 1 % in the median, and wider than 1 %: neither.
  std::vector<i64> between(14, 992'000);
  between.insert(between.end(), 7, 980'000);
  const PairedComparison wide = compared(between);
  CHECK(wide.low_ppm == 980'000);
  CHECK(wide.high_ppm == 992'000);
  CHECK(wide.verdict == PairedVerdict::unsure);
}

TEST_CASE("fewer than six pairs have no interval and are UNSURE, however clear they look") {
  for (i64 pairs = 1; pairs < 6; ++pairs) {
    const PairedComparison few = compared(ratios(pairs, 500'000, 1'000));
    CHECK(few.verdict == PairedVerdict::unsure);
    CHECK(few.low_ppm == 500'000);
    CHECK(few.high_ppm == 500'000 + 1'000 * (pairs - 1));
  }
  CHECK(compared(ratios(6, 500'000, 1'000)).verdict == PairedVerdict::faster);
  CHECK(name_of(PairedVerdict::faster) == "FASTER");
  CHECK(name_of(PairedVerdict::unsure) == "UNSURE");
}

TEST_CASE(
    "a launch's work is its experts' weights once, x and the output, and two flops a weight and route") {
  const MoeWork one = work_of(kGlm, 1, 8);
  CHECK(one.weights == i64{8} * 3 * 6144 * 512);
  CHECK(one.flops == 2 * one.weights);
  CHECK(one.bytes == 8 * (3 * 6144 * 512 * 3 / 8 + 2 * 3 * (6144 + 512)) + 6144 * (2 + 4));
  // The more tokens share an expert, the fewer bytes each of them moves.
  CHECK(work_of(kGlm, 3072, 160).weights == i64{160} * 3 * 6144 * 512);
  CHECK(work_of(kGlm, 3072, 160).flops == i64{3072} * 8 * 2 * 3 * 6144 * 512);
  MoeWork sum = one;
  sum += one;
  CHECK(sum.bytes == 2 * one.bytes);
  CHECK(sum.weights == 2 * one.weights);
  CHECK(sum.flops == 2 * one.flops);
}

TEST_CASE("layers that rotate hold twice the L2 cache, two at least, and calls are whole turns of them") {
  constexpr i64 kCache = 60'000'000;
  CHECK(rotating_layers(28'000'000, kCache) == 5);
  CHECK(rotating_layers(120'000'000, kCache) == 2);
  CHECK(rotating_layers(560'000'000, kCache) == 2);
  CHECK(rotating_layers(1, kCache) == 8);
  for (const i64 bytes : {20'000'000, 28'000'000, 61'000'000, 600'000'000})
    CHECK(rotating_layers(bytes, kCache) * bytes >= 2 * kCache);
  for (const i64 tokens : {1, 64, 65, 1024, 1025, 3072}) {
    for (const i64 layers : {1, 2, 3, 5, 8}) {
      CHECK(moe_calls(tokens, layers) % layers == 0);
      CHECK(moe_calls(tokens, layers) >= layers);
    }
  }
}

TEST_CASE("a chunk is launched in slices of the capacity, the last one a tail") {
  CHECK(launch_tokens(3072, 3072) == std::vector<i64>{3072});
  CHECK(launch_tokens(3072, 1024) == std::vector<i64>{1024, 1024, 1024});
  CHECK(launch_tokens(3072, 2000) == std::vector<i64>{2000, 1072});
  CHECK(launch_tokens(5, 64) == std::vector<i64>{5});
  for (i64 tokens = 1; tokens < 40; ++tokens) {
    for (i64 capacity = 1; capacity < 40; ++capacity) {
      const auto launches = launch_tokens(tokens, capacity);
      CHECK(std::accumulate(launches.begin(), launches.end(), i64{0}) == tokens);
      CHECK(std::ranges::max(launches) <= capacity);
      CHECK(std::ssize(launches) == ceil_div(tokens, capacity));
    }
  }
}

TEST_CASE(
    "uniform routes give a token different experts while there are enough, the same from the same seed") {
  std::mt19937_64 engine{5}, again{5};
  const auto ids = uniform_routes(engine, 500, 8, 20);
  CHECK(ids == uniform_routes(again, 500, 8, 20));
  REQUIRE(ids.size() == 4000);
  std::vector<i64> counts(20);
  for (std::size_t token = 0; token < 500; ++token) {
    const std::set<int> own(ids.begin() + static_cast<std::ptrdiff_t>(8 * token),
                            ids.begin() + static_cast<std::ptrdiff_t>(8 * token + 8));
    CHECK(own.size() == 8);
    for (const int id : own) ++counts[static_cast<std::size_t>(id)];
  }
  // 200 a piece, within four standard deviations.
  CHECK(std::ranges::min(counts) > 156);
  CHECK(std::ranges::max(counts) < 244);
  CHECK(distinct_experts(ids, 20) == 20);
  CHECK(distinct_experts(std::vector<int>{3, 3, 1}, 20) == 2);
  // More routes than experts: all of them, then again.
  const auto few = uniform_routes(engine, 3, 5, 2);
  CHECK(few.size() == 15);
  for (const int id : few) CHECK((id == 0 || id == 1));
}

TEST_CASE("a timing is of one call, and its rates of all bytes and flops of the median replay") {
  const MoeTiming timing = timing_of(1, 100'000);
  CHECK(timing.call_ns() == 100'000);
  CHECK(timing.call_ns(10) == 99'200);
  CHECK(timing.call_ns(90) == 100'800);
  CHECK(timing.gb_s() == 287);  // 28,667,904 bytes a call
  CHECK(timing.gflop_s() == 1510);
  CHECK(timing.launches() == 1);
}

TEST_CASE("a floor has a percentage where its rate is known, and none where it is not") {
  const MoeTiming timing = timing_of(1, 100'000);
  const MoeRates unknown{.bandwidth = {4260, true}};
  CHECK(byte_floor_permille(timing, unknown) == 67);  // 6,730 ns
  CHECK_FALSE(decode_floor_permille(timing, unknown));
  CHECK_FALSE(flop_floor_permille(timing, unknown));
  const MoeRates given{.bandwidth = {4260, true}, .flops = FlopRate{630'000, false}, .decode_per_ns = 4'100};
  CHECK(decode_floor_permille(timing, given) == 184);  // 75,497,472 weights: 18,414 ns
  CHECK(flop_floor_permille(timing, given) == 2);      // 240 ns
}

TEST_CASE("the rate of tensor cores says whether it was measured, and counts every product of every warp") {
  CHECK(text_of(FlopRate{630'449, true}) == "630.4 TFLOP/s, measured: mma.sync of halves out of registers");
  CHECK(text_of(FlopRate{1'979'050, false}) == "1,979.1 TFLOP/s, given: --flop-rate");
  i64 products = 0;
  for (i64 block = 0; block < 3; ++block)
    for (i64 warp = 0; warp < row_of(KernelId::mma_rate).threads / 32; ++warp)
      for (i64 round = 0; round < 5; ++round)
        for (i64 sum = 0; sum < kMmaRateSums; ++sum) products += 16 * 8 * 16;
  CHECK(mma_rate_flops(3, 5) == 2 * products);
}

TEST_CASE("peers stand beside their own shape and token counts alone") {
  const auto names = [](const MoeShape& shape, i64 tokens) {
    std::vector<std::string> found;
    for (const MoePeerTime& peer : moe_peers(shape, tokens)) {
      CHECK(peer.tokens == tokens);
      CHECK(peer.nanoseconds > 0);
      found.emplace_back(peer.peer.name);
    }
    return found;
  };
  const std::vector<std::string> all = {"exllamav3", "vLLM Marlin int4", "vLLM Marlin nvfp4"};
  for (const i64 tokens : {1, 2, 4, 8, 16, 32, 64, 512, 3072}) CHECK(names(kGlm, tokens) == all);
  CHECK(names(kGlm, 1024) == std::vector<std::string>(all.begin() + 1, all.end()));
  CHECK(names({6144, 512, 256, 8, 3}, 64) == std::vector<std::string>{all[1]});
  // Of other widths the Trellis peer was not recorded.
  CHECK(names({6144, 512, 160, 8, 4}, 64) == std::vector<std::string>(all.begin() + 1, all.end()));
  for (const MoeShape& other : {MoeShape{6144, 512, 160, 4, 3}, MoeShape{6144, 256, 160, 8, 3},
                                MoeShape{4096, 512, 160, 8, 3}, MoeShape{6144, 512, 128, 8, 3}})
    CHECK(moe_peers(other, 64).empty());
  CHECK(moe_peers(kGlm, 3).empty());
  const auto one = moe_peers(kGlm, 1);
  CHECK(one[0].nanoseconds == 84'600);
  CHECK(one[0].peer.bits == 3);
  CHECK(one[1].peer.bits == 0);
  CHECK(one[1].peer.reads.find("no Trellis decode") != std::string_view::npos);
}

TEST_CASE("a case is a Trellis plan made for this GPU's multiprocessors") {
  const auto made = moe_case("faithful", "decode", request_of(64), 132);
  REQUIRE(made);
  CHECK(made->capacity == 64);
  CHECK(made->shape == MoeShape{256, 128, 16, 4, 3});
  CHECK(made->contract == contracts().front().id);
  CHECK(fused_plan(made->plan).multiprocessors == 132);
  CHECK(made->layout.total_bytes != moe_case("faithful", "decode", request_of(64), 1)->layout.total_bytes);
  const MoeRequest packed = test::packed_request("sparkinfer-de04125", 16, 256, 128, 4, 64, 188);
  const auto refused = moe_case("faithful", "decode", packed, 132);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::no_kernels);
  CHECK(refused.error().message.find("no Trellis plan") != std::string::npos);
}

TEST_CASE("a record of MoE timings has every replay, and a floor's share where its rate is known") {
  Evidence evidence;
  MoeTiming timing = timing_of(64, 100'000);
  timing.sm_mhz = 1755;
  add_timing(evidence, timing, {.bandwidth = {4260, true}, .decode_per_ns = 4'100});
  REQUIRE(evidence.samples.size() == 1);
  CHECK(evidence.samples[0].name == "faithful, decode of 64, 64 tokens");
  CHECK(evidence.samples[0].unit == "ns a 4 calls");
  CHECK(evidence.samples[0].values == timing.replays);
  std::vector<std::string> names;
  for (const EvidenceFact& fact : evidence.facts) names.push_back(fact.name);
  CHECK(names ==
        std::vector<std::string>{"faithful, decode of 64, 64 tokens, median microseconds",
                                 "faithful, decode of 64, 64 tokens, of its time for its bytes alone",
                                 "faithful, decode of 64, 64 tokens, of its time for decoding alone",
                                 "faithful, decode of 64, 64 tokens, SM MHz"});
}

TEST_CASE("bars of the lean record: a layer of more than 30 us for a token, or of 1.9 ms for 3,072, misses") {
  using test::missed_bar;
  CHECK_FALSE(missed_bar(timing_of(1, 30'000)));
  CHECK_FALSE(missed_bar(timing_of(2, 1'000'000)));
  CHECK_FALSE(missed_bar(timing_of(8, 165'000)));
  CHECK(missed_bar(timing_of(8, 165'001)));
  CHECK_FALSE(missed_bar(timing_of(64, 440'000)));
  CHECK(missed_bar(timing_of(64, 440'001)));
  CHECK_FALSE(missed_bar(timing_of(512, 800'000)));
  CHECK(missed_bar(timing_of(512, 800'001)));
  CHECK_FALSE(missed_bar(timing_of(3072, 1'900'000)));
  const auto missed = missed_bar(timing_of(3072, 1'900'001));
  REQUIRE(missed);
  CHECK(missed->name == "missed bar: faithful, decode of 64, 3072 tokens");
  CHECK(std::get<std::string>(missed->value) == "1900001 ns; at most 1900000");
}
