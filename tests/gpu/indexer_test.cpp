// The indexer's kernels on a GPU against the reference: every route and every fold, in an arena of the plan's
// own size between guards.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "kernels/oracle/indexer_arguments.hpp"
#include "planner/core/text.hpp"
#include "runtime/oracle/indexer_reference.hpp"
#include "tests/gpu/indexer_support.hpp"
#include "tests/gpu/moe_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// ---- A call on the device, with what its logits have to be. ----

struct CallShape {
  i64 heads = 32;
  i64 rows = 1;
  i64 rows_per_request = 1;
  i64 pages = 1;  // of the page table
  bool is_shared = false;
  bool may_be_negative = true;
  i64 page_stride = kPageBytes;
};

class TestCall {
 public:
  // Pages of a request lie anywhere in the cache; those that lie nowhere have number -1.
  TestCall(const CallShape& shape, std::vector<int> lengths, std::mt19937_64 engine = std::mt19937_64(7),
           const std::vector<i64>& holes = {}, bool is_flat = false)
      : shape_(shape) {
    const i64 requests = shape.is_shared ? 1 : shape.rows / shape.rows_per_request;
    const i64 pages = requests * shape.pages;
    host_.heads = shape.heads;
    host_.rows = shape.rows;
    host_.table_width = shape.pages;
    host_.page_stride = kPageBytes;
    host_.q = random_e4m3(engine, shape.rows * shape.heads * kKeyElements);
    host_.weights = random_weights(engine, shape.rows * shape.heads, shape.may_be_negative);
    if (is_flat) std::ranges::fill(host_.weights, 0.0f);
    host_.cache = random_pages(engine, pages);
    host_.lengths = std::move(lengths);
    std::vector<int> numbers(static_cast<std::size_t>(pages));
    std::iota(numbers.begin(), numbers.end(), 0);
    std::ranges::shuffle(numbers, engine);
    for (const i64 hole : holes) numbers.at(static_cast<std::size_t>(hole)) = -1;
    for (i64 row = 0; row < shape.rows; ++row) {
      const i64 request = shape.is_shared ? 0 : row / shape.rows_per_request;
      const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(request * shape.pages);
      host_.page_table.insert(host_.page_table.end(), begin,
                              begin + static_cast<std::ptrdiff_t>(shape.pages));
    }
  }

  oracle::IndexerCall& host() { return host_; }
  const CallShape& shape() const { return shape_; }

  void upload() {
    q_.emplace(host_.q);
    weights_.emplace(host_.weights);
    table_.emplace(host_.page_table);
    lengths_.emplace(host_.lengths);
    const i64 pages = std::ssize(host_.cache) / kPageBytes;
    cache_.emplace(must(DeviceMemory::allocate(pages * shape_.page_stride, "a test's cache")));
    must(check_cuda(
        cudaMemcpy2D(cache_->data(), static_cast<std::size_t>(shape_.page_stride), host_.cache.data(),
                     kPageBytes, kPageBytes, static_cast<std::size_t>(pages), cudaMemcpyHostToDevice),
        "copying a cache"));
  }

  IndexerInputs inputs() const {
    return {.q = q_->get(),
            .weights = weights_->get(),
            .cache = reinterpret_cast<const unsigned char*>(cache_->data()),
            .page_stride = shape_.page_stride,
            .page_table = table_->get(),
            .table_width = shape_.pages,
            .lengths = lengths_->get(),
            .rows = shape_.rows,
            .rows_per_request = shape_.rows_per_request};
  }

  // Other lengths, where a captured call reads them.
  void set_lengths(const std::vector<int>& lengths) {
    host_.lengths = lengths;
    must(check_cuda(cudaMemcpy(const_cast<int*>(lengths_->get()), lengths.data(),
                               lengths.size() * sizeof(int), cudaMemcpyHostToDevice),
                    "copying lengths"));
  }

