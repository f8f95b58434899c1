// Which kernels an indexer call launches, and with what.
#include "runtime/indexer/indexer_kernels.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "planner/indexer/paged.hpp"
#include "runtime/indexer/sieve.hpp"
#include "tests/catch.hpp"
#include "tests/indexer_support.hpp"
#include "tests/random.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

struct Planned {
  IndexerLayout layout;
  IndexerPlan plan;
};

Planned planned_of(IndexerRequest request, i64 multiprocessors = 132) {
  request.device.sm_count = multiprocessors;
  const auto layout = plan_indexer_paged(request);
  REQUIRE(layout);
  return {*layout, indexer_plan(request, *layout, multiprocessors)};
}

std::byte* const kArena = reinterpret_cast<std::byte*>(i64{1} << 40);

IndexerTensors tensors_of(const IndexerLayout& layout) {
  return indexer_tensors([&](std::string_view name) -> std::byte* {
    const TensorSpec* tensor = find_tensor(layout, name);
    return tensor ? kArena + tensor->offset : nullptr;
  });
}

// A call whose inputs lie somewhere.
IndexerInputs call_of(i64 rows, i64 pages, i64 rows_per_request = 1) {
  return {.q = reinterpret_cast<const unsigned char*>(kArena),
          .weights = reinterpret_cast<const float*>(kArena),
          .cache = reinterpret_cast<const unsigned char*>(kArena),
          .page_table = reinterpret_cast<const int*>(kArena),
          .table_width = pages,
          .lengths = reinterpret_cast<const int*>(kArena),
          .rows = rows,
          .rows_per_request = rows_per_request};
}

// What a launch writes, as ranges of addresses.
struct Range {
  const void* begin;
  i64 bytes;
};
std::vector<Range> written_by(const KernelLaunch<IndexerGatherArguments>& launch) {
  const auto& a = launch.arguments;
  return {{a.quants, launch.grid * kPageKeyBytes},
          {a.scales, launch.grid * kPageScaleBytes},
          {a.contiguous_lengths, a.source.rows * 4},
          {a.runtime_lengths, a.source.rows * 4}};
}
std::vector<Range> written_by(const KernelLaunch<IndexerScoreArguments>& launch) {
  const auto& a = launch.arguments;
  return {{a.logits, ((a.source.rows - 1) * a.logits_stride + a.source.tokens) * 4}};
}
std::vector<Range> written_by(const KernelLaunch<IndexerSelectArguments>& launch) {
  const auto& a = launch.arguments;
  if (!a.slot_values)
    return {{a.scores, a.source.rows * a.top_k * 4}, {a.indices, a.source.rows * a.top_k * 4}};
  const i64 slots = (a.source.rows - 1) * a.slot_row_step + a.first_slot + a.slices;
  std::vector<Range> ranges = {{a.slot_values, slots * a.top_k * 4}, {a.slot_indices, slots * a.top_k * 4}};
  if (a.least_ranks) ranges.push_back({a.least_ranks, a.source.rows * 8});
  return ranges;
}

std::vector<Range> written_by(const KernelLaunch<IndexerSplitArguments>& launch) {
  const auto& a = launch.arguments;
  const i64 rows = a.source.rows;
  return {{a.ends_table, rows * a.ends_pages * 4},
          {a.ends_lengths, rows * 4},
          {a.middle_lengths, rows * 4},
          {a.skipped_pages, rows * 4},
          {a.survivor_counts, rows * kSurvivorLists * kCountWords * 4}};
}
std::vector<Range> written_by(const KernelLaunch<IndexerSieveArguments>& launch) {
  const auto& a = launch.arguments;
  const i64 rows = a.source.rows;
  return {{a.directory, rows * a.directory_stride * 4},
          {a.survivors, rows * kSurvivorLists * a.capacity * 8},
          {a.survivor_counts, rows * kSurvivorLists * kCountWords * 4}};
}
std::vector<Range> written_by(const KernelLaunch<IndexerJoinArguments>& launch) {
  const auto& a = launch.arguments;
  const i64 rows = a.source.rows;
  return {{a.list_values, rows * a.list_stride * 4},
          {a.list_indices, rows * a.list_stride * 4},
          {a.list_counts, rows * 4},
          {a.rest_lengths, rows * 4}};
}

