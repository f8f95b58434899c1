// The two-level fold: which calls take it, and what its slab costs at worst.
#include "planner/indexer/fold.hpp"

#include "tests/catch.hpp"
#include "tests/indexer_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

constexpr FoldSettings kDefault{FoldMode::automatic, i64{256} << 20};

FoldDecision decide(i64 rows, i64 pages, FoldSettings settings = kDefault, bool physical = false) {
  const auto decision = choose_fold({.rows = rows,
                                     .top_k = 2048,
                                     .page_size = 64,
                                     .pages = pages,
                                     .chunk_pages = 512,
                                     .output_physical_slots = physical},
                                    settings, "/rows");
  REQUIRE(decision);
  return *decision;
}

FoldPeak worst(i64 rows, i64 pages, FoldSettings settings = kDefault) {
  return worst_fold_slab({.max_rows = rows,
                          .top_k = 2048,
                          .page_size = 64,
                          .max_pages = pages,
                          .chunk_pages = 512,
                          .output_physical_slots = false},
                         settings);
}

}  // namespace

TEST_CASE("48 rows fold 6,291,648 bytes at 128k, 25,166,016 at 512k and 47,972,544 at 1,000,000 tokens") {
  CHECK(decide(48, 2048).candidate_bytes == 6'291'648);
  CHECK(decide(48, 8192).candidate_bytes == 25'166'016);
  CHECK(decide(48, 15625).candidate_bytes == 47'972'544);
}

TEST_CASE("the 32 slices are no cap: 33 behind 524,288 tokens, 63 short of 1M, 32 at 1M, then one a chunk") {
  for (const auto& [tokens, slices] : {std::pair<i64, i64>{524'288, 32},
                                       {524'352, 33},
                                       {1'000'000, 61},
                                       {1'046'528, 63},
                                       {1'046'592, 32},
                                       {1'048'576, 32},
                                       {1'280'000, 40}}) {
    INFO(tokens);
    CHECK(decide(1, ceil_div(tokens, 64)).total_slices == slices);
  }
}

TEST_CASE("carry: physical output, then short context, then off, then the budget: equality fits") {
  const FoldSettings off{FoldMode::off, 0};
  CHECK(decide(48, 1, off, true).reason == "physical output requires streaming carry");
  CHECK(decide(48, 511, off).reason == "context is below the two-level threshold");
  CHECK(decide(48, 512, off).reason == "two-level fold is disabled");
  CHECK(decide(48, 512).two_level);
  const i64 bytes = decide(48, 512).candidate_bytes;
  CHECK(decide(48, 512, {FoldMode::automatic, bytes}).two_level);
  const FoldDecision over = decide(48, 512, {FoldMode::automatic, bytes - 1});
  CHECK(!over.two_level);
  CHECK(over.candidate_bytes == bytes);
  CHECK(over.total_slices == 0);
  CHECK(over.reason == "candidate slab exceeds the memory budget");
  CHECK(decide(48, 512, {FoldMode::on, 0}).reason == "forced");
}

TEST_CASE("the worst slab of 3,072 rows at 512k is 268,380,840 bytes: 2,730 rows in 6 slices") {
  const FoldPeak peak = worst(3072, 8192);
  CHECK(peak.bytes == 268'380'840);
  CHECK(peak.rows == 2730);
  CHECK(peak.slices == 6);
  CHECK(peak.pages == 1281);
  CHECK(peak.tokens == 81'984);
}

TEST_CASE("the worst slab of 48 rows at 1M is 49,545,408 bytes, short of the full context") {
  const FoldPeak peak = worst(48, 16384);
  CHECK(peak.bytes == 49'545'408);
  CHECK(peak.rows == 48);
  CHECK(peak.slices == 63);
  CHECK(peak.pages == 15'873);
  CHECK(decide(48, 16384).candidate_bytes < peak.bytes);
}

TEST_CASE("a plan whose calls never fold has no slab") {
  CHECK(worst(48, 511).bytes == 0);
  CHECK(worst(48, 8192, {FoldMode::off, i64{1} << 40}).bytes == 0);
  CHECK(worst(48, 8192, {FoldMode::automatic, 0}).bytes == 0);
  CHECK(worst(48, 8192, {FoldMode::on, 0}).bytes == 25'166'016);
}

TEST_CASE(
    "a fold plan lists the slices of every chunk and refuses what is not positive before the variables") {
  IndexerRequest request = indexer_request();
  request.args.q_rows = 48;
  request.args.top_k = 2048;
  request.args.page_table_width = 1025;
  request.args.supertile_pages = 512;
  const auto layout = plan_indexer_fold(request);
  REQUIRE(layout);
  const auto& meta = std::get<FoldMeta>(layout->meta);
  REQUIRE(meta.chunks.size() == 3);
  CHECK(meta.chunks[2].slices == 1);
  CHECK(meta.chunks[2].base == 4);
  CHECK(meta.total_slices == 5);
  CHECK(find_tensor(*layout, "fold_lengths")->fill.value == 5 * 2048);
  CHECK(find_tensor(*layout, "fold_values")->offset == kOutsideArena);

  request.env = {{"SPARKINFER_INDEXER_TWO_LEVEL_FOLD", "maybe"}};
  CHECK(plan_indexer_fold(request).error().code == ErrorCode::invalid_environment);
  request.args.supertile_pages = 0;
  CHECK(plan_indexer_fold(request).error().code == ErrorCode::not_positive);
  CHECK(plan_indexer_fold(request).error().pointer == "/args/supertile_pages");
  // Refused even where the answer would not depend on it.
  request.args.supertile_pages = 512;
  request.args.page_table_width = 1;
  request.args.output_physical_slots = true;
  CHECK(plan_indexer_fold(request).error().code == ErrorCode::invalid_environment);
}
