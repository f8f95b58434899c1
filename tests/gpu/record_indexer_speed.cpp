// How long the indexer's calls take, logits and top-2048 together, replayed as a graph; beside the figures of
// the best chain of public kernels on a GPU of the same model. Keys are random, and every call of a graph
// reads other pages, more bytes together than the L2 cache holds.
#include <algorithm>
#include <numeric>

#include "planner/core/text.hpp"
#include "tests/gpu/indexer_support.hpp"
#include "tests/gpu/records.hpp"

namespace moeplan::test {
namespace {

constexpr i64 kTopK = 2048;
constexpr i64 kContexts[] = {8192, 32768, 131'072, 524'288};
constexpr i64 kPoolPages = 48 * 524'288 / kKernelPageSize;
constexpr i64 kBytesOfGraph = 240'000'000;  // at least, where so many calls are few
constexpr i64 kMostCalls = 40;
constexpr int kReplays = 21;
constexpr int kWarmUps = 2;

// Microseconds of the peer's chain at the contexts.
struct DecodeRow {
  i64 rows;
  double peer[4];
};
constexpr DecodeRow kDecode[] = {{1, {12.3, 15.8, 23.1, 47.5}},
                                 {4, {14.6, 19.8, 38.1, 107.5}},
                                 {16, {18.8, 36.2, 95.5, 323.4}},
                                 {48, {28.3, 74.7, 241.7, 912.5}}};

struct Shape {
  i64 heads;
  i64 rows;
  i64 rows_per_request;
  i64 context;
  bool is_prefill;
  double peer;  // microseconds
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const i64 heads : {32, 64}) {
    for (const DecodeRow& row : kDecode)
      for (std::size_t i = 0; i < 4; ++i)
        all.push_back({heads, row.rows, 1, kContexts[i], false, row.peer[i]});
  }
  for (const i64 group : {4, 6})
    for (std::size_t i = 0; i < 4; ++i)
      all.push_back({32, 48, group, kContexts[i], false, kDecode[3].peer[i]});
  // Of the peer: scorer 863, top-k 277.
  all.push_back({32, 3072, 1, 32768, true, 1140});
  return all;
}

std::string name_of(const Shape& s) {
  return concat(s.is_prefill ? "prefill " : "", s.heads, " heads ", s.rows, "x", s.context / 1024, "k",
                s.rows_per_request > 1 ? concat(" groups of ", s.rows_per_request) : std::string());
}

// Pages of keys, the same thousands again and again: what differs is where they lie.
Result<DeviceMemory> make_pool(std::mt19937_64& engine) {
  constexpr i64 kDistinct = 8192;
  const std::vector<std::uint8_t> pages = random_pages(engine, kDistinct);
  auto pool = DeviceMemory::allocate(kPoolPages * kPageBytes, "pages of keys");
  if (!pool) return pool.error();
  for (i64 page = 0; page < kPoolPages; page += kDistinct) {
    const cudaError_t error = cudaMemcpy(
        pool->data() + page * kPageBytes, pages.data(),
        static_cast<std::size_t>(min_of(kDistinct, kPoolPages - page) * kPageBytes), cudaMemcpyHostToDevice);
    if (const Status copied = check_cuda(error, "copying keys"); !copied) return copied.error();
  }
  return pool;
}

class Timed {
 public:
  static Result<Timed> create(const RecordContext& context, const Shape& shape, const DeviceMemory& pool,
                              const std::vector<int>& permutation, std::mt19937_64& engine) {
    Timed timed(context, shape);
    IndexerRequest request = indexer_request();
    const i64 multiprocessors = context.gpu.launcher.gpu().sm_count;
    request.device.sm_count = multiprocessors;
    request.caps.num_q_heads = shape.heads;
    request.caps.max_q_rows = shape.rows;
    request.caps.max_page_table_width = shape.context / kKernelPageSize;
    request.caps.top_k = kTopK;
    if (shape.is_prefill) {
      request.caps.mode = IndexerMode::prefill;
      request.caps.shared_page_table = true;
    }
    const auto layout = plan_indexer_paged(request);
    if (!layout) return layout.error();
    timed.plan_ = indexer_plan(request, *layout, multiprocessors);
    timed.layout_ = *layout;

    const i64 pages = shape.context / kKernelPageSize;
    const i64 requests = shape.is_prefill ? 1 : shape.rows / shape.rows_per_request;
    const i64 call_bytes = requests * pages * kPageBytes;
    timed.calls_ = max_of(min_of(ceil_div(kBytesOfGraph, call_bytes), kMostCalls), 1);
    std::vector<int> table;
    std::size_t next = 0;
    for (i64 call = 0; call < timed.calls_; ++call) {
      for (i64 each = 0; each < requests; ++each) {
        std::vector<int> row;
        for (i64 page = 0; page < pages; ++page) row.push_back(permutation[next++ % permutation.size()]);
        for (i64 i = 0; i < (shape.is_prefill ? 1 : shape.rows_per_request); ++i)
          table.insert(table.end(), row.begin(), row.end());
      }
    }
    const i64 rows = timed.calls_ * shape.rows;
    const auto add = [&](const auto& values) -> Status {
      auto memory = uploaded(values, "inputs");
      if (!memory) return memory.error();
      timed.inputs_.push_back(std::move(*memory));
      return Ok{};
    };
    if (const Status s = add(random_e4m3(engine, rows * shape.heads * kKeyElements)); !s) return s.error();
    if (const Status s = add(random_weights(engine, rows * shape.heads, true)); !s) return s.error();
    if (const Status s = add(table); !s) return s.error();
    const std::vector<int> lengths(static_cast<std::size_t>(shape.rows), static_cast<int>(shape.context));
    if (const Status s = add(lengths); !s) return s.error();
    timed.pool_ = pool.data();

    auto arena = DeviceMemory::allocate(layout->total_bytes, "the arena");
    if (!arena) return arena.error();
    if (const Status cleared = set_bytes(arena->data(), 0, layout->total_bytes); !cleared)
      return cleared.error();
    timed.inputs_.push_back(std::move(*arena));
    const int width = static_cast<int>(shape.context);
    const cudaError_t error =
        cudaMemcpy(timed.address("active_width"), &width, sizeof width, cudaMemcpyHostToDevice);
    if (const Status copied = check_cuda(error, "copying the active width"); !copied) return copied.error();
    return timed;
  }

