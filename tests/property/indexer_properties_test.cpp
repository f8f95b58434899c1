// What holds for every indexer arena and every fold slab.
#include <map>
#include <vector>

#include "planner/core/limits.hpp"
#include "planner/indexer/fold.hpp"
#include "planner/indexer/geometry.hpp"
#include "tests/catch.hpp"
#include "tests/indexer_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

__extension__ typedef __int128 Wide;

// Aligned, in order, without overlap, inside the arena; and the sum in 128 bits.
bool is_sound(const IndexerLayout& layout) {
  Wide end = 0;
  for (const TensorSpec& tensor : layout.arena.tensors) {
    Wide bytes = item_bytes(tensor.dtype);
    for (int i = 0; i < tensor.shape.rank; ++i) bytes *= tensor.shape.dims[i];
    const Wide start = (end + 1023) / 1024 * 1024;
    if (bytes < 1 || tensor.bytes != bytes || tensor.offset != start) return false;
    end = start + bytes;
  }
  const Wide total = (end + 1023) / 1024 * 1024;
  return layout.total_bytes == total && total <= INT64_MAX;
}

// Slices counted chunk by chunk, as a call does.
i64 counted_slices(i64 pages, i64 page_size, i64 chunk_pages) {
  const i64 tokens = pages * page_size;
  i64 slice = 16384;
  if ((tokens + 31) / 32 > slice) slice = ((tokens + 31) / 32 + page_size - 1) / page_size * page_size;
  i64 slices = 0;
  for (i64 at = 0; at < pages; at += chunk_pages) {
    const i64 chunk = std::min(chunk_pages, pages - at) * page_size;
    slices += std::max<i64>(1, (chunk + slice - 1) / slice);
  }
  return slices;
}

}  // namespace

TEST_CASE("every paged arena is aligned to 1,024, in order and without overlap") {
  for (i64 rows : {1, 4, 16, 17, 32, 33, 48, 64, 1000, 3072}) {
    for (i64 pages : {1, 7, 8, 512, 513, 2048, 16384}) {
      for (i64 top_k : {1, 512, 1000, 2048}) {
        for (const char* score : {"nsa", "msa"}) {
          for (bool prefill : {false, true}) {
            IndexerRequest request = prefill ? glm_prefill(rows, pages) : glm_paged(rows, pages);
            request.caps.top_k = top_k;
            request.caps.score_mode = score;
            request.caps.num_idx_heads = 3;
            request.caps.reserve_fold = rows % 2 == 0;
            INFO(rows << " rows, " << pages << " pages, top-k " << top_k);
            CHECK(is_sound(*plan_indexer_paged(request)));
            request.caps.max_k_rows = pages * 64 - 1;
            CHECK(is_sound(*plan_indexer_contiguous(request)));
          }
        }
      }
    }
  }
}

TEST_CASE("tile logits are a step function of rows in granules of 32") {
  i64 before = 0;
  for (i64 rows = 1; rows <= 200; ++rows) {
    const auto layout = plan_indexer_paged(glm_paged(rows, 2048));
    const i64 bytes = find_tensor(*layout, "tile_logits")->bytes;
    CHECK(bytes == (rows + 31) / 32 * 32 * 32768 * 4);
    CHECK((bytes != before) == (rows % 32 == 1));
    before = bytes;
  }
}

TEST_CASE("from the second chunk on, no arena depends on its page table's width") {
  for (i64 rows : {4, 17, 48, 300}) {
    for (bool prefill : {false, true}) {
      const auto total = [&](i64 pages) {
        return plan_indexer_paged(prefill ? glm_prefill(rows, pages) : glm_paged(rows, pages))->total_bytes;
      };
      const i64 expected = total(513);
      CHECK(total(512) == expected - 4 * rows * 2048 * 8 / 2);  // both halves of values and indices
      for (i64 pages = 513; pages <= 16384; pages += 331) CHECK(total(pages) == expected);
    }
  }
}

