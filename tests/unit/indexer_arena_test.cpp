// Arenas of the indexer: totals that are known, routes, and what is refused.
#include "planner/indexer/fold.hpp"
#include "planner/indexer/paged.hpp"
#include "tests/catch.hpp"
#include "tests/indexer_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

i64 total(const IndexerRequest& request) {
  const auto layout = plan_indexer_paged(request);
  REQUIRE(layout);
  return layout->total_bytes;
}

IndexerRoute route(const IndexerRequest& request) {
  const auto layout = plan_indexer_paged(request);
  REQUIRE(layout);
  CHECK(!layout->route_reason.empty());
  return layout->route;
}

ErrorCode refusal(const Result<IndexerLayout>& layout) {
  REQUIRE(!layout);
  CHECK(layout.error().pointer.starts_with("/"));
  return layout.error().code;
}

}  // namespace

TEST_CASE("GLM-5.2 decode at 48 rows needs 10,750,976 bytes at 128k and at 512k tokens") {
  CHECK(total(glm_paged(48, 2048)) == 10'750'976);
  CHECK(total(glm_paged(48, 8192)) == 10'750'976);
}

TEST_CASE("the fused route ends at 16 rows of GLM-5.2, and the 17th makes the arena smaller") {
  CHECK(total(glm_paged(4, 2048)) == 7'487'488);
  CHECK(total(glm_paged(16, 2048)) == 8'114'176);
  CHECK(total(glm_paged(17, 2048)) == 5'032'960);
  CHECK(total(glm_paged(64, 8192)) == 11'537'408);
  CHECK(route(glm_paged(16, 2048)) == IndexerRoute::paged_fused);
  CHECK(route(glm_paged(17, 2048)) == IndexerRoute::paged_tiled);
}

