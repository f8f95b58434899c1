// Which calls an indexer's plan is validated with, what they need of its tensors, and what a shortage comes
// to.
#include "runtime/validate/indexer_calls.hpp"

#include <set>

#include "runtime/validate/measurement.hpp"
#include "runtime/validate/room.hpp"
#include "runtime/validate/shrink.hpp"
#include "tests/catch.hpp"
#include "tests/indexer_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

struct Planned {
  explicit Planned(const IndexerRequest& request_in)
      : request(request_in), layout(*plan_indexer_paged(request)), plan(indexer_plan(request, layout, 188)) {}
  IndexerRequest request;
  IndexerLayout layout;
  IndexerPlan plan;
};

std::vector<Planned> glm_plans() {
  return {Planned(glm_paged(48, 8192)), Planned(glm_paged(4, 8192)), Planned(glm_prefill(3072, 8192)),
          Planned(glm_paged(1, 1)), Planned(glm_prefill(8192, 8192))};
}

}  // namespace

TEST_CASE("calls see every length that is at the edge of something, and all of the page table") {
  for (const Planned& planned : glm_plans()) {
    const i64 tokens = planned.plan.pages * 64;
    for (const IndexerTestCall& call : calls_to_validate(planned.plan)) {
      INFO(text_of(call) << ", " << call.rows << " rows of " << planned.plan.rows);
      CHECK(call.rows % call.rows_per_request == 0);
      const auto replays = lengths_of(call, planned.plan);
      CHECK(replays.size() >= 2);
      std::set<std::int32_t> seen;
      for (const auto& lengths : replays) {
        REQUIRE(std::ssize(lengths) == distinct_rows(call));
        seen.insert(lengths.begin(), lengths.end());
      }
      CHECK(replays.front()[static_cast<std::size_t>((call.rows - 1) % distinct_rows(call))] ==
            call.pages * 64);
      CHECK(*seen.rbegin() == call.pages * 64);
      const i64 chunk = indexer_chunk_tokens(planned.plan, inputs_of(call));
      for (const i64 length : {i64{0}, i64{1}, i64{63}, i64{64}, i64{65}, i64{2047}, i64{2048}, i64{2049},
                               chunk - 1, chunk, chunk + 1, i64{32832}, i64{131'072}, i64{524'288}})
        if (length <= call.pages * 64) CHECK(seen.contains(static_cast<std::int32_t>(length)));
    }
    CHECK(tokens > 0);
  }
}

TEST_CASE("every fold that a full call has room for is run, and every kind of cache") {
  for (const Planned& planned : glm_plans()) {
    const auto calls = calls_to_validate(planned.plan);
    std::set<CallKind> kinds;
    std::set<IndexerFold> folds;
    for (const IndexerTestCall& call : calls) {
      kinds.insert(call.kind);
      if (call.rows == planned.plan.rows && call.pages == planned.plan.pages) folds.insert(call.fold);
    }
    CHECK(kinds.size() == 4);
    IndexerInputs full = inputs_of(calls.front());
    full.fold.reset();
    for (const IndexerFold fold : indexer_folds(planned.plan, full)) CHECK(folds.contains(fold));
  }
}

TEST_CASE("the need of every call is within the plan, and of some one that leaves no byte of an output") {
  for (const Planned& planned : glm_plans()) {
    const auto calls = calls_to_validate(planned.plan);
    CHECK(check_rooms(planned.plan, place_shrunk(planned.layout, ""), calls));
    for (const char* tensor : {"topk_values", "topk_indices"}) {
      const Status fits = check_rooms(planned.plan, place_shrunk(planned.layout, tensor), calls);
      REQUIRE_FALSE(fits);
      CHECK(fits.error().code == ErrorCode::scratch_too_small);
      CHECK(fits.error().message.starts_with(tensor));
    }
  }
}

TEST_CASE("data of a call: rows of a request share their pages, holes are negative, far pages are far") {
  const Planned planned(glm_paged(6, 12));
  IndexerTestCall call{.rows = 6, .rows_per_request = 3, .pages = 12, .kind = CallKind::holes};
  const auto holes = data_of(call, planned.plan);
  const auto row_of = [](const oracle::IndexerCall& data, std::ptrdiff_t row) {
    return std::vector(data.page_table.begin() + 12 * row, data.page_table.begin() + 12 * (row + 1));
  };
  CHECK(row_of(holes, 0) == row_of(holes, 2));
  CHECK(row_of(holes, 0) != row_of(holes, 3));
  CHECK(std::ranges::count(holes.page_table, -1) > 0);
  call.kind = CallKind::far;
  const auto far = data_of(call, planned.plan);
  CHECK(*std::ranges::max_element(far.page_table) * far.page_stride > i64{1} << 31);
  CHECK(far.page_stride % 16 == 0);
  CHECK(std::ranges::count(far.page_table, -1) == 0);
  call.kind = CallKind::ties;
  CHECK(std::ranges::all_of(data_of(call, planned.plan).weights, [](float weight) { return weight == 0; }));
}

TEST_CASE("rows that repeat others come in whole requests and at other places of a tile") {
  CHECK(distinct_rows({.rows = 48, .rows_per_request = 6}) == 48);
  CHECK(distinct_rows({.rows = 3072, .rows_per_request = 3072}) == 47);
  CHECK(distinct_rows({.rows = 1024, .rows_per_request = 4}) == 44);
  CHECK(distinct_rows({.rows = 1024, .rows_per_request = 6}) == 42);
  CHECK(distinct_rows({.rows = 4, .rows_per_request = 4}) == 4);
}

TEST_CASE("a small indexer plan keeps its route, its keys and its heads") {
  for (const Planned& planned : glm_plans()) {
    const Planned small(small_request(planned.request, planned.layout.route));
    CHECK(small.layout.route == planned.layout.route);
    CHECK(small.plan.top_k == planned.plan.top_k);
    CHECK(small.plan.heads == planned.plan.heads);
    CHECK(small.plan.rows <= 32);
    CHECK(small.plan.has_candidates == (planned.plan.pages > 1));
  }
}

TEST_CASE("a selection that is wrong fails the oracle, and a variable that is read in a step its check") {
  Measurement m{.tolerance = indexer_tolerance("9.0")};
  CHECK(judge(m).passes());
  m.selection_problem = "row 3, 64 tokens long: token 5 is missing";
  REQUIRE(judge(m).failures.size() == 1);
  CHECK(judge(m).failures[0].check == ValidationCheck::oracle);
  CHECK(judge(m).failures[0].text == m.selection_problem);
  m.selection_problem = "";
  m.environment_reads = 1;
  REQUIRE(judge(m).failures.size() == 1);
  CHECK(judge(m).failures[0].check == ValidationCheck::environment);
  CHECK(indexer_tolerance("12.0").largest_l2 > indexer_tolerance("10.0").largest_l2);
  CHECK(indexer_tolerance("8.9").largest_l2 == indexer_tolerance("12.1").largest_l2);
}