  // Of all rows, computed on the device.
  std::vector<oracle::IndexerLogits> reference() const {
    const i64 tokens = shape_.pages * kKernelPageSize, bytes = shape_.rows * tokens * 8;
    const DeviceMemory logits = must(DeviceMemory::allocate(bytes, "logits"));
    const DeviceMemory magnitudes = must(DeviceMemory::allocate(bytes, "magnitudes"));
    launch(KernelLaunch<IndexerReferenceArguments>{
        .variant = kIndexerReference,
        .grid = min_of(ceil_div(shape_.rows * tokens, kIndexerOracleThreads), 4096),
        .arguments = {.q = q_->get(),
                      .weights = weights_->get(),
                      .cache = reinterpret_cast<const unsigned char*>(cache_->data()),
                      .page_stride = shape_.page_stride,
                      .page_table = table_->get(),
                      .table_stride = shape_.pages,
                      .table_width = shape_.pages,
                      .lengths = lengths_->get(),
                      .heads = shape_.heads,
                      .rows = shape_.rows,
                      .logits = reinterpret_cast<double*>(logits.data()),
                      .magnitudes = reinterpret_cast<double*>(magnitudes.data())}});
    const auto values = values_of<double>(must(bytes_at(logits.data(), bytes)));
    const auto sizes = values_of<double>(must(bytes_at(magnitudes.data(), bytes)));
    std::vector<oracle::IndexerLogits> rows;
    for (i64 row = 0; row < shape_.rows; ++row) {
      const auto part = [&](const std::vector<double>& all) {
        return std::vector<double>(all.begin() + row * tokens, all.begin() + (row + 1) * tokens);
      };
      rows.push_back({part(values), part(sizes)});
    }
    return rows;
  }

 private:
  CallShape shape_;
  oracle::IndexerCall host_;
  std::optional<Uploaded<std::uint8_t>> q_;
  std::optional<Uploaded<float>> weights_;
  std::optional<Uploaded<int>> table_, lengths_;
  std::optional<DeviceMemory> cache_;
};

// ---- Plans, and calls in their arenas. ----

struct PlanShape {
  RouteChoice route = RouteChoice::automatic;
  i64 heads = 32, rows = 1, pages = 1, top_k = 512;
  i64 supertile = 0;
  bool reserves_fold = false;
};

struct Planned {
  IndexerLayout layout;
  IndexerPlan plan;
};

Planned planned_of(const PlanShape& s) {
  IndexerRequest request = indexer_request();
  request.device.sm_count = gpu().launcher.gpu().sm_count;
  request.caps.num_q_heads = s.heads;
  request.caps.max_q_rows = s.rows;
  request.caps.max_page_table_width = s.pages;
  request.caps.top_k = s.top_k;
  request.caps.route = s.route;
  if (s.supertile > 0) request.caps.paged_tile_logits_k_rows = s.supertile;
  if (s.route == RouteChoice::packed_contiguous) {
    request.caps.mode = IndexerMode::prefill;
    request.caps.shared_page_table = true;
  }
  if (s.reserves_fold) request.caps.reserve_fold = true;
  const IndexerLayout layout = must(plan_indexer_paged(request));
  return {layout, indexer_plan(request, layout, gpu().launcher.gpu().sm_count)};
}

struct Selected {
  std::vector<int> indices;
  std::vector<std::uint32_t> scores;  // bits
  bool operator==(const Selected&) const = default;
};

// An arena whose calls write into memory of their own.
class PlannedArena {
 public:
  explicit PlannedArena(const Planned& planned, GuardMode mode = GuardMode::packed)
      : planned_(planned),
        arena_(arena_of(place_guarded(
            std::span(planned.layout.arena.tensors.begin(), planned.layout.arena.tensors.size()),
            planned.layout.total_bytes, mode))),
        outputs_(must(DeviceMemory::allocate(output_bytes() * 2, "a test's outputs"))) {
    poison();
  }

  DeviceArena& arena() { return arena_.arena; }

  // Everything poison but what is filled when an arena is bound.
  void poison(std::size_t round = 0) {
    must(arena().fill(kArenaRounds[round], nullptr));
    const int width = static_cast<int>(planned_.plan.pages * kKernelPageSize);
    must(check_cuda(cudaMemcpy(arena().address("active_width"), &width, sizeof width, cudaMemcpyHostToDevice),
                    "copying the active width"));
    must(set_bytes(outputs_.data(), 0x77, outputs_.bytes()));
  }

  std::vector<IndexerLaunch> launches(IndexerInputs inputs, std::optional<IndexerFold> fold) {
    inputs.fold = fold;
    inputs.indices = reinterpret_cast<int*>(outputs_.data());
    inputs.scores = reinterpret_cast<float*>(outputs_.data() + output_bytes());
    return indexer_launches(
        planned_.plan, indexer_tensors([&](std::string_view name) { return arena().address(name); }), inputs);
  }