// Whether a range lies in a tensor of the plan.
bool is_inside(const IndexerLayout& layout, const Range& range) {
  const i64 begin = static_cast<const std::byte*>(range.begin) - kArena;
  return std::ranges::any_of(layout.arena.tensors, [&](const TensorSpec& tensor) {
    return tensor.offset <= begin && begin + range.bytes <= tensor.offset + tensor.bytes;
  });
}

IndexerFold first_fold(const Planned& planned, i64 rows, i64 pages, i64 rows_per_request = 1) {
  return indexer_folds(planned.plan,
                       {.table_width = pages, .rows = rows, .rows_per_request = rows_per_request})
      .front();
}

std::vector<std::string> names_of(const std::vector<IndexerLaunch>& launches) {
  std::vector<std::string> names;
  for (const IndexerLaunch& launch : launches)
    names.push_back(std::visit([](const auto& one) { return text_of(one.variant); }, launch));
  return names;
}

}  // namespace

TEST_CASE("blocks share pages evenly, and none is without one") {
  for (int total = 1; total <= 60; ++total) {
    for (int grid = 1; grid <= 70; ++grid) {
      INFO(total << " pages, " << grid << " blocks");
      const PageShares shares(total, grid);
      bool is_even = shares.begin(0) == 0 && shares.begin(shares.blocks) == total && shares.blocks <= grid;
      for (int block = 0; block < shares.blocks; ++block) {
        const int count = shares.begin(block + 1) - shares.begin(block);
        is_even &= count >= 1 && (count == total / shares.blocks || count == total / shares.blocks + 1);
      }
      CHECK(is_even);
    }
  }
}

TEST_CASE(
    "every launch of an indexer call uses a kernel that the plan lists and writes inside of its tensors") {
  Random random;
  i64 calls = 0;
  for (int i = 0; i < 400; ++i) {
    const i64 heads = random.of({16, 32, 64}), rows = random.in(1, 100), pages = random.in(1, 9000);
    IndexerRequest request = glm_paged(rows, pages);
    request.caps.num_q_heads = heads;
    request.caps.top_k = random.of({512, 1024, 2048});
    if (random.in(0, 1)) request.caps.paged_tile_logits_k_rows = random.of({512, 4096, 32768});
    if (random.in(0, 3) == 0) request.caps.reserve_fold = true;
    if (random.in(0, 2) == 0) {
      request.caps.mode = IndexerMode::prefill;
      request.caps.shared_page_table = true;
    }
    const Planned planned = planned_of(request, random.of({3, 132, 188}));
    const IndexerTensors tensors = tensors_of(planned.layout);
    const auto listed = indexer_variants(planned.plan);
    for (int call = 0; call < 6; ++call) {
      const i64 requests = random.in(1, rows), per_request = random.in(1, rows / requests);
      IndexerInputs inputs = call_of(requests * per_request, random.in(1, pages), per_request);
      for (const IndexerFold fold : indexer_folds(planned.plan, inputs)) {
        inputs.fold = fold;
        for (const IndexerLaunch& launch : indexer_launches(planned.plan, tensors, inputs)) {
          std::visit(
              [&](const auto& one) {
                CHECK(std::ranges::find(listed, one.variant) != listed.end());
                CHECK(one.grid >= 1);
                for (const Range& range : written_by(one)) CHECK(is_inside(planned.layout, range));
              },
              launch);
        }
        ++calls;
      }
    }
  }
  CHECK(calls > 400);
}

