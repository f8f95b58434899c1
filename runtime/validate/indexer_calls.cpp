#include "runtime/validate/indexer_calls.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>
#include <utility>

#include "planner/core/check.hpp"
#include "planner/core/text.hpp"
#include "runtime/indexer/random_calls.hpp"

namespace moeplan {
namespace {

// Rows whose logits the reference computes, at most: whole requests, an odd number of them, so that rows that
// repeat them have other places in a tile.
constexpr i64 kMostDistinctRows = 47;

// Pages of the cache that no row of one request has.
constexpr i64 kSparePages = 5;

constexpr i64 kFarBytes = (i64{1} << 31) + (i64{1} << 30);

using Engine = std::mt19937_64;

template <class T>
std::size_t at(T index) {
  return static_cast<std::size_t>(index);
}

bool is_packed(const IndexerPlan& plan) { return plan.route == IndexerRoute::packed_contiguous; }

// A row of the page table: `pages` of the cache's, each once.
std::vector<std::int32_t> shuffled_pages(Engine& engine, i64 pages, i64 in_cache, bool has_holes) {
  std::vector<std::int32_t> numbers(at(in_cache));
  std::iota(numbers.begin(), numbers.end(), 0);
  for (std::size_t i = numbers.size() - 1; i > 0; --i) std::swap(numbers[i], numbers[engine() % (i + 1)]);
  numbers.resize(at(pages));
  if (has_holes) {
    for (std::int32_t& number : numbers)
      if (engine() % 4 == 0) number = -1;
  }
  return numbers;
}

// The largest that requests of the plan may have, one that leaves tiles half empty among them.
std::vector<i64> request_rows(const IndexerPlan& plan) {
  std::vector<i64> rows = {1};
  for (const i64 several : {2, 3, 4, 6})
    if (!is_packed(plan) && several <= plan.rows) rows.push_back(several);
  return rows;
}

}  // namespace

std::string text_of(const IndexerTestCall& call) {
  return concat(name_of(call.fold), " over ", call.pages, call.pages == 1 ? " page" : " pages",
                kCallNames[static_cast<int>(call.kind)],
                call.rows_per_request > 1 ? concat(" by ", call.rows_per_request, " rows") : "");
}

IndexerInputs inputs_of(const IndexerTestCall& call) {
  return {.table_width = call.pages,
          .rows = call.rows,
          .rows_per_request = call.rows_per_request,
          .fold = call.fold};
}

i64 distinct_rows(const IndexerTestCall& call) {
  // Rows that share their pages need not come in whole requests.
  const i64 unit = call.rows_per_request < call.rows ? call.rows_per_request : 1;
  if (call.rows <= kMostDistinctRows + unit) return call.rows;
  const i64 units = kMostDistinctRows / unit;
  return unit * (units - (units % 2 == 0 ? 1 : 0));
}

oracle::IndexerCall data_of(const IndexerTestCall& call, const IndexerPlan& plan) {
  Engine engine(7 + at(static_cast<int>(call.kind)));
  const i64 rows = distinct_rows(call), in_cache = call.pages + kSparePages;
  oracle::IndexerCall data{.heads = plan.heads, .rows = rows, .table_width = call.pages};
  data.q = random_e4m3(engine, rows * plan.heads * kKeyElements);
  // Where logits are to be equal all of them are zero.
  data.weights = call.kind == CallKind::ties ? std::vector<float>(at(rows * plan.heads), 0.0f)
                                             : random_weights(engine, rows * plan.heads, true);
  data.cache = random_pages(engine, in_cache);
  data.page_stride = kPageBytes;
  if (call.kind == CallKind::far)
    data.page_stride = max_of(kPageBytes, align_up(ceil_div(kFarBytes, in_cache), 16));
  for (i64 row = 0; row < rows; row += call.rows_per_request) {
    const auto pages = shuffled_pages(engine, call.pages, in_cache, call.kind == CallKind::holes);
    for (i64 i = row; i < min_of(rows, row + call.rows_per_request); ++i)
      data.page_table.insert(data.page_table.end(), pages.begin(), pages.end());
  }
  data.lengths = lengths_of(call, plan).front();
  return data;
}

std::vector<std::vector<std::int32_t>> lengths_of(const IndexerTestCall& call, const IndexerPlan& plan) {
  const i64 tokens = call.pages * kKernelPageSize, chunk = indexer_chunk_tokens(plan, inputs_of(call));
  std::vector<i64> lengths = {tokens};
  const auto add = [&](std::initializer_list<i64> others) {
    for (const i64 length : others)
      if (length >= 0 && length <= tokens && std::ranges::find(lengths, length) == lengths.end())
        lengths.push_back(length);
  };
  const auto add_edge = [&](i64 edge) { add({edge - 1, edge, edge + 1}); };
  add({0, 1, tokens - 1, 131'072, 524'288});
  for (const i64 edge : {kKernelPageSize, plan.top_k, chunk, 2 * chunk, plan.supertile}) add_edge(edge);
  if (const i64 ends = indexer_ends_tokens(plan, inputs_of(call))) add_edge(ends);
  add({32'768 + kKernelPageSize});

  const i64 rows = distinct_rows(call), count = std::ssize(lengths);
  const i64 last = (call.rows - 1) % rows;  // that the call's last row repeats
  const i64 step = rows < count ? rows : max_of(count / 2, 1);
  std::vector<std::vector<std::int32_t>> replays(at(max_of(ceil_div(count, rows), 2)));
  for (i64 replay = 0; replay < std::ssize(replays); ++replay) {
    for (i64 row = 0; row < rows; ++row) {
      const i64 place = ((last - row + rows) % rows + replay * step) % count;
      replays[at(replay)].push_back(static_cast<std::int32_t>(lengths[at(place)]));
    }
  }
  return replays;
}

std::vector<IndexerTestCall> calls_to_validate(const IndexerPlan& plan) {
  std::vector<IndexerTestCall> calls;
  // Of every fold that there is room for, or of the one that the call's size asks for.
  const auto add = [&](IndexerTestCall call, bool with_every_fold) {
    if (is_packed(plan)) call.rows_per_request = call.rows;
    IndexerInputs inputs = inputs_of(call);
    inputs.fold.reset();
    for (const IndexerFold fold : indexer_folds(plan, inputs)) {
      call.fold = fold;
      calls.push_back(call);
      if (!with_every_fold) break;
    }
  };
  for (const i64 of_request : request_rows(plan)) {
    const i64 rows = plan.rows / of_request * of_request;
    add({.rows = rows, .rows_per_request = of_request, .pages = plan.pages}, of_request == 1);
  }
  for (const CallKind kind : {CallKind::holes, CallKind::far, CallKind::ties})
    add({.rows = plan.rows, .pages = plan.pages, .kind = kind}, false);
  add({.rows = 1, .pages = plan.pages}, true);
  add({.rows = ceil_div(plan.rows, 2), .pages = ceil_div(plan.pages, 3)}, true);
  add({.rows = plan.rows, .pages = 1, .kind = CallKind::holes}, false);
  return calls;
}

std::vector<IndexerTestCall> calls_to_shrink(const IndexerPlan& plan) {
  std::vector<IndexerTestCall> calls = calls_to_validate(plan);
  std::erase_if(calls, [&](const IndexerTestCall& call) {
    return call.rows != plan.rows || call.kind != CallKind::shuffled || call.pages != plan.pages;
  });
  return calls;
}

IndexerRequest small_request(const IndexerRequest& request, IndexerRoute route) {
  // Logits are planned for multiples of 32 rows: fewer have longer chunks, of whole pages where they are a
  // power of two. Both halves of the candidates are used from three chunks on.
  constexpr i64 kSmallSupertile = 512, kLogitsRows = 32, kChunks = 3;
  const i64 most_rows = min_of(request.caps.max_q_rows.value_or(1), kLogitsRows);
  i64 rows = 1;
  while (2 * rows <= most_rows) rows *= 2;
  const i64 chunk =
      route == IndexerRoute::packed_contiguous ? kSmallSupertile : kSmallSupertile * kLogitsRows / rows;
  IndexerRequest small = request;
  IndexerCaps& caps = small.caps;
  caps.max_q_rows = rows;
  caps.max_page_table_width =
      min_of(request.caps.max_page_table_width.value_or(1), kChunks * chunk / kKernelPageSize);
  caps.paged_tile_logits_k_rows = kSmallSupertile;
  // A route that was chosen by size is what it is by choice.
  if (route == IndexerRoute::paged_fused) caps.route = RouteChoice::paged_fused;
  if (route == IndexerRoute::paged_tiled) caps.route = RouteChoice::paged_tiled;
  if (route == IndexerRoute::packed_contiguous) caps.route = RouteChoice::packed_contiguous;
  return small;
}

}  // namespace moeplan