  Selected run(const IndexerInputs& inputs, std::optional<IndexerFold> fold) {
    for (const IndexerLaunch& each : launches(inputs, fold))
      std::visit([](const auto& one) { launch(one); }, each);
    return selected(inputs.rows);
  }

  Selected selected(i64 rows) {
    const i64 bytes = rows * planned_.plan.top_k * 4;
    return {values_of<int>(must(bytes_at(outputs_.data(), bytes))),
            values_of<std::uint32_t>(must(bytes_at(outputs_.data() + output_bytes(), bytes)))};
  }

 private:
  i64 output_bytes() const { return planned_.plan.rows * planned_.plan.top_k * 4; }

  const Planned& planned_;
  ResolvedArena arena_;
  DeviceMemory outputs_;
};

double error_of(const oracle::IndexerLogits& logits) {
  double magnitude = 0;
  for (const double each : logits.magnitudes)
    if (each > magnitude) magnitude = each;
  // Tensor cores that take e4m3 numbers do not promise to sum in fp32.
  const bool is_native = gpu().launcher.gpu().compute_capability != "9.0";
  return magnitude * (is_native ? 0x1p-13 : 0x1p-18);
}

void check_selected(const TestCall& call, const std::vector<oracle::IndexerLogits>& logits, i64 top_k,
                    const Selected& selected) {
  for (i64 row = 0; row < call.shape().rows; ++row) {
    const auto begin = static_cast<std::size_t>(row * top_k), count = static_cast<std::size_t>(top_k);
    std::vector<float> scores(count);
    std::memcpy(scores.data(), selected.scores.data() + begin, count * 4);
    const auto& expected = logits[static_cast<std::size_t>(row)];
    const std::string problem = oracle::selection_problem(
        expected.values, error_of(expected), std::span(selected.indices).subspan(begin, count), scores);
    INFO("row " << row);
    CHECK(problem == "");
  }
}

// Selects with so many blocks a row.
void split(KernelLaunch<IndexerSelectArguments>& select, i64 parts) {
  select.grid = select.grid / select.arguments.parts * parts;
  select.arguments.parts = select.cluster = parts;
}

// Every fold that the plan has room for selects what the reference does, all of them the same bits, inside of
// their tensors.
void check_call(const PlanShape& shape, TestCall& call) {
  INFO("heads " << shape.heads << ", rows " << call.shape().rows << " of " << shape.rows << ", pages "
                << call.shape().pages << " of " << shape.pages << ", top_k " << shape.top_k);
  call.upload();
  const Planned planned = planned_of(shape);
  const auto logits = call.reference();
  std::optional<Selected> first;
  for (const IndexerFold fold : indexer_folds(planned.plan, call.inputs())) {
    INFO(name_of(fold));
    PlannedArena arena(planned, GuardMode::strict);
    const Selected selected = arena.run(call.inputs(), fold);
    const ArenaFindings findings = must(arena.arena().scan(nullptr));
    for (const StrayWrite& write : findings.stray_writes) FAIL_CHECK(text_of(write));
    if (!first) check_selected(call, logits, shape.top_k, selected);
    if (first) CHECK(selected == *first);
    first = selected;
  }
  CHECK(first);
}

// The same of a call of which a sieve is a fold.
void check_sieved(const PlanShape& shape, TestCall& call) {
  const IndexerInputs inputs{.table_width = call.shape().pages,
                             .rows = call.shape().rows,
                             .rows_per_request = call.shape().rows_per_request};
  REQUIRE(std::ranges::count(indexer_folds(planned_of(shape).plan, inputs), IndexerFold::sieve) == 1);
  check_call(shape, call);
}

