// One eager call: launches, allocations and environment reads in closed form, and what it refuses.
#include "tests/catch.hpp"
#include "tests/indexer_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

StepMeta step(const IndexerRequest& request) {
  const auto layout = plan_indexer_step(request);
  REQUIRE(layout);
  CHECK(layout->arena.tensors.empty());
  return std::get<StepMeta>(layout->meta);
}

i64 reads(const StepMeta& meta) {
  i64 sum = 0;
  for (const EnvReads& variable : meta.env_reads) sum += variable.reads;
  return sum;
}

Error refusal(const IndexerRequest& request) {
  const auto layout = plan_indexer_step(request);
  REQUIRE(!layout);
  return layout.error();
}

}  // namespace

TEST_CASE("a tiled call reads 2 + 2N variables and launches 2N + 1 kernels, a packed one reads 2 + N") {
  for (i64 pages : {512, 513, 2048, 8192, 16384}) {
    INFO(pages);
    const i64 chunks = ceil_div(pages, 512);
    const StepMeta tiled = step(glm_step(48, pages));
    CHECK(tiled.num_chunks == chunks);
    CHECK(reads(tiled) == 2 + 2 * chunks);
    CHECK(std::ssize(tiled.launches) == 2 * chunks + 1);
    CHECK(tiled.launches.back() == "attention.indexer.row_topk");
    IndexerRequest shared = glm_step(48, pages);
    shared.args.shared_page_table = true;
    const StepMeta packed = step(shared);
    CHECK(reads(packed) == 2 + chunks);
    CHECK(packed.launches.front() == "attention.indexer.contiguous_logits");
  }
}

TEST_CASE("a fused call reads no variable, launches one kernel and allocates its scores") {
  IndexerRequest request = glm_step(4, 2048);
  request.env = {{"SPARKINFER_INDEXER_TWO_LEVEL_FOLD", "never read"},
                 {"SPARKINFER_INDEXER_STREAM_SCORER", "0"}};
  const StepMeta meta = step(request);
  CHECK(meta.env_reads.empty());
  CHECK(meta.launches == std::vector<std::string_view>{"attention.indexer.fused_indexer"});
  REQUIRE(meta.allocations.size() == 1);
  CHECK(meta.allocations[0].bytes == 4 * 2048 * 4);
  CHECK(meta.num_chunks == 4);
}

TEST_CASE("a two-level call allocates the slab, a carry call nothing and launches no second level") {
  CHECK(step(glm_step(48, 8192)).allocations.size() == 3);
  i64 bytes = 0;
  for (const Allocation& allocation : step(glm_step(48, 8192)).allocations) bytes += allocation.bytes;
  CHECK(bytes == 25'166'016);
  IndexerRequest physical = glm_step(48, 8192);
  physical.args.output_physical_slots = true;
  CHECK(step(physical).allocations.empty());
  CHECK(step(physical).launches.size() == 32);
  CHECK(reads(step(physical)) == 34);
}

TEST_CASE("warm and real launches change nothing but the list of launches") {
  IndexerRequest request = glm_step(48, 8192);
  const StepMeta cold = step(request);
  request.args.warm = true;
  CHECK(step(request).launches == cold.launches);
  request.args.real_launch = true;
  CHECK(step(request).launches.empty());
  CHECK(reads(step(request)) == reads(cold));
}

TEST_CASE("variables are counted under the contract's prefix") {
  IndexerRequest request = glm_step(48, 2048);
  request.contract = find_contract("b12x-36bce2c");
  CHECK(step(request).env_reads[2].variable == "B12X_INDEXER_STREAM_SCORER");
}

TEST_CASE("with the stream scorer off, up to 8 rows refuse a first chunk of 1,024 pages") {
  IndexerRequest request = glm_step(8, 2048);
  request.args.top_k = 1024;
  request.args.num_heads = 64;
  request.args.caps.emplace().paged_tile_logits_k_rows = 65'536;
  request.env = {{"SPARKINFER_INDEXER_STREAM_SCORER", "off"}, {"SPARKINFER_FUSED_INDEXER", "0"}};
  CHECK(refusal(request).code == ErrorCode::indexer_scheduled_tile);
  CHECK(refusal(request).message.find("below 65536 tokens") != std::string::npos);
  request.args.page_table_width = 1023;  // the live table is narrower than a chunk
  CHECK(plan_indexer_step(request));
  request.args.page_table_width = 2048;
  request.args.rows = 9;
  CHECK(plan_indexer_step(request));
  request.args.rows = 8;
  request.env[0].second = "on";
  CHECK(plan_indexer_step(request));
}

TEST_CASE("a call has to fit the plan it is bound to") {
  IndexerRequest request = glm_step(48, 2048);
  request.args.caps.emplace().max_q_rows = 64;
  request.args.caps->max_page_table_width = 8192;
  CHECK(step(request).num_chunks == 4);
  request.args.caps->max_q_rows = 47;
  CHECK(refusal(request).pointer == "/args/rows");
  request.args.caps->max_q_rows = 48;
  request.args.caps->max_page_table_width = 2047;
  CHECK(refusal(request).pointer == "/args/page_table_width");
  request.args.caps->max_page_table_width = 2048;
  request.args.caps->shared_page_table = true;
  CHECK(refusal(request).pointer == "/args/shared_page_table");
  request.args.caps->shared_page_table = false;
  request.args.caps->route = RouteChoice::packed_contiguous;
  CHECK(refusal(request).code == ErrorCode::indexer_binding);
  request.args.caps->route = RouteChoice::paged_fused;
  CHECK(refusal(request).pointer == "/args/caps/route");
  for (i64 rows : {0, -1}) {
    IndexerRequest none = glm_step(rows, 2048);
    CHECK(refusal(none).code == ErrorCode::indexer_binding);
  }
}
