#include "runtime/device/indexer_bench.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <variant>

#include "runtime/device/device_values.hpp"
#include "runtime/device/recording_backend.hpp"
#include "runtime/device/test_bench.hpp"
#include "runtime/device/timed_replays.hpp"
#include "runtime/indexer/random_calls.hpp"

namespace moeplan {
namespace {

constexpr i64 kDistinctPages = 8192;  // the others hold the same: what differs is where they lie

// What a case takes of the GPU's memory.
struct CaseBytes {
  i64 calls;
  i64 pages;    // of the cache of keys
  i64 queries;  // bytes; with weights
  i64 tables;   // bytes
  i64 arena;

  i64 own() const { return queries + tables + arena; }
  i64 total() const { return pages * kPageBytes + own(); }
};

CaseBytes bytes_of(const IndexerCase& timed, i64 l2_bytes) {
  const IndexerShape& shape = timed.shape;
  const i64 calls = calls_of(shape, l2_bytes), pages = shape.context / kKernelPageSize;
  const i64 table_rows = timed.plan.route == IndexerRoute::packed_contiguous ? 1 : shape.rows;
  return {.calls = calls,
          .pages = calls * shape.requests() * pages,
          .queries = calls * query_bytes(shape),
          .tables = calls * table_rows * pages * 4,
          .arena = timed.layout.total_bytes};
}

// A cache of keys, and its pages in an order that is nobody's.
struct Pool {
  DeviceMemory keys;
  std::vector<int> order;

  static Result<Pool> create(i64 pages, std::mt19937_64& engine) {
    const i64 distinct = min_of(pages, kDistinctPages);
    const std::vector<std::uint8_t> content = random_pages(engine, distinct);
    auto keys = DeviceMemory::allocate(pages * kPageBytes, "a cache of keys");
    if (!keys) return keys.error();
    for (i64 page = 0; page < pages; page += distinct) {
      const i64 bytes = min_of(distinct, pages - page) * kPageBytes;
      const cudaError_t error = cudaMemcpy(keys->data() + page * kPageBytes, content.data(),
                                           static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice);
      if (const Status copied = check_cuda(error, "copying a cache of keys"); !copied) return copied.error();
    }
    std::vector<int> order(static_cast<std::size_t>(pages));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, engine);
    return Pool{std::move(*keys), std::move(order)};
  }
};

// A case with its inputs on the device, one set a call.
class TimedCase {
 public:
  static Result<TimedCase> create(const IndexerCase& of, const CaseBytes& bytes, const Pool& pool,
                                  std::mt19937_64& engine) {
    TimedCase timed(of, bytes.calls, pool);
    const IndexerShape& shape = of.shape;
    const i64 rows = bytes.calls * shape.rows;
    const std::vector<int> lengths(static_cast<std::size_t>(shape.rows), static_cast<int>(shape.context));
    if (Status s = timed.add(random_e4m3(engine, rows * shape.heads * kKeyElements)); !s) return s.error();
    if (Status s = timed.add(random_weights(engine, rows * shape.heads, true)); !s) return s.error();
    if (Status s = timed.add(timed.page_tables()); !s) return s.error();
    if (Status s = timed.add(lengths); !s) return s.error();
    auto arena = DeviceMemory::allocate(of.layout.total_bytes, "the arena");
    if (!arena) return arena.error();
    const cudaError_t cleared = cudaMemset(arena->data(), 0, static_cast<std::size_t>(of.layout.total_bytes));
    if (const Status s = check_cuda(cleared, "clearing the arena"); !s) return s.error();
    timed.memory_.push_back(std::move(*arena));
    const int width = static_cast<int>(shape.context);
    const cudaError_t copied =
        cudaMemcpy(timed.address("active_width"), &width, sizeof width, cudaMemcpyHostToDevice);
    if (const Status s = check_cuda(copied, "filling active_width"); !s) return s.error();
    return timed;
  }

  std::vector<IndexerFold> folds() const { return indexer_folds(of_->plan, inputs_of(0)); }