// Logits that are hard to select from: ties, floods of one value, signed zeros, none, far apart.
std::vector<std::vector<float>> hard_logits(i64 count, std::mt19937_64& engine) {
  const auto made = [&](auto value) {
    std::vector<float> logits(static_cast<std::size_t>(count));
    for (i64 i = 0; i < count; ++i) logits[static_cast<std::size_t>(i)] = value(i);
    return logits;
  };
  const auto uniform = [&](i64) { return static_cast<float>(engine() % 1'000'003) / 1000 - 400; };
  const auto few = [&](i64) { return static_cast<float>(engine() % 5); };
  const auto zeros = [&](i64) { return engine() % 40 == 0 ? static_cast<float>(engine() % 100) : 0.0f; };
  const auto signed_zeros = [&](i64) { return engine() % 2 == 0 ? -0.0f : 0.0f; };
  const auto numbers = [&](i64 i) {
    return i % 9 == 0 ? kNan : i % 9 == 1 ? -kNan : static_cast<float>(i % 100);
  };
  // So many in the highest bins that these are counted again.
  const auto high = [&](i64) { return engine() % 7 == 0 ? kNan : engine() % 9 == 0 ? 1e7f : 1.0f; };
  const auto rising = [&](i64 i) { return static_cast<float>(i); };
  const auto tiny = [&](i64) { return std::ldexp(1.0f, -static_cast<int>(engine() % 140)); };
  // Logits of both signs in one bin, and others far above and below them.
  const auto wide = [&](i64 i) {
    return i % 10 == 0 ? static_cast<float>(i % 20 == 0 ? 1e7 : -1e7)
                       : static_cast<float>(engine() % 2001) - 1000;
  };
  const auto holes = [&](i64 i) {
    return i / 64 % 3 == 0 ? -std::numeric_limits<float>::infinity() : static_cast<float>(engine() % 1000);
  };
  return {made(uniform), made(few),  made(zeros), made(signed_zeros), made(numbers),
          made(rising),  made(tiny), made(holes), made(wide),         made(high)};
}

}  // namespace

TEST_CASE("the indexer's reference on a GPU computes what the one on the host does", "[indexer]") {
  TestCall call({.heads = 16, .rows = 3, .pages = 3}, {0, 70, 192}, std::mt19937_64(1), {1});
  call.upload();
  const auto logits = call.reference();
  for (i64 row = 0; row < 3; ++row) {
    const oracle::IndexerLogits expected = oracle::indexer_logits(call.host(), row);
    const auto& found = logits[static_cast<std::size_t>(row)];
    REQUIRE(found.values.size() == expected.values.size());
    for (std::size_t i = 0; i < found.values.size(); ++i) {
      if (std::isinf(expected.values[i])) {
        CHECK(found.values[i] == expected.values[i]);
      } else {
        CHECK(std::abs(found.values[i] - expected.values[i]) <= 1e-12 * expected.magnitudes[i]);
        CHECK(std::abs(found.magnitudes[i] - expected.magnitudes[i]) <= 1e-12 * expected.magnitudes[i]);
      }
    }
  }
}

TEST_CASE("every fold of the tiled route selects the best tokens, whatever the lengths", "[indexer]") {
  // A supertile of 512 tokens: chunks of 32 * 512 / rows tokens.
  TestCall call({.heads = 32, .rows = 9, .pages = 36}, {0, 1, 63, 64, 65, 511, 512, 513, 2304});
  check_call({.route = RouteChoice::paged_tiled, .rows = 9, .pages = 36, .supertile = 512}, call);
  check_call(
      {.route = RouteChoice::paged_tiled, .rows = 9, .pages = 36, .supertile = 512, .reserves_fold = true},
      call);
  check_call({.route = RouteChoice::paged_tiled, .rows = 40, .pages = 40}, call);
  TestCall edges({.heads = 16, .rows = 8, .pages = 40}, {2047, 2048, 2049, 2111, 2112, 2113, 2559, 2560});
  check_call({.route = RouteChoice::paged_tiled, .heads = 16, .rows = 8, .pages = 40, .supertile = 512},
             edges);
}

TEST_CASE("chunks that no row reaches leave the best tokens as they are", "[indexer]") {
  // Four chunks of 4,096 tokens: behind the first there is nothing to score.
  TestCall call({.heads = 32, .rows = 4, .pages = 256}, {4096, 4095, 100, 4096});
  for (int round = 0; round < 5; ++round)
    check_call({.route = RouteChoice::paged_tiled, .rows = 4, .pages = 256, .supertile = 512}, call);
}

TEST_CASE("the fused route selects the best tokens for every number of heads and keys", "[indexer]") {
  for (const i64 heads : kIndexerHeads) {
    for (const i64 top_k : kIndexerTopK) {
      TestCall call({.heads = heads, .rows = 2, .pages = 41}, {2600, 1900});
      check_call({.route = RouteChoice::paged_fused, .heads = heads, .rows = 4, .pages = 41, .top_k = top_k},
                 call);
    }
  }
}