TEST_CASE("the fold slab bound is the exhaustive maximum over every width and row count") {
  constexpr i64 kMostRows = 64;
  constexpr i64 kMostPages = 16384;
  struct Case {
    i64 page_size, chunk_pages, top_k;
    FoldSettings settings;
  };
  const Case cases[] = {{64, 512, 2048, {FoldMode::automatic, i64{256} << 20}},
                        {64, 512, 2048, {FoldMode::automatic, i64{20} << 20}},
                        {64, 512, 2048, {FoldMode::on, 0}},
                        {64, 8, 512, {FoldMode::automatic, i64{64} << 20}},
                        {64, 1024, 2048, {FoldMode::automatic, i64{10} << 20}},
                        {16, 2048, 1000, {FoldMode::automatic, i64{5} << 20}},
                        {48, 100, 512, {FoldMode::automatic, i64{30} << 20}}};
  for (const Case& c : cases) {
    std::vector<i64> best(kMostRows + 1, 0);  // by capacity rows, over the widths so far
    for (i64 pages = 1; pages <= kMostPages; ++pages) {
      const i64 slices = counted_slices(pages, c.page_size, c.chunk_pages);
      CHECK_FALSE(slices != fold_total_slices(pages, c.page_size, c.chunk_pages));
      i64 most = 0;
      for (i64 rows = 1; rows <= kMostRows && pages * c.page_size >= 32768; ++rows) {
        const i64 bytes = rows * (slices * c.top_k * 8 + 4);
        if (c.settings.mode == FoldMode::on || bytes <= c.settings.budget_bytes) most = std::max(most, bytes);
        best[static_cast<std::size_t>(rows)] = std::max(best[static_cast<std::size_t>(rows)], most);
      }
      // Every width with one row count after the other; with all of them now and then.
      const bool all_rows = pages % 2048 == 0;
      for (i64 rows = all_rows ? 1 : 1 + pages % kMostRows; rows <= kMostRows;
           rows += all_rows ? 1 : kMostRows) {
        const FoldPeak peak = worst_fold_slab({.max_rows = rows,
                                               .top_k = c.top_k,
                                               .page_size = c.page_size,
                                               .max_pages = pages,
                                               .chunk_pages = c.chunk_pages,
                                               .output_physical_slots = false},
                                              c.settings);
        if (peak.bytes == best[static_cast<std::size_t>(rows)]) continue;
        INFO(rows << " rows, " << pages << " pages, chunk " << c.chunk_pages);
        CHECK(peak.bytes == best[static_cast<std::size_t>(rows)]);
      }
    }
  }
}

TEST_CASE("a fold call never allocates more than the bound of its plan, and some call allocates it all") {
  const FoldSettings settings{FoldMode::automatic, i64{256} << 20};
  for (i64 rows : {48, 3072}) {
    const FoldPeak peak = worst_fold_slab({rows, 2048, 64, 8192, 512, false}, settings);
    i64 most = 0;
    for (i64 pages = 1; pages <= 8192; pages += 13) {
      for (i64 live = 1; live <= rows; live += rows / 24) {
        const auto call = choose_fold({live, 2048, 64, pages, 512, false}, settings, "/rows");
        if (call->two_level) most = std::max(most, call->candidate_bytes);
      }
    }
    CHECK(most > 0);
    CHECK(most <= peak.bytes);
    const auto at_peak = choose_fold({peak.rows, 2048, 64, peak.pages, 512, false}, settings, "/rows");
    CHECK(at_peak->two_level);
    CHECK(at_peak->candidate_bytes == peak.bytes);
  }
}

TEST_CASE("the largest accepted indexer inputs stay within 63 bits") {
  IndexerRequest request = glm_paged(kMaxIndexerRows, kMaxIndexerPages);
  request.device.sm_count = kMaxMultiprocessors;
  request.caps.num_q_heads = kMaxHeads;
  request.caps.top_k = kMaxIndexerTopK;
  request.caps.page_size = 128;
  request.caps.score_mode = "msa";
  request.caps.num_idx_heads = kMaxIndexHeads;
  request.caps.paged_tile_logits_k_rows = kMaxTileLogitsBytes / 4 / kMaxIndexerRows;
  request.caps.route = RouteChoice::packed_contiguous;
  const auto widest = plan_indexer_paged(request);
  REQUIRE(widest);
  CHECK(is_sound(*widest));
  request.caps.paged_tile_logits_k_rows = kMaxSupertileTokens;
  CHECK(plan_indexer_paged(request).error().code == ErrorCode::out_of_range);
  request.caps.paged_tile_logits_k_rows = 0;
  request.caps.reserve_fold = true;
  const auto reserved = plan_indexer_paged(request);
  CHECK((reserved ? is_sound(*reserved) : reserved.error().code == ErrorCode::out_of_range));
  request.caps.page_size = 256;
  CHECK(plan_indexer_paged(request).error().pointer == "/caps/max_page_table_width");

  request.caps.max_k_rows = kMaxIndexerTokens;
  request.caps.supertile_k = kMaxSupertileTokens;
  request.caps.k_dtype = DType::int64;
  const auto contiguous = plan_indexer_contiguous(request);
  REQUIRE(contiguous);
  CHECK(is_sound(*contiguous));

  IndexerRequest fused = indexer_request();
  fused.device = {std::nullopt, std::nullopt, DeviceType::cpu};
  fused.caps.max_rows = kMaxIndexerRows;
  fused.caps.max_width = kMaxIndexerTokens;
  fused.caps.top_k = 2048;
  CHECK(plan_indexer_fused(fused)->total_bytes == kMaxIndexerRows * (16 + 8 * 2048));
  CHECK(plan_indexer_persistent_topk(fused)->total_bytes == kMaxIndexerRows * 3088);
}