TEST_CASE("every call of every plan has a fold that there is room for") {
  for (const i64 top_k : kIndexerTopK) {
    for (const i64 rows : {1, 2, 16, 17, 33, 48, 400}) {
      for (const i64 pages : {1, 8, 9, 512, 8192, 16384}) {
        for (const i64 supertile : {0, 512, 4096, 1 << 20}) {
          for (const bool is_prefill : {false, true}) {
            IndexerRequest request = is_prefill ? glm_prefill(rows, pages) : glm_paged(rows, pages);
            request.caps.top_k = top_k;
            if (supertile > 0) request.caps.paged_tile_logits_k_rows = supertile;
            const Planned planned = planned_of(request);
            for (const i64 live : {i64{1}, rows / 2 + 1, rows})
              CHECK_FALSE(indexer_folds(planned.plan, {.table_width = pages, .rows = live}).empty());
          }
        }
      }
    }
  }
}

TEST_CASE("a short context is selected from once") {
  const Planned planned = planned_of(glm_paged(48, 512));
  CHECK(first_fold(planned, 48, 512) == IndexerFold::single);
  CHECK(
      names_of(
          indexer_launches(planned.plan, tensors_of(planned.layout), {.table_width = 512, .rows = 48})) ==
      std::vector<std::string>{"indexer_score HEADS=32 TOKENS=32 ROWS=1 WARPS=4", "indexer_select WARPS=32"});
}