TEST_CASE("rows of a request share its pages, each with its own length", "[indexer]") {
  for (const i64 heads : {32, 64}) {
    for (const i64 per_request : {2, 3, 4, 6}) {
      CallShape shape{.heads = heads, .rows = 2 * per_request, .rows_per_request = per_request, .pages = 20};
      std::vector<int> lengths;
      for (i64 row = 0; row < shape.rows; ++row)
        lengths.push_back(static_cast<int>(row < per_request ? 1200 + row : 100 * row));
      TestCall call(shape, lengths);
      check_call({.route = RouteChoice::paged_tiled, .heads = heads, .rows = 24, .pages = 20}, call);
      // The fused route has fewer rows.
      if (shape.rows <= 4)
        check_call({.route = RouteChoice::paged_fused,
                    .heads = heads,
                    .rows = 4,
                    .pages = 20,
                    .top_k = 2048,
                    .supertile = 32768},
                   call);
    }
  }
}

TEST_CASE("any number of blocks scores and selects the same", "[indexer]") {
  // A block alone has all rows, and its warps many steps of each.
  const i64 rows = 12, pages = 60;
  for (const i64 per_request : {1, 3, 6}) {
    TestCall call({.heads = 32, .rows = rows, .rows_per_request = per_request, .pages = pages},
                  {3840, 3000, 2049, 2048, 63, 0, 3840, 3839, 3777, 1, 64, 2500});
    call.upload();
    const Planned planned =
        planned_of({.route = RouteChoice::paged_tiled, .rows = rows, .pages = pages, .supertile = 32768});
    std::optional<Selected> first;
    for (const i64 grid : {0, 1, 2, 7, 100}) {
      for (i64 parts = 1; parts <= kSelectParts; parts *= 2) {
        INFO("blocks " << grid << ", 0: as many as there may be; " << per_request << " rows a request, "
                       << parts << " blocks select from a row");
        PlannedArena arena(planned);
        for (IndexerLaunch& each : arena.launches(call.inputs(), IndexerFold::single)) {
          if (auto* score = std::get_if<KernelLaunch<IndexerScoreArguments>>(&each); score && grid > 0)
            score->grid = grid;
          if (auto* select = std::get_if<KernelLaunch<IndexerSelectArguments>>(&each)) split(*select, parts);
          std::visit([](const auto& one) { launch(one); }, each);
        }
        const Selected selected = arena.selected(rows);
        if (!first) check_selected(call, call.reference(), 512, selected);
        if (first) CHECK(selected == *first);
        first = selected;
      }
    }
  }
}

TEST_CASE("a prefill gathers the pages that its rows share, chunk by chunk", "[indexer]") {
  for (const i64 heads : kIndexerHeads) {
    std::vector<int> lengths;
    for (int row = 0; row < 11; ++row) lengths.push_back(row * 190);
    TestCall call({.heads = heads, .rows = 11, .pages = 30, .is_shared = true}, lengths, std::mt19937_64(3),
                  {4});
    check_call(
        {.route = RouteChoice::packed_contiguous, .heads = heads, .rows = 16, .pages = 30, .supertile = 512},
        call);
    check_call({.route = RouteChoice::packed_contiguous, .heads = heads, .rows = 16, .pages = 30}, call);
  }
}

TEST_CASE("tokens without a page are never selected", "[indexer]") {
  TestCall call({.heads = 32, .rows = 2, .pages = 24}, {1536, 700}, std::mt19937_64(5),
                {0, 3, 4, 11, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34});
  check_call({.route = RouteChoice::paged_tiled, .rows = 2, .pages = 24, .supertile = 512}, call);
  check_call({.route = RouteChoice::paged_fused, .rows = 2, .pages = 24, .top_k = 2048}, call);
}