  const IndexerPlan& plan() const { return plan_; }
  std::vector<IndexerFold> folds() const { return indexer_folds(plan_, inputs_of(0)); }
  i64 calls() const { return calls_; }

  // Nanoseconds a replay.
  Result<std::vector<i64>> run(LaunchResolver& resolver, IndexerFold fold, bool scores_alone) const {
    const Stream stream;
    if (const Status begun = Graph::begin(stream); !begun) return begun.error();
    Status launched = Ok{};
    for (i64 call = 0; call < calls_ && launched; ++call) {
      IndexerInputs inputs = inputs_of(call);
      inputs.fold = fold;
      const auto launches = indexer_launches(
          plan_, indexer_tensors([&](std::string_view name) { return address(name); }), inputs);
      launched = launch_each(launches, [&](const auto& one) -> Status {
        if (scores_alone && one.variant.kernel == KernelId::indexer_select) return Ok{};
        const auto kernel = resolver.find(one.variant, {.live_tokens = shape_.rows, .stream = stream});
        if (!kernel) return kernel.error();
        return context_->gpu.launcher.launch(**kernel, {.x = one.grid}, one.arguments, stream);
      });
    }
    const auto graph = Graph::end(stream);
    if (!launched) return launched.error();
    if (!graph) return graph.error();
    std::vector<i64> samples;
    StreamTimer timer(stream);
    for (int i = -kWarmUps; i < kReplays; ++i) {
      if (const Status started = timer.start(); !started) return started.error();
      if (const Status queued = graph->queue(stream); !queued) return queued.error();
      const auto nanoseconds = timer.stop();
      if (!nanoseconds) return nanoseconds.error();
      if (i >= 0) samples.push_back(*nanoseconds);
    }
    return samples;
  }

 private:
  Timed(const RecordContext& context, const Shape& shape) : context_(&context), shape_(shape) {}

  template <class T>
  const T* input(std::size_t index) const {
    return reinterpret_cast<const T*>(inputs_[index].data());
  }
  std::byte* address(std::string_view name) const {
    const TensorSpec* tensor = find_tensor(layout_, name);
    return tensor ? inputs_[4].data() + tensor->offset : nullptr;
  }
  IndexerInputs inputs_of(i64 call) const {
    const i64 pages = shape_.context / kKernelPageSize, row = call * shape_.rows;
    return {.q = input<unsigned char>(0) + row * shape_.heads * kKeyElements,
            .weights = input<float>(1) + row * shape_.heads,
            .cache = reinterpret_cast<const unsigned char*>(pool_),
            .page_table = input<int>(2) + (shape_.is_prefill ? call : row) * pages,
            .table_width = pages,
            .lengths = input<int>(3),
            .rows = shape_.rows,
            .rows_per_request = shape_.rows_per_request};
  }

  const RecordContext* context_;
  Shape shape_;
  IndexerPlan plan_;
  IndexerLayout layout_;
  i64 calls_ = 0;
  const std::byte* pool_ = nullptr;
  std::vector<DeviceMemory> inputs_;  // q, weights, page tables, lengths, the arena
};

double microseconds(const std::vector<i64>& samples, i64 calls) {
  return static_cast<double>(median(samples)) / 1000 / static_cast<double>(calls);
}

}  // namespace

Result<Evidence> record_indexer_speed(const RecordContext& context) {
  Evidence evidence{.is_pass = true};
  std::mt19937_64 engine(17);
  const auto pool = make_pool(engine);
  if (!pool) return pool.error();
  std::vector<int> permutation(static_cast<std::size_t>(kPoolPages));
  std::iota(permutation.begin(), permutation.end(), 0);
  std::ranges::shuffle(permutation, engine);
  LaunchResolver resolver = context.gpu.resolver();
  for (const Shape& shape : shapes()) {
    const auto timed = Timed::create(context, shape, *pool, permutation, engine);
    if (!timed) return timed.error();
    if (const Status resolved = resolver.resolve(indexer_variants(timed->plan())); !resolved)
      return resolved.error();
    const std::vector<IndexerFold> folds = timed->folds();
    for (const IndexerFold fold : folds) {
      const auto samples = timed->run(resolver, fold, false);
      if (!samples) return samples.error();
      const double own = microseconds(*samples, timed->calls());
      const std::string name = concat(name_of(shape), ", ", name_of(fold));
      evidence.facts.push_back({concat(name, ", median microseconds"), own});
      if (fold != folds.front()) continue;
      evidence.facts.push_back({concat(name, ", of the peer's time"), own / shape.peer});
      evidence.samples.push_back(
          {.name = name, .unit = concat("ns a ", timed->calls(), " calls"), .values = *samples});
      const auto alone = timed->run(resolver, fold, true);
      if (!alone) return alone.error();
      evidence.facts.push_back(
          {concat(name, ", without selecting, median microseconds"), microseconds(*alone, timed->calls())});
    }
  }
  return evidence;
}

}  // namespace moeplan::test