TEST_CASE("rows of a long context are selected from in batches whose logits have room") {
  // 64 rows' logits of 32,768 tokens are 16 rows' of 131,072.
  const Planned planned = planned_of(glm_paged(48, 8192));
  const IndexerTensors tensors = tensors_of(planned.layout);
  const auto score_of = [](const IndexerLaunch& launch) {
    return std::get<KernelLaunch<IndexerScoreArguments>>(launch).arguments;
  };
  const auto select_of = [](const IndexerLaunch& launch) {
    return std::get<KernelLaunch<IndexerSelectArguments>>(launch);
  };
  IndexerInputs inputs = call_of(48, 2048);
  REQUIRE(first_fold(planned, 48, 2048) == IndexerFold::single);
  const auto launches = indexer_launches(planned.plan, tensors, inputs);
  REQUIRE(launches.size() == 6);
  for (std::size_t batch = 0; batch < 3; ++batch) {
    INFO("batch " << batch);
    const i64 row = 16 * static_cast<i64>(batch);
    const IndexerScoreArguments score = score_of(launches[2 * batch]);
    const auto select = select_of(launches[2 * batch + 1]);
    CHECK(score.source.rows == 16);
    CHECK(score.q == inputs.q + row * 32 * 128);
    CHECK(score.weights == inputs.weights + row * 32);
    CHECK(score.source.page_table == inputs.page_table + row * 2048);
    CHECK(score.source.lengths == inputs.lengths + row);
    CHECK(score.logits_stride == 131'072);
    CHECK(select.arguments.source.lengths == inputs.lengths + row);
    CHECK(select.arguments.source.page_table == inputs.page_table + row * 2048);
    CHECK(select.arguments.logits_stride == 131'072);
    CHECK(select.arguments.indices == tensors.topk_indices + row * 2048);
    CHECK(select.arguments.scores == tensors.topk_values + row * 2048);
    CHECK(select.grid == 16 * select.cluster);
    CHECK(select.arguments.parts == select.cluster);
  }
  const auto need = indexer_need(planned.plan, inputs);
  CHECK(need.front().tensor == "tile_logits");
  CHECK(need.front().bytes == i64{16} * 131'072 * 4);
  // Where there is room for a row less, batches are smaller, all of equal rows.
  IndexerPlan smaller = planned.plan;
  --smaller.logits;
  CHECK(score_of(indexer_launches(smaller, tensors, inputs).front()).source.rows == 12);
  // Requests stay whole; one without room is carried through chunks.
  inputs.rows_per_request = 12;
  CHECK(score_of(indexer_launches(planned.plan, tensors, inputs).front()).source.rows == 12);
  inputs.rows_per_request = 24;
  CHECK(first_fold(planned, 48, 2048, 24) == IndexerFold::carry);
}

TEST_CASE(
    "of rows that are longer still every chunk is selected from, in slices where their best have room") {
  const Planned planned = planned_of(glm_paged(48, 8192));
  CHECK(first_fold(planned, 48, 4096) == IndexerFold::single);
  CHECK(first_fold(planned, 11, 4097) == IndexerFold::carry);
  CHECK(first_fold(planned, 1, 4097) == IndexerFold::two_level);
}

TEST_CASE(
    "calls of many tokens are sieved, in batches that have room, and what has none is selected from anew") {
  const Planned planned = planned_of(glm_paged(48, 8192));
  const auto launches = indexer_launches(planned.plan, tensors_of(planned.layout), call_of(48, 8192));
  const std::vector<std::string> names = names_of(launches);
  const std::string tile = " HEADS=32 TOKENS=32 ROWS=1 WARPS=4", select = "indexer_select WARPS=32";
  std::vector<std::string> expected = {"indexer_split"};
  for (int batch = 0; batch < 2; ++batch) {
    for (const std::string& name : {"indexer_score" + tile, select, "indexer_sieve" + tile,
                                    std::string("indexer_join"), std::string("indexer_select WARPS=16")})
      expected.push_back(name);
  }
  for (int chunk = 0; chunk < 13; ++chunk) {
    expected.push_back("indexer_score" + tile);
    expected.push_back(select);
  }
  CHECK(names == expected);
  // What is selected from anew has the lengths that the joins leave.
  const auto& join = std::get<KernelLaunch<IndexerJoinArguments>>(launches[4]);
  CHECK(join.arguments.source.rows == 24);
  for (std::size_t i = 11; i < launches.size(); ++i) {
    const auto* rest = std::get_if<KernelLaunch<IndexerSelectArguments>>(&launches[i]);
    if (!rest) continue;
    CHECK(rest->arguments.source.lengths == join.arguments.rest_lengths);
    CHECK(rest->arguments.keeps_empty);
  }
}

TEST_CASE("calls of more than 3,000,000 tokens are sieved, of more than 16,000,000 where heads are shared") {
  const auto is_sieved = [](i64 heads, i64 rows, i64 pages, i64 per_request) {
    IndexerRequest request = glm_paged(48, 8192);
    request.caps.num_q_heads = heads;
    return first_fold(planned_of(request), rows, pages, per_request) == IndexerFold::sieve;
  };
  CHECK(is_sieved(32, 48, 8192, 1));
  CHECK(is_sieved(32, 6, 8192, 1));
  CHECK_FALSE(is_sieved(32, 5, 8192, 1));
  CHECK_FALSE(is_sieved(32, 48, 4096, 1));
  CHECK(is_sieved(64, 48, 8192, 1));
  CHECK_FALSE(is_sieved(64, 24, 8192, 1));
  CHECK(is_sieved(32, 48, 8192, 4));
  // A request that takes several tiles has no table of its ends for each.
  CHECK_FALSE(is_sieved(32, 48, 8192, 12));
  // Narrower plans have no kernels for it.
  const auto folds_of = [](i64 pages) {
    return indexer_folds(planned_of(glm_paged(48, pages)).plan, {.table_width = 4096, .rows = 48});
  };
  CHECK(std::ranges::count(folds_of(4096), IndexerFold::sieve) == 0);
  CHECK(std::ranges::count(folds_of(4097), IndexerFold::sieve) == 1);
}

TEST_CASE("a sieve has room for half as many survivors again as are to be expected") {
  Random random;
  i64 sieves = 0;
  for (int i = 0; i < 2000; ++i) {
    const i64 per_request = random.in(1, 6), rows = per_request * random.in(1, 20),
              pages = random.in(2, 10'000);
    const i64 words = random.in(1, 4096) * 512, top_k = random.of({512, 1024, 2048});
    const auto sieve = sieve_of(words, rows, per_request, pages, random.of({16, 32}), top_k);
    if (!sieve) continue;
    ++sieves;
    CHECK(sieve->batch_rows % per_request == 0);
    CHECK(sieve->batch_words() + sieve->shared_words() <= words);
    CHECK(2 * kSurvivorLists * sieve->capacity >= 3 * sieve->expected);
    CHECK(sieve->expected * sieve->ends_pages >= top_k * (pages - sieve->ends_pages));
    CHECK(sieve->head_pages * kKernelPageSize >= top_k);
    CHECK(sieve->ends_pages >= 2 * sieve->head_pages);
    CHECK(sieve->ends_pages < pages);
  }
  CHECK(sieves > 200);
}

TEST_CASE("blocks share a row where it is long and few are selected from") {
  const Planned planned = planned_of(glm_paged(48, 8192));
  const auto parts = [&](i64 rows, i64 pages) {
    const auto launches = indexer_launches(planned.plan, tensors_of(planned.layout), call_of(rows, pages));
    return std::get<KernelLaunch<IndexerSelectArguments>>(launches[1]).cluster;
  };
  CHECK(parts(1, 32) == 1);
  CHECK(parts(1, 33) == 2);
  CHECK(parts(1, 65) == 4);
  CHECK(parts(1, 4096) == 8);
  CHECK(parts(12, 512) == 8);  // 96 blocks on 132 multiprocessors
  CHECK(parts(13, 512) == 4);
  CHECK(parts(48, 512) == 2);
  // Parts of 4,096 entries take fewer warps than longer ones.
  const auto select_of = [&](i64 pages) {
    return names_of(indexer_launches(planned.plan, tensors_of(planned.layout), call_of(1, pages)))[1];
  };
  CHECK(select_of(512) == "indexer_select WARPS=16");
  CHECK(select_of(513) == "indexer_select WARPS=32");
}

TEST_CASE("a prefill gathers its pages and carries the best of chunk after chunk") {
  const Planned planned = planned_of(glm_prefill(3072, 1024));
  CHECK(names_of(indexer_launches(planned.plan, tensors_of(planned.layout),
                                  {.table_width = 1024, .rows = 3072})) ==
        std::vector<std::string>{
            "indexer_gather", "indexer_score HEADS=32 TOKENS=32 ROWS=4 WARPS=8", "indexer_select WARPS=32",
            "indexer_gather", "indexer_score HEADS=32 TOKENS=32 ROWS=4 WARPS=8", "indexer_select WARPS=32"});
}

TEST_CASE("rows of a request are scored together where its keys can be shared") {
  const Planned planned = planned_of(glm_paged(48, 512));
  const auto first = [&](i64 rows_per_request) {
    return names_of(
        indexer_launches(planned.plan, tensors_of(planned.layout),
                         {.table_width = 512, .rows = 48, .rows_per_request = rows_per_request}))[0];
  };
  CHECK(first(1) == "indexer_score HEADS=32 TOKENS=32 ROWS=1 WARPS=4");
  CHECK(first(4) == "indexer_score HEADS=32 TOKENS=32 ROWS=4 WARPS=4");
  CHECK(first(6) == "indexer_score HEADS=32 TOKENS=32 ROWS=6 WARPS=6");
  CHECK(first(8) == "indexer_score HEADS=32 TOKENS=16 ROWS=8 WARPS=8");
  // More than have room for their heads, several tiles a request.
  CHECK(first(12) == "indexer_score HEADS=32 TOKENS=32 ROWS=4 WARPS=8");
}

TEST_CASE("a scorer has as many blocks as are to be resident, and none without a page") {
  const Planned planned = planned_of(glm_paged(48, 512));
  const auto grid = [&](i64 rows, i64 pages, i64 rows_per_request) {
    const auto launches =
        indexer_launches(planned.plan, tensors_of(planned.layout), call_of(rows, pages, rows_per_request));
    return std::get<KernelLaunch<IndexerScoreArguments>>(launches.front()).grid;
  };
  CHECK(grid(48, 512, 1) == 3 * 132);
  CHECK(grid(48, 511, 4) == 3 * 132);
  CHECK(grid(48, 511, 6) == 2 * 132);
  // Shares of 16 pages, of one request each.
  CHECK(grid(48, 512, 4) == 384);
  CHECK(grid(48, 512, 6) == 256);
  // Of two pages a share is too small for that.
  CHECK(grid(4, 128, 1) == 3 * 132);
  CHECK(grid(1, 5, 1) == 5);
}

TEST_CASE("a scorer whose logits are selected from last starts before that has ended, others wait at once") {
  const auto follows = [](const Planned& planned, const IndexerInputs& inputs, IndexerFold fold) {
    IndexerInputs of_fold = inputs;
    of_fold.fold = fold;
    std::vector<bool> of_scorers;
    for (const IndexerLaunch& launch : indexer_launches(planned.plan, tensors_of(planned.layout), of_fold)) {
      if (const auto* score = std::get_if<KernelLaunch<IndexerScoreArguments>>(&launch))
        of_scorers.push_back(score->arguments.follows_selection);
    }
    return of_scorers;
  };
  // Keys and queries of a call may be made by the launch before it; those of a prefill are gathered.
  using enum IndexerFold;
  const Planned planned = planned_of(glm_paged(48, 8192));
  CHECK(follows(planned, call_of(48, 2048), single) == std::vector<bool>{false, true, true});
  CHECK(follows(planned, call_of(48, 1000), carry) == std::vector<bool>{false, true});
  // A sieve's first scorer waits for its pages, and that of what is left for whether there is any.
  const std::vector<bool> of_sieve = follows(planned, call_of(48, 8192), sieve);
  REQUIRE(of_sieve.size() == 15);
  for (std::size_t i = 0; i < of_sieve.size(); ++i) CHECK(of_sieve[i] == (i != 0 && i != 2));
  CHECK(follows(planned_of(glm_prefill(3072, 1024)), {.table_width = 1024, .rows = 3072}, carry) ==
        std::vector<bool>{false, false});
  for (const KernelId kernel : {KernelId::indexer_score, KernelId::indexer_select, KernelId::indexer_split,
                                KernelId::indexer_sieve, KernelId::indexer_join})
    CHECK(row_of(kernel).overlaps_last);
  CHECK_FALSE(row_of(KernelId::indexer_gather).overlaps_last);
}

TEST_CASE("plans that our indexer kernels do not run say why") {
  const auto missing = [](auto change) {
    IndexerRequest request = glm_paged(16, 64);
    change(request);
    const auto layout = plan_indexer(request);
    REQUIRE(layout);
    return missing_indexer_kernels(request, *layout);
  };
  CHECK(missing([](IndexerRequest& r) { r.caps.source_layout = SourceLayout::paged; }).empty());
  const auto says = [&](auto change, const char* word) {
    return missing([&](IndexerRequest& r) {
             r.caps.source_layout = SourceLayout::paged;
             change(r);
           }).find(word) != std::string::npos;
  };
  CHECK(says([](IndexerRequest& r) { r.caps.top_k = 700; }, "700"));
  CHECK(says([](IndexerRequest& r) { r.caps.num_q_heads = 48; }, "48"));
  CHECK(says([](IndexerRequest& r) { r.caps.page_size = 32; }, "32"));
  CHECK(says([](IndexerRequest& r) { r.caps.score_mode = "msa"; }, "MSA"));
}

TEST_CASE("the scorer's and the selector's shared memory fits a device with 99 KiB a block") {
  for (const KernelVariant& variant : row_of(KernelId::indexer_score).variants()) {
    const ScoreTile tile = score_tile_of(variant);
    CHECK(score_shared(tile).bytes <= 101'376);
    CHECK(indexer_score_variant(tile) == variant);
    CHECK(tile.rows <= kMostTileRows);
  }
  CHECK(select_shared().bytes <= 101'376);
}