TEST_CASE("of equal logits the lowest indices are selected", "[indexer]") {
  TestCall call({.heads = 32, .rows = 2, .pages = 200}, {12800, 9000}, std::mt19937_64(5), {2}, true);
  call.upload();
  for (const PlanShape& shape : {PlanShape{.route = RouteChoice::paged_tiled, .supertile = 512},
                                 PlanShape{.route = RouteChoice::paged_tiled, .supertile = 32768},
                                 PlanShape{.route = RouteChoice::paged_fused, .supertile = 32768}}) {
    const Planned planned = planned_of(
        {.route = shape.route, .rows = 2, .pages = 200, .top_k = 1024, .supertile = shape.supertile});
    for (const IndexerFold fold : indexer_folds(planned.plan, call.inputs())) {
      INFO(name_of(fold));
      PlannedArena arena(planned);
      const Selected selected = arena.run(call.inputs(), fold);
      i64 wrong = 0;
      for (int i = 0; i < 1024; ++i) {
        wrong += selected.indices[static_cast<std::size_t>(i)] != (i < 128 ? i : i + 64);
        wrong += selected.indices[static_cast<std::size_t>(1024 + i)] != i;
        wrong += selected.scores[static_cast<std::size_t>(i)] != 0;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("what is no number is selected before every number", "[indexer]") {
  TestCall call({.heads = 32, .rows = 1, .pages = 40}, {2500});
  i64 numbers = 0;
  for (i64 page = 0; page < 40; page += 7) {
    std::memcpy(call.host().cache.data() + page * kPageBytes + kPageKeyBytes + page % 64 * 4, &kNan, 4);
    ++numbers;
  }
  check_call({.route = RouteChoice::paged_tiled, .rows = 1, .pages = 40, .supertile = 512}, call);
  check_call({.route = RouteChoice::paged_fused, .rows = 1, .pages = 40}, call);
}

TEST_CASE("selection is exact: ties, floods of zeros, few values and none", "[indexer]") {
  std::mt19937_64 engine(11);
  // The last is more than a warp keeps, however many blocks there are.
  for (const i64 count : {0, 1, 511, 512, 513, 8192, 8193, 20000, 40000, 300'000}) {
    for (const i64 top_k : kIndexerTopK) {
      if (count > 40000 && top_k < kMostTopK) continue;
      const std::vector<std::vector<float>> all = hard_logits(count, engine);
      for (std::size_t kind = 0; kind < all.size(); ++kind) {
        INFO("count " << count << ", top_k " << top_k << ", kind " << kind);
        const Uploaded<float> logits(all[kind]);
        const Uploaded<int> lengths(std::vector<int>{static_cast<int>(count)});
        const DeviceMemory indices = must(DeviceMemory::allocate(top_k * 4, "indices"));
        KernelLaunch<IndexerSelectArguments> select{
            .variant = {},
            .arguments = {.source = {.table_width = 1 << 20,
                                     .lengths = lengths.get(),
                                     .rows = 1,
                                     .rows_per_request = 1,
                                     .tokens = 1 << 20},
                          .top_k = top_k,
                          .parts = 1,
                          .slices = 1,
                          .slice_tokens = 1 << 20,
                          .logits = logits.get(),
                          .indices = reinterpret_cast<int*>(indices.data())}};
        for (const i64 warps : kSelectWarps) {
          select.variant = indexer_select_variant(warps);
          for (const i64 parts : {1, 2, 8}) {
            split(select, parts);
            launch(select);
            INFO(parts << " parts of " << warps << " warps");
            CHECK(values_of<int>(must(bytes_at(indices.data(), top_k * 4))) ==
                  oracle::exact_selection(all[kind], top_k));
          }
        }
      }
    }
  }
}

TEST_CASE("rows of equal logits are selected from beside rows of others, in batches", "[indexer]") {
  TestCall call({.heads = 32, .rows = 3, .pages = 200}, {12800, 9000, 12000});
  std::fill_n(call.host().weights.begin() + 32, 32, 0.0f);
  check_call({.route = RouteChoice::paged_fused, .rows = 4, .pages = 200, .top_k = 1024, .supertile = 1024},
             call);
}

TEST_CASE("physical indices are places in the cache", "[indexer]") {
  TestCall call({.heads = 32, .rows = 2, .pages = 30}, {1900, 300});
  call.upload();
  for (const RouteChoice route : {RouteChoice::paged_tiled, RouteChoice::paged_fused}) {
    const i64 supertile = route == RouteChoice::paged_tiled ? 512 : 32768;
    const Planned planned = planned_of({.route = route, .rows = 2, .pages = 30, .supertile = supertile});
    for (const IndexerFold fold : indexer_folds(planned.plan, call.inputs())) {
      INFO(name_of(fold));
      PlannedArena arena(planned);
      IndexerInputs inputs = call.inputs();
      const Selected logical = arena.run(inputs, fold);
      inputs.is_physical = true;
      const Selected physical = arena.run(inputs, fold);
      std::vector<int> expected = logical.indices;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (expected[i] < 0) continue;
        const std::size_t row = i / 512;
        expected[i] = call.host().page_table[row * 30 + static_cast<std::size_t>(expected[i] / 64)] * 64 +
                      expected[i] % 64;
      }
      CHECK(physical.indices == expected);
      CHECK(physical.scores == logical.scores);
    }
  }
}

TEST_CASE("pages that lie beyond 2^31 bytes are read where they are", "[indexer]") {
  TestCall call({.heads = 32, .rows = 2, .pages = 75, .page_stride = i64{1} << 24}, {4800, 4000});
  check_call({.route = RouteChoice::paged_tiled, .rows = 2, .pages = 75, .supertile = 512}, call);
  TestCall shared({.heads = 32, .rows = 4, .pages = 140, .is_shared = true, .page_stride = i64{1} << 24},
                  {8960, 8000, 100, 0});
  check_call({.route = RouteChoice::packed_contiguous, .rows = 4, .pages = 140, .supertile = 512}, shared);
}

TEST_CASE("1,000 replays of a captured call follow its lengths, and select what eager calls do",
          "[indexer]") {
  TestCall call({.heads = 32, .rows = 6, .pages = 60}, {3840, 3000, 64, 0, 1, 513});
  call.upload();
  // Where there is room for the logits of four rows: two batches of three.
  const Planned planned =
      planned_of({.route = RouteChoice::paged_tiled, .rows = 6, .pages = 60, .supertile = 512});
  for (const IndexerFold fold : indexer_folds(planned.plan, call.inputs())) {
    INFO(name_of(fold));
    PlannedArena arena(planned);
    arena.run(call.inputs(), fold);  // loads what is captured below
    const Stream stream;
    must(Graph::begin(stream));
    must(launch_each(arena.launches(call.inputs(), fold), [&](const auto& one) -> Status {
      const auto kernel = resolver().find(one.variant, {.stream = stream});
      if (!kernel) return kernel.error();
      return gpu().launcher.launch(**kernel, gpu().launcher.grid_of(**kernel, one), one.arguments, stream);
    }));
    const Graph graph = must(Graph::end(stream));
    std::mt19937_64 engine{7};
    int different = 0;
    for (int replay = 0; replay < 1000; ++replay) {
      std::vector<int> lengths(6);
      // Edges of pages, of chunks and of what is selected, and anything between.
      constexpr int kEdges[] = {0, 1, 63, 64, 65, 511, 512, 513, 3839, 3840};
      for (int& length : lengths)
        length = engine() % 2 == 0 ? kEdges[engine() % std::size(kEdges)] : static_cast<int>(engine() % 3841);
      call.set_lengths(lengths);
      arena.poison();
      must(graph.replay(stream));
      const Selected replayed = arena.selected(6);
      arena.poison(1);
      if (!(replayed == arena.run(call.inputs(), fold))) ++different;
    }
    CHECK(different == 0);
  }
}

TEST_CASE("a sieve keeps what can be among the best between the ends of rows", "[indexer]") {
  const PlanShape wide{.route = RouteChoice::paged_tiled, .rows = 12, .pages = 4160, .supertile = 1024};
  for (const i64 heads : kIndexerHeads) {
    for (const i64 per_request : {1, 2, 3}) {
      PlanShape shape = wide;
      shape.heads = heads;
      // Rows that are their ends alone, those of one page more, of no page, and some that end in their
      // middle.
      std::vector<int> lengths = {12'800, 12'799, 12'737, 2496, 2497, 2561, 0, 1, 700, 9000, 3000, 12'000};
      TestCall call({.heads = heads, .rows = 12, .rows_per_request = per_request, .pages = 200}, lengths,
                    std::mt19937_64(5), {3, 60, 199, 700});
      check_sieved(shape, call);
    }
  }
  // All equal, of which the lowest are selected.
  TestCall flat({.heads = 32, .rows = 3, .pages = 200}, {12'800, 9000, 600}, std::mt19937_64(5), {2}, true);
  check_sieved(wide, flat);
  // The same where a head has no pages, so that what lies between comes before the best of the tail.
  std::vector<i64> of_head(16);
  std::iota(of_head.begin(), of_head.end(), 0);
  TestCall headless({.heads = 32, .rows = 1, .pages = 200}, {12'800}, std::mt19937_64(5), of_head, true);
  check_sieved(wide, headless);
  // Logits of a few values, in every end and between them.
  TestCall few({.heads = 32, .rows = 3, .pages = 200}, {12'800, 12'700, 5000});
  const auto& cache = few.host().cache;
  const std::vector<std::uint8_t> key(cache.begin(), cache.begin() + kKeyElements);
  for (i64 page = 0; page < 600; ++page) {
    std::uint8_t* const bytes = few.host().cache.data() + page * kPageBytes;
    for (i64 token = 0; token < 64; ++token) {
      std::ranges::copy(key, bytes + token * kKeyElements);
      const float scale = static_cast<float>(1 + (token * 7 + page) % 50);
      std::memcpy(bytes + kPageKeyBytes + token * 4, &scale, 4);
    }
  }
  check_sieved(wide, few);
  // What is no number, more of it than is selected.
  TestCall numbers({.heads = 32, .rows = 2, .pages = 200}, {12'800, 12'000});
  for (i64 page = 0; page < 400; page += 2) {
    for (i64 token = page % 5; token < 64; token += 5)
      std::memcpy(numbers.host().cache.data() + page * kPageBytes + kPageKeyBytes + token * 4, &kNan, 4);
  }
  check_sieved(wide, numbers);
}

TEST_CASE("rows whose survivors have no room in a sieve are selected from anew", "[indexer]") {
  const Planned planned =
      planned_of({.route = RouteChoice::paged_tiled, .rows = 6, .pages = 4160, .supertile = 512});
  TestCall call({.heads = 32, .rows = 4, .pages = 200, .may_be_negative = false},
                {12'800, 12'800, 12'000, 12'700});
  // The middles of two rows have the greatest logits by far.
  for (const i64 row : {1, 3}) {
    for (i64 page = 30; page < 100; ++page) {
      const auto number = call.host().page_table[static_cast<std::size_t>(row * 200 + page)];
      auto* scales = reinterpret_cast<float*>(call.host().cache.data() + number * kPageBytes + kPageKeyBytes);
      for (int token = 0; token < 64; ++token) scales[token] *= 100;
    }
  }
  call.upload();
  PlannedArena arena(planned);
  const Selected sieved = arena.run(call.inputs(), IndexerFold::sieve);
  std::vector<int> rest;
  for (const IndexerLaunch& each : arena.launches(call.inputs(), IndexerFold::sieve)) {
    if (const auto* join = std::get_if<KernelLaunch<IndexerJoinArguments>>(&each))
      for (const int length :
           values_of<int>(must(bytes_at(reinterpret_cast<const std::byte*>(join->arguments.rest_lengths),
                                        join->arguments.source.rows * 4))))
        rest.push_back(length);
  }
  CHECK(rest == std::vector<int>{0, 12'800, 0, 12'700});
  check_selected(call, call.reference(), 512, sieved);
  CHECK(sieved == arena.run(call.inputs(), IndexerFold::carry));
}

TEST_CASE("long contexts select the best tokens in every fold", "[indexer][large]") {
  TestCall middle({.heads = 32, .rows = 3, .pages = 2048}, {131'072, 131'071, 70'000});
  check_call({.route = RouteChoice::paged_fused, .rows = 4, .pages = 2048, .top_k = 2048}, middle);
  TestCall rows({.heads = 32, .rows = 6, .rows_per_request = 3, .pages = 2048},
                {131'000, 131'001, 131'002, 32'832, 32'833, 32'834});
  check_call({.route = RouteChoice::paged_tiled, .rows = 48, .pages = 8192, .top_k = 2048}, rows);
  TestCall large({.heads = 64, .rows = 2, .rows_per_request = 2, .pages = 8192}, {524'287, 524'288});
  check_call({.route = RouteChoice::paged_tiled,
              .heads = 64,
              .rows = 24,
              .pages = 8192,
              .top_k = 2048,
              .reserves_fold = true},
             large);
  TestCall prefill({.heads = 32, .rows = 70, .pages = 1100, .is_shared = true}, [] {
    std::vector<int> lengths;
    for (int row = 0; row < 70; ++row) lengths.push_back(70'000 + row);
    return lengths;
  }());
  check_call({.route = RouteChoice::packed_contiguous, .rows = 300, .pages = 1100, .top_k = 2048}, prefill);
}