TEST_CASE("GLM-5.2 prefill needs 557,999,104 bytes at 3,072 rows and 1,480,786,944 at 8,192") {
  CHECK(total(glm_prefill(3072, 2048)) == 557'999'104);
  CHECK(total(glm_prefill(3072, 8192)) == 557'999'104);
  CHECK(total(glm_prefill(8192, 8192)) == 1'480'786'944);
}

TEST_CASE("all contracts lay out the same bytes") {
  for (const Contract& contract : contracts()) {
    IndexerRequest request = glm_paged(48, 2048);
    request.contract = &contract;
    CHECK(total(request) == 10'750'976);
  }
}

TEST_CASE("only the default supertile shrinks to a short context") {
  IndexerRequest request = glm_paged(48, 16);
  CHECK(paged_meta(*plan_indexer_paged(request)).supertile_tokens == 1024);
  request.env = {{"SPARKINFER_PAGED_INDEX_SUPERTILE_K", "32768"}};
  CHECK(paged_meta(*plan_indexer_paged(request)).supertile_tokens == 32768);
  request.env = {{"SPARKINFER_PAGED_INDEX_SUPERTILE_K", "-7"}};
  CHECK(paged_meta(*plan_indexer_paged(request)).supertile_tokens == 512);
  request.env = {{"SPARKINFER_PAGED_INDEX_SUPERTILE_K", "never read"}};
  request.caps.paged_tile_logits_k_rows = 1000;
  CHECK(paged_meta(*plan_indexer_paged(request)).supertile_tokens == 1024);
}

TEST_CASE("a page size that does not divide the supertile is refused, any divisor is taken") {
  IndexerRequest request = glm_paged(48, 2048);
  request.caps.page_size = 48;
  CHECK(refusal(plan_indexer_paged(request)) == ErrorCode::indexer_supertile);
  request.caps.page_size = 1;
  CHECK(plan_indexer_paged(request));
  request.caps.page_size = 1024;
  CHECK(plan_indexer_paged(request));
  request.caps.paged_tile_logits_k_rows = 512;
  CHECK(refusal(plan_indexer_paged(request)) == ErrorCode::indexer_supertile);
}

TEST_CASE("a supertile beyond 63 bits is refused where it was asked for") {
  IndexerRequest request = glm_paged(48, 2048);
  request.env = {{"SPARKINFER_PAGED_INDEX_SUPERTILE_K", std::string(50, '9')}};
  const auto layout = plan_indexer_paged(request);
  CHECK(refusal(layout) == ErrorCode::out_of_range);
  CHECK(layout.error().pointer == "/env/SPARKINFER_PAGED_INDEX_SUPERTILE_K");
}

TEST_CASE("fused rows end at 16 or 6 by shape, and top-k 512 with 64 heads needs sm_120") {
  struct Case {
    i64 heads, top_k, last_fused_row;
    const char* capability;
  };
  const Case cases[] = {{64, 512, 16, "12.0"}, {64, 512, 16, "12.1"}, {64, 512, 0, "9.0"},
                        {64, 512, 0, "10.0"},  {32, 2048, 16, "9.0"}, {64, 2048, 6, "12.0"},
                        {32, 1024, 6, "9.0"},  {1, 512, 6, "9.0"},    {33, 2048, 0, "12.0"},
                        {48, 512, 0, "12.0"},  {49, 512, 6, "12.0"},  {65, 2048, 0, "12.0"},
                        {32, 1000, 0, "12.0"}};
  for (const Case& c : cases) {
    for (i64 rows = 1; rows <= 20; ++rows) {
      INFO(c.heads << " heads, top-k " << c.top_k << ", cc " << c.capability << ", rows " << rows);
      IndexerRequest request = glm_paged(rows, 2048);
      request.caps.num_q_heads = c.heads;
      request.caps.top_k = c.top_k;
      request.device.compute_capability = c.capability;
      const bool fused = rows <= c.last_fused_row;
      CHECK(route(request) == (fused ? IndexerRoute::paged_fused : IndexerRoute::paged_tiled));
      request.caps.route = RouteChoice::paged_fused;
      CHECK(static_cast<bool>(plan_indexer_paged(request)) == fused);
    }
  }
}

TEST_CASE("explicit routes: fused is for decode alone, the others are always taken") {
  IndexerRequest request = glm_prefill(4, 2048);
  request.caps.route = RouteChoice::paged_fused;
  CHECK(refusal(plan_indexer_paged(request)) == ErrorCode::indexer_route_unavailable);
  request.caps.route = RouteChoice::paged_tiled;
  CHECK(route(request) == IndexerRoute::paged_tiled);
  request = glm_paged(4, 2048);
  request.caps.route = RouteChoice::packed_contiguous;
  CHECK(route(request) == IndexerRoute::packed_contiguous);
  request.caps.route = RouteChoice::paged_fused;
  request.env = {{"SPARKINFER_FUSED_INDEXER", "0"}};
  CHECK(refusal(plan_indexer_paged(request)) == ErrorCode::indexer_route_unavailable);
}

TEST_CASE(
    "the prefill key block follows rows, supertile and heads, and its variables only when they are read") {
  const auto block_k = [](IndexerRequest request) {
    const auto layout = plan_indexer_paged(request);
    return layout ? *paged_meta(*layout).prefill_block_k : -1;
  };
  CHECK(block_k(glm_prefill(1024, 2048)) == 512);
  CHECK(block_k(glm_prefill(1023, 2048)) == 256);
  CHECK(block_k(glm_prefill(1024, 63)) == 512);  // 4,032 tokens round to a supertile of 4,096
  CHECK(block_k(glm_prefill(1024, 56)) == 256);
  IndexerRequest narrow = glm_prefill(1024, 2048);
  narrow.caps.paged_tile_logits_k_rows = 3584;
  CHECK(block_k(narrow) == 256);
  IndexerRequest other_heads = glm_prefill(1024, 2048);
  other_heads.caps.num_q_heads = 16;
  CHECK(block_k(other_heads) == 256);

  IndexerRequest off = glm_prefill(1024, 2048);
  off.env = {{"SPARKINFER_NSA_CONTIGUOUS_PREFILL_THRESHOLD", "0"},
             {"SPARKINFER_NSA_CONTIGUOUS_PREFILL_BLOCK_K", "never read"}};
  CHECK(block_k(off) == 256);
  off.env.pop_back();
  off.env[0].second = "1";
  CHECK(block_k(off) == 512);
  off.env[0].second = "x";
  CHECK(block_k(off) == -1);

  IndexerRequest few = glm_prefill(64, 2048);
  few.env = {{"SPARKINFER_NSA_CONTIGUOUS_PREFILL_BLOCK_K", "512"}};
  CHECK(block_k(few) == 256);  // the decode scorer never reads it
  few.env.emplace_back("SPARKINFER_NSA_CONTIGUOUS_PREFILL_THRESHOLD", "1");
  CHECK(refusal(plan_indexer_paged(few)) == ErrorCode::indexer_block_k);

  IndexerRequest decode = glm_paged(48, 2048);
  decode.env = {{"SPARKINFER_NSA_CONTIGUOUS_PREFILL_THRESHOLD", "x"},
                {"SPARKINFER_INDEXER_TWO_LEVEL_FOLD", "x"}};
  CHECK(plan_indexer_paged(decode));
}

TEST_CASE("off CUDA the fused pack is one multiprocessor's, whatever the device claims") {
  IndexerRequest request = glm_paged(6, 2048);
  request.caps.num_q_heads = 64;
  request.device = {std::nullopt, std::nullopt, DeviceType::cpu};
  CHECK(total(request) == 4'528'128);
  request.device.sm_count = 188;
  CHECK(total(request) == 4'528'128);
  request.device = {std::nullopt, std::nullopt, std::nullopt};
  CHECK(refusal(plan_indexer_paged(request)) == ErrorCode::missing_field);
  request.caps.route = RouteChoice::paged_tiled;  // sizes nothing by the device
  CHECK(plan_indexer_paged(request));
}

TEST_CASE("4,983,808 of the 8,114,176 bytes of the 16-row fused arena are never touched") {
  const auto layout = plan_indexer_paged(glm_paged(16, 2048));
  REQUIRE(layout);
  i64 untouched = 0;
  for (const TensorSpec& tensor : layout->arena.tensors) {
    if (!route_touches(layout->route, tensor.name)) untouched += align_up(tensor.bytes, 1024);
  }
  CHECK(untouched == 4'983'808);
}

TEST_CASE("lengths serve the packed route alone, carry halves no two-level call") {
  CHECK(route_touches(IndexerRoute::packed_contiguous, "runtime_lengths"));
  CHECK(!route_touches(IndexerRoute::paged_tiled, "contiguous_lengths"));
  CHECK(route_touches(IndexerRoute::paged_tiled, "candidate_values"));
  CHECK(!route_touches(IndexerRoute::paged_tiled, "candidate_values", FoldUse::two_level));
  CHECK(route_touches(IndexerRoute::paged_tiled, "tile_logits", FoldUse::two_level));
  CHECK(route_touches(IndexerRoute::contiguous, "lengths"));
}

TEST_CASE("a reserved fold slab stands behind the engine's tensors and moves none of them") {
  IndexerRequest request = glm_paged(48, 16384);
  const auto plain = plan_indexer_paged(request);
  request.caps.reserve_fold = true;
  const auto reserved = plan_indexer_paged(request);
  REQUIRE(plain);
  REQUIRE(reserved);
  const TensorSpec* slab = find_tensor(*reserved, "fold_slab");
  REQUIRE(slab);
  CHECK(slab->bytes == 49'545'408);
  CHECK(slab->offset == plain->total_bytes);
  for (const TensorSpec& tensor : plain->arena.tensors)
    CHECK(find_tensor(*reserved, tensor.name)->offset == tensor.offset);
  request.env = {{"SPARKINFER_INDEXER_TWO_LEVEL_FOLD", "off"}};
  CHECK(total(request) == plain->total_bytes);
  request.env = {{"SPARKINFER_INDEXER_TWO_LEVEL_FOLD", "maybe"}};
  CHECK(refusal(plan_indexer_paged(request)) == ErrorCode::invalid_environment);
}

TEST_CASE("the score mode is nsa or msa in any letter case") {
  IndexerRequest request = glm_paged(8, 2048);
  request.caps.score_mode = "NSA";
  CHECK(!find_tensor(*plan_indexer_paged(request), "msa_block_scores"));
  request.caps.score_mode = "mSa";
  request.caps.num_idx_heads = -3;
  const auto layout = plan_indexer_paged(request);
  REQUIRE(layout);
  CHECK(layout->route == IndexerRoute::paged_fused);
  CHECK(find_tensor(*layout, "msa_expanded_seqlens")->bytes == 32);
  request.caps.score_mode = "msa ";
  CHECK(refusal(plan_indexer_paged(request)) == ErrorCode::indexer_score_mode);
}

TEST_CASE("numbers below their floor are raised to it") {
  IndexerRequest request = glm_paged(0, -5);
  request.caps.top_k = 0;
  request.caps.page_size = 0;
  request.caps.num_q_heads = -1;
  IndexerRequest ones = glm_paged(1, 1);
  ones.caps.top_k = 1;
  ones.caps.page_size = 1;
  ones.caps.num_q_heads = 1;
  CHECK(total(request) == total(ones));
}

TEST_CASE("the front door finds the page count from the keys, and the width wins over them") {
  IndexerRequest request = glm_paged(48, 0);
  request.caps.source_layout = SourceLayout::paged;
  request.caps.max_page_table_width.reset();
  CHECK(refusal(plan_indexer(request)) == ErrorCode::indexer_context);
  request.caps.max_k_rows = 131'073;
  CHECK(paged_meta(*plan_indexer(request)).max_chunks == 5);
  request.caps.max_page_table_width = 513;
  CHECK(paged_meta(*plan_indexer(request)).max_chunks == 2);
  request.caps.supertile_k = 1024;
  CHECK(paged_meta(*plan_indexer(request)).supertile_tokens == 1024);
}

TEST_CASE(
    "a contiguous supertile is 32,768 by default, 256 for an explicit 0, all keys behind the front door") {
  const auto tiles = [](const Result<IndexerLayout>& layout) {
    REQUIRE(layout);
    return std::get<ContiguousMeta>(layout->meta).max_chunk_tiles;
  };
  IndexerRequest request = glm_paged(48, 0);
  request.caps.source_layout = SourceLayout::contiguous;
  request.caps.max_k_rows = 131'072;
  CHECK(tiles(plan_indexer_contiguous(request)) == 128);
  CHECK(tiles(plan_indexer(request)) == 512);
  request.caps.supertile_k = 0;
  CHECK(tiles(plan_indexer_contiguous(request)) == 1);
  CHECK(tiles(plan_indexer(request)) == 512);
  request.caps.max_k_rows = 1;
  CHECK(tiles(plan_indexer(request)) == 1);
  request.caps.max_k_rows.reset();
  CHECK(refusal(plan_indexer(request)) == ErrorCode::indexer_context);
}

TEST_CASE(
    "contiguous keys take their type's width, block 256 alone, and point at their own descriptors off CUDA") {
  IndexerRequest request = glm_paged(48, 0);
  request.caps.max_k_rows = 1000;
  CHECK(find_tensor(*plan_indexer_contiguous(request), "k_quant")->bytes == 1024 * 128);
  CHECK(find_tensor(*plan_indexer_contiguous(request), "k_tma_desc_ptrs")->fill.kind == FillKind::none);
  request.caps.k_dtype = DType::bfloat16;
  request.device.type = DeviceType::cpu;
  CHECK(find_tensor(*plan_indexer_contiguous(request), "k_quant")->bytes == 1024 * 128 * 2);
  CHECK(find_tensor(*plan_indexer_contiguous(request), "k_tma_desc_ptrs")->fill.kind ==
        FillKind::own_address);
  request.caps.score_mode = "msa";
  const auto msa = plan_indexer_contiguous(request);
  REQUIRE(msa);
  CHECK(find_tensor(*msa, "msa_block_scores")->shape.dims[2] == 8);
  CHECK(!find_tensor(*msa, "msa_page_scores"));
  CHECK(!find_tensor(*msa, "msa_expanded_seqlens"));
  request.caps.prefill_block_k = 512;
  CHECK(refusal(plan_indexer_contiguous(request)) == ErrorCode::indexer_block_k);
}

TEST_CASE("the stand-alone selectors reserve the most any call needs, not rounded") {
  IndexerRequest request = indexer_request();
  request.caps.max_rows = 16;
  request.caps.max_width = 131'072;
  request.caps.top_k = 2048;
  CHECK(plan_indexer_fused(request)->total_bytes == 2'883'760);
  request.caps.max_rows = 1000;
  CHECK(plan_indexer_fused(request)->total_bytes == 188 * (16 + 8 * 2048));
  request.device.type = DeviceType::cpu;
  CHECK(plan_indexer_fused(request)->total_bytes == 1000 * (16 + 8 * 2048));
  request.caps.top_k = 256;
  CHECK(refusal(plan_indexer_fused(request)) == ErrorCode::indexer_top_k);

  request = indexer_request();
  request.caps.max_stride = -1;
  for (const auto& [rows, groups] : {std::pair<i64, i64>{-1, 1}, {48, 48}, {188, 188}, {300, 188}}) {
    request.caps.max_rows = rows;
    CHECK(plan_indexer_persistent_topk(request)->total_bytes == groups * 3088);
  }
  request.device = {std::nullopt, std::nullopt, DeviceType::cpu};
  CHECK(plan_indexer_persistent_topk(request)->total_bytes == 300 * 3088);
  request.device = {};
  CHECK(refusal(plan_indexer_persistent_topk(request)) == ErrorCode::missing_field);
}

TEST_CASE("the fused launch policy divides the device among rows") {
  IndexerRequest request = indexer_request();
  request.args.width = 131'072;
  request.args.num_heads = 32;
  request.args.top_k = 2048;
  const auto policy = [&](i64 rows) {
    request.args.rows = rows;
    const auto layout = plan_indexer_fused_policy(request);
    REQUIRE(layout);
    return std::get<FusedPolicyMeta>(layout->meta);
  };
  CHECK(policy(1).merge_threshold == 24'028);
  CHECK(policy(4).merge_threshold == 16'384);
  CHECK(policy(16).ctas_per_group == 11);
  CHECK(policy(16).resolved);
  CHECK(!policy(17).resolved);
  CHECK(policy(200).ctas_per_group == 1);
  CHECK(policy(200).merge_threshold == 1 << 30);
  CHECK(policy(200).pack_need > policy(200).pack_elements);
  request.args.width = 0;
  CHECK(!policy(1).resolved);
  request.args.rows = 0;
  CHECK(refusal(plan_indexer_fused_policy(request)) == ErrorCode::not_positive);
  request.args.rows = 1;
  request.device = {std::nullopt, std::nullopt, DeviceType::cpu};
  CHECK(refusal(plan_indexer_fused_policy(request)) == ErrorCode::missing_field);
}