  // The first that computes all logits whatever is selected.
  IndexerFold fold_of_logits() const {
    const std::vector<IndexerFold> all = folds();
    return *std::ranges::find_if(all, [](IndexerFold fold) { return fold != IndexerFold::sieve; });
  }

  // Nanoseconds of each replay of all calls.
  Result<std::vector<i64>> run(Launches& launches, IndexerFold fold, bool scores_alone) const {
    const auto graph = CapturedWork::capture(launches.stream(), [&]() -> Status {
      for (i64 call = 0; call < calls_; ++call) {
        if (Status launched = launch(launches, call, fold, scores_alone); !launched) return launched;
      }
      return Ok{};
    });
    if (!graph) return graph.error();
    return time_each(launches.stream(), [&] { return graph->queue(launches.stream()); });
  }

 private:
  TimedCase(const IndexerCase& of, i64 calls, const Pool& pool) : of_(&of), calls_(calls), pool_(&pool) {}

  template <class T>
  Status add(const std::vector<T>& values) {
    auto memory = uploaded(values, "inputs");
    if (!memory) return memory.error();
    memory_.push_back(std::move(*memory));
    return Ok{};
  }

  bool has_one_table() const { return of_->plan.route == IndexerRoute::packed_contiguous; }
  i64 pages() const { return of_->shape.context / kKernelPageSize; }

  // Every request of every call has pages of its own.
  std::vector<int> page_tables() const {
    const i64 rows = has_one_table() ? 1 : of_->shape.rows_per_request;
    std::vector<int> tables;
    for (i64 request = 0; request < calls_ * of_->shape.requests(); ++request) {
      const auto first = pool_->order.begin() + request * pages();
      for (i64 row = 0; row < rows; ++row) tables.insert(tables.end(), first, first + pages());
    }
    return tables;
  }

  std::byte* address(std::string_view name) const {
    const auto& tensors = of_->layout.arena.tensors;
    const auto* tensor = std::ranges::find(tensors, name, &TensorSpec::name);
    return tensor == tensors.end() ? nullptr : memory_[4].data() + tensor->offset;
  }

  IndexerInputs inputs_of(i64 call) const {
    const i64 row = call * of_->shape.rows;
    return {.q = pointer<const unsigned char>(memory_[0]) + row * of_->shape.heads * kKeyElements,
            .weights = pointer<const float>(memory_[1]) + row * of_->shape.heads,
            .cache = pointer<const unsigned char>(pool_->keys),
            .page_table = pointer<const int>(memory_[2]) + (has_one_table() ? call : row) * pages(),
            .table_width = pages(),
            .lengths = pointer<const int>(memory_[3]),
            .rows = of_->shape.rows,
            .rows_per_request = of_->shape.rows_per_request};
  }

  Status launch(Launches& launches, i64 call, IndexerFold fold, bool scores_alone) const {
    IndexerInputs inputs = inputs_of(call);
    inputs.fold = fold;
    const auto tensors = indexer_tensors([&](std::string_view name) { return address(name); });
    for (const IndexerLaunch& each : indexer_launches(of_->plan, tensors, inputs)) {
      const Status launched = std::visit(
          [&](const auto& one) -> Status {
            if (scores_alone && one.variant.kernel == KernelId::indexer_select) return Ok{};
            return launches.run(one, {.live_tokens = of_->shape.rows});
          },
          each);
      if (!launched) return launched;
    }
    return Ok{};
  }

  const IndexerCase* of_;
  i64 calls_;
  const Pool* pool_;
  std::vector<DeviceMemory> memory_;  // queries, weights, page tables, lengths, the arena
};

class CudaIndexerBench final : public IndexerBench {
 public:
  CudaIndexerBench(Launcher launcher, Stream stream, Compiler& compiler, i64 threads)
      : launcher_(std::move(launcher)),
        stream_(std::move(stream)),
        resolver_(recording_backend(launcher_, compiler, threads, compiled_)),
        engine_(17) {}

  const GpuProfile& gpu() const override { return launcher_.gpu(); }
  const Architecture& architecture() const override { return launcher_.architecture(); }
  const std::vector<std::pair<KernelVariant, CompiledKernel>>& compiled() const override { return compiled_; }

