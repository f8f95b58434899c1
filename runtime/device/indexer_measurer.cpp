#include "runtime/device/indexer_measurer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/oracle/indexer_arguments.hpp"
#include "runtime/device/stream.hpp"
#include "runtime/environment.hpp"

namespace moeplan {
namespace {

template <class T>
std::size_t at(T index) {
  return static_cast<std::size_t>(index);
}

// What the distinct rows bring, repeated until there are `rows`.
template <class T>
std::vector<T> repeated(const std::vector<T>& distinct, i64 rows_of_it, i64 rows) {
  const i64 row_elements = std::ssize(distinct) / rows_of_it;
  std::vector<T> all;
  all.reserve(at(rows * row_elements));
  for (i64 row = 0; row < rows; ++row) {
    const auto begin = distinct.begin() + row % rows_of_it * row_elements;
    all.insert(all.end(), begin, begin + row_elements);
  }
  return all;
}

// Pages `stride` bytes from each other.
Result<DeviceMemory> uploaded_pages(const std::vector<std::uint8_t>& pages, i64 stride) {
  const i64 count = std::ssize(pages) / kPageBytes;
  auto memory = DeviceMemory::allocate(count * stride, "a cache of keys");
  if (!memory) return memory.error();
  const cudaError_t error = cudaMemcpy2D(memory->data(), at(stride), pages.data(), at(kPageBytes),
                                         at(kPageBytes), at(count), cudaMemcpyHostToDevice);
  if (const Status copied = check_cuda(error, "copying a cache of keys"); !copied) return copied.error();
  return memory;
}

template <class T>
i64 different(const std::vector<T>& a, const std::vector<T>& b) {
  i64 words = 0;
  for (std::size_t i = 0; i < a.size(); ++i) words += a[i] != b[i];
  return words;
}

}  // namespace

struct IndexerMeasurer::Uploads {
  DeviceMemory q, weights, cache, page_table, lengths;
  IndexerInputs inputs;
};

Result<ReferenceRoom> ReferenceRoom::create(std::span<const IndexerTestCall> calls) {
  i64 most = 0;
  for (const IndexerTestCall& call : calls)
    most = max_of(most, distinct_rows(call) * call.pages * kKernelPageSize);
  Places places;
  const i64 logits = places.take(8 * most), magnitudes = places.take(8 * most);
  auto memory = DeviceMemory::allocate(places.end(), "a reference's logits");
  if (!memory) return memory.error();
  std::byte* const base = memory->data();
  return ReferenceRoom{std::move(*memory), At(base + logits), At(base + magnitudes)};
}

Result<Measurement> IndexerMeasurer::measure(const IndexerTestCall& call) {
  auto uploads = upload(call);
  if (!uploads) return uploads.error();
  const std::vector<IndexerLaunch> calls = indexer_launches(
      plan_, indexer_tensors([&](std::string_view name) { return arena_.address(name); }), uploads->inputs);
  Measurement m{.tokens = call.rows,
                .routing = text_of(call),
                .block = indexer_tile_rows(plan_, uploads->inputs),
                .mode = arena_.placement().mode,
                .tolerance = tolerance_};
  const auto replays = lengths_of(call, plan_);
  std::vector<Selected> eager;
  ArenaFindings in_arena;
  for (const std::vector<std::int32_t>& lengths : replays) {
    if (const Status done = set_lengths(call, lengths, *uploads); !done) return done.error();
    for (const ArenaPattern& poison : kValidationRounds) {
      if (const Status done = run_poisoned(calls, poison); !done) return done.error();
      auto found = selected(call.rows);
      if (!found) return found.error();
      if (&poison == kValidationRounds) {
        if (const Status done = note_selection(m, call, *uploads, lengths, *found); !done)
          return done.error();
        eager.push_back(std::move(*found));
      } else {
        m.replay_differences +=
            different(found->indices, eager.back().indices) + different(found->scores, eager.back().scores);
      }
      auto seen = arena_.scan(launches_.stream());
      if (!seen) return seen.error();
      add(in_arena, std::move(*seen));
    }
  }
  // In what the last run left. Lengths change between replays; nothing else does.
  const i64 reads = environment_reads();
  const auto graph = CapturedWork::capture(launches_.stream(), [&] { return run(calls); });
  if (!graph) return graph.error();
  m.environment_reads = environment_reads() - reads;
  for (std::size_t i = 0; i < replays.size(); ++i) {
    if (const Status done = set_lengths(call, replays[i], *uploads); !done) return done.error();
    if (const Status done = graph->replay(launches_.stream()); !done) return done.error();
    const auto found = selected(call.rows);
    if (!found) return found.error();
    m.graph_differences +=
        different(found->indices, eager[i].indices) + different(found->scores, eager[i].scores);
  }
  m.stray_writes = std::move(in_arena.stray_writes);
  const std::vector<IndexerNeed> needs = indexer_need(plan_, uploads->inputs);
  for (const HighWater& use : in_arena.high_water) {
    const auto need = std::ranges::find(needs, use.tensor, &IndexerNeed::tensor);
    m.tensors.push_back({use, need == needs.end() ? 0 : need->bytes});
  }
  return m;
}

Result<IndexerMeasurer::Uploads> IndexerMeasurer::upload(const IndexerTestCall& call) const {
  const oracle::IndexerCall data = data_of(call, plan_);
  const bool is_shared = plan_.route == IndexerRoute::packed_contiguous;
  auto q = uploaded(repeated(data.q, data.rows, call.rows), "queries");
  auto weights = uploaded(repeated(data.weights, data.rows, call.rows), "weights of heads");
  auto cache = uploaded_pages(data.cache, data.page_stride);
  auto page_table = uploaded(repeated(data.page_table, data.rows, is_shared ? 1 : call.rows), "a page table");
  auto lengths = uploaded(repeated(data.lengths, data.rows, call.rows), "lengths");
  for (const auto* memory : {&q, &weights, &cache, &page_table, &lengths})
    if (!*memory) return memory->error();
  IndexerInputs inputs = inputs_of(call);
  inputs.q = pointer<const unsigned char>(*q);
  inputs.weights = pointer<const float>(*weights);
  inputs.cache = pointer<const unsigned char>(*cache);
  inputs.page_stride = data.page_stride;
  inputs.page_table = pointer<const int>(*page_table);
  inputs.lengths = pointer<const int>(*lengths);
  return Uploads{std::move(*q),          std::move(*weights), std::move(*cache),
                 std::move(*page_table), std::move(*lengths), inputs};
}

Status IndexerMeasurer::set_lengths(const IndexerTestCall& call, const std::vector<std::int32_t>& lengths,
                                    const Uploads& uploads) const {
  const std::vector<std::int32_t> all = repeated(lengths, std::ssize(lengths), call.rows);
  // Host memory that is not pinned is staged before the call returns.
  const cudaError_t error = cudaMemcpyAsync(uploads.lengths.data(), all.data(), all.size() * sizeof all[0],
                                            cudaMemcpyHostToDevice, launches_.stream());
  return check_cuda(error, "copying lengths");
}

Status IndexerMeasurer::run_poisoned(const std::vector<IndexerLaunch>& calls, const ArenaPattern& poison) {
  if (Status filled = arena_.fill(poison, launches_.stream()); !filled) return filled;
  // What is filled when an arena is bound.
  const int width = static_cast<int>(max_of(plan_.pages * kKernelPageSize, plan_.supertile));
  const cudaError_t error = cudaMemcpyAsync(arena_.address("active_width"), &width, sizeof width,
                                            cudaMemcpyHostToDevice, launches_.stream());
  if (Status set = check_cuda(error, "filling active_width"); !set) return set;
  return run(calls);
}

Status IndexerMeasurer::run(const std::vector<IndexerLaunch>& calls) {
  for (const IndexerLaunch& each : calls) {
    const Status launched =
        std::visit([&](const auto& launch) -> Status { return launches_.run(launch, {}); }, each);
    if (!launched) return launched;
  }
  return Ok{};
}

Result<IndexerMeasurer::Selected> IndexerMeasurer::selected(i64 rows) const {
  const i64 count = rows * plan_.top_k;
  auto indices = downloaded<std::int32_t>(arena_.address("topk_indices"), count, launches_.stream());
  if (!indices) return indices.error();
  auto scores = downloaded<std::uint32_t>(arena_.address("topk_values"), count, launches_.stream());
  if (!scores) return scores.error();
  return Selected{std::move(*indices), std::move(*scores)};
}

Status IndexerMeasurer::note_selection(Measurement& m, const IndexerTestCall& call, const Uploads& uploads,
                                       const std::vector<std::int32_t>& lengths,
                                       const Selected& selected) const {
  const i64 rows = std::ssize(lengths), tokens = call.pages * kKernelPageSize;
  const IndexerInputs& inputs = uploads.inputs;
  const KernelLaunch<IndexerReferenceArguments> reference{
      .variant = kIndexerReference,
      .grid = min_of(ceil_div(rows * tokens, kIndexerOracleThreads), i64{1} << 16),
      .arguments = {.q = inputs.q,
                    .weights = inputs.weights,
                    .cache = inputs.cache,
                    .page_stride = inputs.page_stride,
                    .page_table = inputs.page_table,
                    .table_stride = plan_.route == IndexerRoute::packed_contiguous ? 0 : call.pages,
                    .table_width = call.pages,
                    .lengths = inputs.lengths,
                    .heads = plan_.heads,
                    .rows = rows,
                    .logits = room_.logits,
                    .magnitudes = room_.magnitudes}};
  if (Status done = launches_.run(reference, {}); !done) return done;

  const auto note = [&](i64 row, const std::string& problem) {
    if (!problem.empty() && m.selection_problem.empty())
      m.selection_problem =
          concat("row ", row, ", ", grouped(lengths[at(row % rows)]), " tokens long: ", problem);
  };
  const std::size_t top_k = at(plan_.top_k);
  for (i64 row = 0; row < rows; ++row) {
    const auto logits = downloaded<double>(room_.logits + row * tokens, lengths[at(row)], launches_.stream());
    if (!logits) return logits.error();
    const auto magnitudes =
        downloaded<double>(room_.magnitudes + row * tokens, lengths[at(row)], launches_.stream());
    if (!magnitudes) return magnitudes.error();
    const double magnitude = magnitudes->empty() ? 0 : *std::ranges::max_element(*magnitudes);
    const auto indices = std::span(selected.indices).subspan(at(row) * top_k, top_k);
    std::vector<float> scores(top_k);
    std::memcpy(scores.data(), selected.scores.data() + at(row) * top_k, top_k * sizeof(float));
    note(row, oracle::selection_problem(*logits, magnitude * tolerance_.largest_l2, indices, scores));
    double worst = 0;
    for (std::size_t i = 0; i < top_k; ++i) {
      if (indices[i] < 0 || indices[i] >= std::ssize(*logits) || magnitude == 0) continue;
      worst =
          std::max(worst, std::abs(static_cast<double>(scores[i]) - (*logits)[at(indices[i])]) / magnitude);
    }
    merge(m.output, {.relative_l2 = worst, .worst_row_l2 = worst, .worst_row = row});
  }
  // What the other rows bring is what one of these does, and so is what they select.
  for (i64 row = rows; row < call.rows; ++row) {
    const std::size_t own = at(row) * top_k, same = at(row % rows) * top_k;
    if (!std::equal(selected.indices.begin() + static_cast<std::ptrdiff_t>(own),
                    selected.indices.begin() + static_cast<std::ptrdiff_t>(own + top_k),
                    selected.indices.begin() + static_cast<std::ptrdiff_t>(same)) ||
        !std::equal(selected.scores.begin() + static_cast<std::ptrdiff_t>(own),
                    selected.scores.begin() + static_cast<std::ptrdiff_t>(own + top_k),
                    selected.scores.begin() + static_cast<std::ptrdiff_t>(same)))
      note(row, concat("it selects otherwise than row ", row % rows, ", which brings the same"));
  }
  return Ok{};
}

}  // namespace moeplan
