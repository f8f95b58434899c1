// Small plans timed as moeplan bench moe does: every case has as many replays, of the work that was asked
// for.
#include <algorithm>
#include <thread>

#include "runtime/device/moe_bench.hpp"
#include "tests/gpu/gpu_tests.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

MoeBench& bench() {
  static const std::unique_ptr<MoeBench> opened =
      must(open_moe_bench(gpu().compiler, std::thread::hardware_concurrency()));
  return *opened;
}

MoeCase small_case(const char* executor, const char* contract, i64 capacity, i64 block) {
  MoeRequest request = trellis_request(contract, 16, 256, 128, 4, capacity, 1);
  request.capacity.block_size_m = block;
  return must(moe_case(executor, "plan", request, bench().gpu().sm_count));
}

}  // namespace

TEST_CASE("cases of one layer are timed in turns, each launch in layers that rotate") {
  const std::vector<MoeCase> cases = {small_case("a", "sparkinfer-de04125", 64, 8),
                                      small_case("b", "sparkinfer-c2f135c", 64, 8),
                                      small_case("c", "moeplan-lean-1", 64, 8)};
  const MoeShape shape{256, 128, 16, 4, 3};
  for (const i64 tokens : {1, 64}) {
    const std::vector<MoeTiming> timings = must(bench().time(cases, tokens));
    REQUIRE(timings.size() == 3);
    CHECK(timings[0].executor == "a");
    CHECK(timings[1].contract == "sparkinfer-c2f135c");
    for (const MoeTiming& timing : timings) {
      CHECK(timing.shape == shape);
      CHECK(timing.tokens == tokens);
      CHECK(timing.layers >= 2);
      CHECK(timing.calls % timing.layers == 0);
      CHECK(timing.launches() == 1);
      CHECK(timing.replays.size() == 21);
      CHECK(std::ranges::min(timing.replays) > 0);
      CHECK(timing.work.flops == timing.calls * work_of(shape, tokens, 1).flops);
      CHECK(timing.work.weights == work_of(shape, 0, timing.distinct_experts).weights);
      CHECK(timing.distinct_experts >= 4 * timing.calls);
      CHECK(timing.distinct_experts <= 16 * timing.calls);
    }
    CHECK(timings[2].contract == "moeplan-lean-1");
    // The same routes.
    CHECK(timings[0].distinct_experts == timings[1].distinct_experts);
  }
  CHECK_FALSE(bench().compiled().empty());
}

TEST_CASE("a call of more tokens than a plan holds is timed as several launches, which read experts again") {
  const std::vector<MoeCase> cases = {small_case("one", "sparkinfer-de04125", 96, 16),
                                      small_case("several", "sparkinfer-de04125", 40, 16)};
  const std::vector<MoeTiming> timings = must(bench().time(cases, 96));
  REQUIRE(timings.size() == 2);
  CHECK(timings[0].launches() == 1);
  CHECK(timings[1].launches() == 3);
  CHECK(timings[0].work.flops == timings[1].work.flops);
  CHECK(timings[0].work.bytes < timings[1].work.bytes);
  CHECK(timings[1].distinct_experts > timings[0].distinct_experts);
}

TEST_CASE("clocks are told, or why they are not") {
  const std::vector<MoeCase> cases = {small_case("a", "sparkinfer-de04125", 64, 8)};
  const MoeTiming timing = must(bench().time(cases, 8)).front();
  if (bench().clock_trouble().empty()) {
    REQUIRE(timing.sm_mhz);
    CHECK(*timing.sm_mhz > 0);
  } else {
    CHECK_FALSE(timing.sm_mhz);
  }
}

TEST_CASE("tensor cores multiply faster than memory moves, and neither rate is out of this world") {
  const FlopRate flops = must(bench().flop_rate());
  const Bandwidth bandwidth = must(bench().copy_bandwidth());
  CHECK(flops.is_measured);
  CHECK(bandwidth.is_measured);
  CHECK(flops.per_ns > bandwidth.gb_s);
  CHECK(bandwidth.gb_s > 10);
  CHECK(bandwidth.gb_s < 100'000);
  CHECK(flops.per_ns < 100'000'000);
}