  Result<Bandwidth> copy_bandwidth() override { return measured_copy(stream_, gpu().memory_bytes); }

  void expect(std::span<const IndexerCase> cases) override {
    const auto room = free_bytes();
    if (!room) return;  // said when a case is timed
    for (const IndexerCase& each : cases) {
      const CaseBytes bytes = bytes_of(each, gpu().l2_bytes);
      if (bytes.total() <= *room) expected_pages_ = max_of(expected_pages_, bytes.pages);
    }
  }

  Result<std::vector<IndexerTiming>> time(const IndexerCase& timed, TimedFolds folds) override {
    const CaseBytes bytes = bytes_of(timed, gpu().l2_bytes);
    const auto room = free_bytes();
    if (!room) return room.error();
    if (bytes.total() > *room)
      return Error{ErrorCode::too_large, "",
                   concat("it takes ", grouped(bytes.total()), " B of the GPU's memory, of which ",
                          grouped(*room), " B are free"),
                   "fewer rows, a shorter context, or a GPU that nothing else uses"};
    if (const Status resolved = resolver_.resolve(indexer_variants(timed.plan)); !resolved)
      return resolved.error();
    const auto inputs = inputs_of(timed, bytes, *room);
    if (!inputs) return inputs.error();
    Launches launches(launcher_, resolver_, stream_);
    std::vector<IndexerTiming> timings;
    for (const IndexerFold fold : inputs->folds()) {
      IndexerTiming timing{.shape = timed.shape,
                           .plan_id = timed.plan_id,
                           .route = timed.plan.route,
                           .fold = fold,
                           .calls = bytes.calls};
      auto chain = inputs->run(launches, fold, false);
      if (!chain) return chain.error();
      timing.chain = std::move(*chain);
      if (timings.empty()) {
        auto logits = inputs->run(launches, inputs->fold_of_logits(), true);
        if (!logits) return logits.error();
        timing.logits = std::move(*logits);
      }
      timings.push_back(std::move(timing));
      if (folds == TimedFolds::one) break;
    }
    return timings;
  }

 private:
  // Of the GPU's memory, what is free or would be without the pool.
  Result<i64> free_bytes() const {
    const auto free = free_memory();
    if (!free) return free.error();
    return *free + pool_pages() * kPageBytes;
  }

  i64 pool_pages() const { return pool_ ? std::ssize(pool_->order) : 0; }

  Status make_pool(i64 pages) {
    pool_.reset();  // frees it first
    auto pool = Pool::create(pages, engine_);
    if (!pool) return pool.error();
    pool_.emplace(std::move(*pool));
    return Ok{};
  }

  // In the pool that all expected cases share, while that leaves the case its room; else in one of its own
  // pages, as many as it needs.
  Result<TimedCase> inputs_of(const IndexerCase& timed, const CaseBytes& bytes, i64 room) {
    const i64 shared = max_of(max_of(bytes.pages, expected_pages_), pool_pages());
    if (shared > bytes.pages && shared * kPageBytes + bytes.own() <= room) {
      const Status made = pool_pages() >= bytes.pages ? Status(Ok{}) : make_pool(shared);
      if (made) {
        if (auto inputs = TimedCase::create(timed, bytes, *pool_, engine_)) return inputs;
      }
    }
    if (pool_pages() != bytes.pages) {
      if (const Status made = make_pool(bytes.pages); !made) return made.error();
    }
    return TimedCase::create(timed, bytes, *pool_, engine_);
  }

  Launcher launcher_;
  Stream stream_;
  CompiledKernels compiled_;
  LaunchResolver resolver_;
  std::mt19937_64 engine_;
  i64 expected_pages_ = 0;
  std::optional<Pool> pool_;
};

}  // namespace

Result<std::unique_ptr<IndexerBench>> open_indexer_bench(Compiler& compiler, i64 threads) {
  auto launcher = Launcher::create();
  if (!launcher) return launcher.error();
  auto stream = Stream::create();
  if (!stream) return stream.error();
  return std::unique_ptr<IndexerBench>(
      std::make_unique<CudaIndexerBench>(std::move(*launcher), std::move(*stream), compiler, threads));
}

}  // namespace moeplan
