// Which live token counts reach which plan: every step of the scheduler against the dispatch rule.
#include "planner/deployment/exl3_steps.hpp"

#include <set>

#include "tests/catch.hpp"

using namespace moeplan;

namespace {

Exl3Settings settings_of(i64 min_m, i64 max_m, i64 capacity, i64 scheduled, bool prefill = true) {
  Exl3Settings settings;
  settings.decode_min_tokens = min_m;
  settings.decode_tokens = max_m;
  settings.prefill_tokens = capacity;
  settings.prefill_enabled = prefill && scheduled > max_m;
  return settings;
}

EngineSettings engine_of(i64 scheduled, std::vector<i64> captured = {}) {
  EngineSettings engine;
  engine.max_num_batched_tokens = scheduled;
  engine.cudagraph_capture_sizes = std::move(captured);
  return engine;
}

std::set<i64> listed(const std::vector<LiveRange>& ranges) {
  std::set<i64> tokens;
  i64 before = -1;
  for (const LiveRange& range : ranges) {
    CHECK(range.first > before + 1);  // neither touching nor out of order
    before = range.last;
    for (i64 m = range.first; m <= range.last; ++m) tokens.insert(m);
  }
  return tokens;
}

}  // namespace

TEST_CASE("live token counts of both plans are those that dispatching every step finds") {
  int cases = 0;
  for (i64 scheduled = 1; scheduled <= 24; ++scheduled) {
    for (i64 max_m = 1; max_m <= 12; ++max_m) {
      for (i64 min_m = 1; min_m <= max_m; min_m += 2) {
        for (i64 capacity = 1; capacity <= scheduled; ++capacity) {
          for (bool prefill : {true, false}) {
            const Exl3Settings settings = settings_of(min_m, max_m, capacity, scheduled, prefill);
            std::set<i64> decode, sliced;
            bool parity = false;
            for (i64 rows = 1; rows <= scheduled; ++rows) {
              if (min_m <= rows && rows <= max_m) {
                decode.insert(rows);
              } else if (settings.prefill_enabled && rows > max_m) {
                for (i64 start = 0; start < rows; start += capacity)
                  sliced.insert(min_of(capacity, rows - start));
              } else {
                parity = true;
              }
            }
            const Exl3Steps steps = exl3_steps(settings, engine_of(scheduled));
            ++cases;
            if (listed(steps.decode.live) != decode) FAIL("decode of case " << cases);
            if (listed(steps.prefill.live) != sliced) FAIL("prefill of case " << cases);
            if (steps.reaches_parity != parity) FAIL("parity of case " << cases);
          }
        }
      }
    }
  }
  CHECK(cases > 10'000);
}

TEST_CASE(
    "a profile run of 3,072 tokens in slices of 1,024 exercises the slice, and with 1,280 its tail too") {
  CHECK(exl3_steps(settings_of(1, 64, 1024, 3072), engine_of(3072)).prefill.profiled ==
        std::vector<i64>{1024});
  CHECK(exl3_steps(settings_of(1, 64, 1280, 3072), engine_of(3072)).prefill.profiled ==
        std::vector<i64>{1280, 512});
  CHECK(exl3_steps(settings_of(1, 64, 64, 48), engine_of(48)).decode.profiled == std::vector<i64>{48});
}

TEST_CASE("captured sizes go to the plan that serves them, and to none above the scheduler") {
  const Exl3Steps steps = exl3_steps(settings_of(2, 8, 16, 32), engine_of(32, {1, 2, 8, 9, 20, 33}));
  CHECK(steps.decode.captured == std::vector<i64>{2, 8});
  CHECK(steps.prefill.captured == std::vector<i64>{9, 16, 4});
  // A graph padded beyond the scheduler still runs in the decode plan.
  CHECK(contains(exl3_steps(settings_of(1, 64, 32, 32), engine_of(32, {48})).decode.live, 48));
}
