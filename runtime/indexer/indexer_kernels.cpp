#include "runtime/indexer/indexer_kernels.hpp"

#include <algorithm>
#include <cstdint>

#include "planner/core/check.hpp"
#include "planner/core/text.hpp"
#include "planner/indexer/paged.hpp"
#include "runtime/indexer/sieve.hpp"

namespace moeplan {
namespace {

// Up to so many tokens of a row, batches of rows take less time than chunks of all of them.
constexpr i64 kBatchTokens = 262'144;

// Calls of more tokens, of rows of more than kBatchTokens, are sieved, as measured on an H200: where scorers
// wait for memory, and where they wait for tensor cores, beside which keeping tokens takes longer.
constexpr i64 kSieveTokensOwnQueries = 3'000'000;
constexpr i64 kSieveTokensSharedHeads = 16'000'000;

// Blocks of fewer pages do not take as long as it takes to fetch the queries of another group.
constexpr i64 kEvenPages = 4;

// Tokens of a slice, of which the best go to a slot.
constexpr i64 kSliceTokens = 32768;

// Kernels multiply numbers by strides of so many bytes and elements at most.
constexpr i64 kMostStride = (i64{1} << 32) - 1;

template <class T>
T* at(std::byte* address) {
  return reinterpret_cast<T*>(address);
}

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

enum class SlotRoom { fold_slab, fused_pack, candidates };

// Slots somewhere in the arena.
struct Slots {
  SlotRoom room;
  float* values;
  int* indices;
  i64 count;
};

// Whether calls of a plan may be sieved.
bool can_sieve(const IndexerPlan& plan) {
  return plan.route != IndexerRoute::packed_contiguous && plan.has_candidates &&
         plan.pages * kKernelPageSize > kBatchTokens;
}

// All chunks of a call as launches, one fold a function.
class Call {
 public:
  Call(const IndexerPlan& plan, const IndexerTensors& tensors, const IndexerInputs& inputs)
      : plan_(plan), tensors_(tensors), inputs_(inputs) {
    MOEPLAN_CHECK(inputs.rows >= 1 && inputs.rows <= plan.rows, "live rows outside of the plan's capacity");
    MOEPLAN_CHECK(inputs.table_width >= 1 && inputs.table_width <= plan.pages,
                  "a page table wider than the plan's");
    MOEPLAN_CHECK(inputs.rows_per_request >= 1 && inputs.rows % rows_per_request() == 0,
                  "requests of unequal rows");
    MOEPLAN_CHECK(chunk_tokens() >= kKernelPageSize, "logits of less than a page");
    MOEPLAN_CHECK(inputs.page_stride >= kPageBytes && inputs.page_stride % 16 == 0,
                  "pages of a cache overlap or are not aligned");
    MOEPLAN_CHECK(is_aligned(inputs.q) && is_aligned(inputs.weights),
                  "queries or weights that are not aligned to 16 bytes");
    MOEPLAN_CHECK(inputs.page_stride <= kMostStride && chunk_tokens() <= kMostStride,
                  "a stride of more than 32 bits");
  }

  bool is_packed() const { return plan_.route == IndexerRoute::packed_contiguous; }
  i64 rows_per_request() const { return is_packed() ? inputs_.rows : inputs_.rows_per_request; }
  i64 rows() const { return inputs_.rows; }
  i64 tokens() const { return inputs_.table_width * kKernelPageSize; }

  // Tokens of a chunk, where a fold has chunks: all rows' logits of it are there at once.
  i64 chunk_tokens() const {
    if (is_packed()) return plan_.supertile;
    return plan_.logits / inputs_.rows / kKernelPageSize * kKernelPageSize;
  }
  i64 chunks() const { return ceil_div(tokens(), chunk_tokens()); }

  // Rows whose logits are there at once, all of each: whole requests, as many each time but for the last; 0:
  // not even one has room.
  i64 batch_rows() const {
    if (is_packed()) return chunks() == 1 ? inputs_.rows : 0;
    const i64 requests = inputs_.rows / rows_per_request();
    const i64 most = min_of(plan_.logits / (rows_per_request() * tokens()), requests);
    return most == 0 ? 0 : ceil_div(requests, ceil_div(requests, most)) * rows_per_request();
  }

  i64 slices_of(i64 chunk) const {
    return ceil_div(min_of(chunk_tokens(), tokens() - chunk * chunk_tokens()), kSliceTokens);
  }
  i64 slices() const { return (chunks() - 1) * slices_of(0) + slices_of(chunks() - 1); }

  // Where the slices of two levels go: the most room that is not in use.
  Slots slots() const {
    const i64 slab = plan_.fold_slab_bytes / slot_bytes(plan_.top_k);
    const i64 candidates = plan_.has_candidates ? 2 * plan_.rows : 0;
    if (slab >= max_of(candidates, plan_.fused_slots)) {
      auto* values = at<float>(tensors_.fold_slab);
      return {SlotRoom::fold_slab, values, at<int>(tensors_.fold_slab + slab * plan_.top_k * 4), slab};
    }
    if (plan_.fused_slots >= candidates)
      return {SlotRoom::fused_pack, tensors_.fused_pack_values, tensors_.fused_pack_indices,
              plan_.fused_slots};
    return {SlotRoom::candidates, tensors_.candidate_values, tensors_.candidate_indices, candidates};
  }

  ScoreTile tile() const { return score_tile(plan_.heads, rows_per_request()); }
  i64 tile_rows() const { return min_of(tile().rows, rows_per_request()); }
  i64 groups(i64 rows) const { return rows / rows_per_request() * ceil_div(rows_per_request(), tile_rows()); }

  // Where a request is a group of its own.
  std::optional<Sieve> sieve() const {
    if (!can_sieve(plan_) || tile_rows() != rows_per_request()) return std::nullopt;
    return sieve_of(plan_.logits, inputs_.rows, rows_per_request(), inputs_.table_width, tile().tokens,
                    plan_.top_k);
  }

  bool has_room(IndexerFold fold) const {
    switch (fold) {
      case IndexerFold::single:
        return batch_rows() > 0;
      case IndexerFold::carry:
        return chunks() > 1 && plan_.has_candidates;
      case IndexerFold::two_level:
        return inputs_.rows * slices() <= slots().count;
      case IndexerFold::sieve:
        return sieve().has_value();
    }
    MOEPLAN_CHECK(false, "a fold that is none");
  }

  std::vector<IndexerNeed> need(IndexerFold fold) const {
    if (fold == IndexerFold::sieve) return need_of_sieve();
    const i64 in_chunk = min_of(tokens(), chunk_tokens());  // of the first, which is the largest
    const i64 logits = fold == IndexerFold::single && !is_packed()
                           ? batch_rows() * tokens()
                           : (inputs_.rows - 1) * chunk_tokens() + in_chunk;
    std::vector<IndexerNeed> needs = {{"tile_logits", logits * 4}, {"active_width", 4}};
    if (is_packed()) {
      needs.push_back({"gather_k_quant", in_chunk * kKeyElements});
      needs.push_back({"gather_k_scale", in_chunk * kKeyScaleBytes});
      needs.push_back({"contiguous_lengths", inputs_.rows * 4});
      needs.push_back({"runtime_lengths", inputs_.rows * 4});
    }
    const i64 slot = plan_.top_k * 4;  // of values, and as much of indices
    if (!inputs_.scores) needs.push_back({"topk_values", inputs_.rows * slot});
    if (!inputs_.indices) needs.push_back({"topk_indices", inputs_.rows * slot});
    const auto need_of_both = [&](std::string_view values, std::string_view indices, i64 bytes) {
      needs.push_back({values, bytes});
      needs.push_back({indices, bytes});
    };
    if (fold == IndexerFold::two_level) {
      const i64 bytes = inputs_.rows * slices() * slot;
      const Slots to = slots();
      switch (to.room) {
        case SlotRoom::fold_slab:
          needs.push_back({"fold_slab", to.count * slot + bytes});
          break;
        case SlotRoom::fused_pack:
          need_of_both("fused_pack_values", "fused_pack_indices", bytes);
          break;
        case SlotRoom::candidates:
          need_of_both("candidate_values", "candidate_indices", bytes);
          break;
      }
    } else if (fold == IndexerFold::carry) {
      // The second half from the third chunk on.
      const i64 rows = inputs_.rows + (chunks() > 2 ? plan_.rows : 0);
      need_of_both("candidate_values", "candidate_indices", rows * slot);
    }
    return needs;
  }

  // All of tile_logits, whose last words are those of all rows; of other tensors the rest may need more.
  std::vector<IndexerNeed> need_of_sieve() const {
    const Sieve sieve = *this->sieve();
    const IndexerPlan plan = rest_plan(sieve);
    const Call rest(plan, tensors_, inputs_);
    std::vector<IndexerNeed> needs = rest.need(rest.rest_fold());
    const auto need_of = [&](std::string_view tensor, i64 bytes) {
      const auto known = std::ranges::find(needs, tensor, &IndexerNeed::tensor);
      if (known == needs.end())
        needs.push_back({tensor, bytes});
      else
        known->bytes = max_of(known->bytes, bytes);
    };
    need_of("tile_logits", (plan.logits + sieve.shared_words()) * 4);
    for (const std::string_view slots : {"candidate_values", "candidate_indices"})
      need_of(slots, inputs_.rows * plan_.top_k * 4);
    return needs;
  }

  std::vector<IndexerLaunch> launches(IndexerFold fold) {
    if (fold == IndexerFold::sieve) {
      sieve_rows();
      return std::move(launches_);
    }
    if (fold == IndexerFold::single) {
      for (i64 row = 0; row < inputs_.rows; row += batch_rows()) select_of_rows(row);
      return std::move(launches_);
    }
    for (i64 chunk = 0; chunk < chunks(); ++chunk) {
      score(source_of(chunk), 0, chunk_tokens());
      if (fold == IndexerFold::two_level)
        select_slices(chunk);
      else
        select_with_carry(chunk);
    }
    if (fold == IndexerFold::two_level) select_from_slices();
    return std::move(launches_);
  }

 private:
  // What the rows see of the cache.
  IndexerSource cache_source(i64 begin, i64 tokens) const {
    return {.quants = inputs_.cache,
            .quant_stride = inputs_.page_stride,
            .scales = inputs_.cache + kPageKeyBytes,
            .scale_stride = inputs_.page_stride,
            .page_table = inputs_.page_table,
            .table_stride = is_packed() ? 0 : inputs_.table_width,
            .table_width = inputs_.table_width,
            .is_gathered = false,
            .lengths = rest_lengths_ ? rest_lengths_ : inputs_.lengths,
            .lengths_begin = begin,
            .active_width = rest_lengths_ ? nullptr : tensors_.active_width,
            .rows = inputs_.rows,
            .rows_per_request = rows_per_request(),
            .begin = begin,
            .tokens = tokens};
  }
  IndexerSource source_of(i64 chunk) const {
    const i64 begin = chunk * chunk_tokens(), tokens_of_it = min_of(chunk_tokens(), tokens() - begin);
    IndexerSource source = cache_source(begin, tokens_of_it);
    if (!is_packed()) return source;
    source.quants = tensors_.gather_k_quant;
    source.quant_stride = kPageKeyBytes;
    source.scales = tensors_.gather_k_scale;
    source.scale_stride = kPageScaleBytes;
    source.is_gathered = true;
    source.lengths = tensors_.runtime_lengths;
    source.lengths_begin = 0;
    source.active_width = nullptr;
    return source;
  }

  // Rows of a source, from one on.
  IndexerSource rows_of(IndexerSource source, i64 first, i64 rows) const {
    source.page_table += first * source.table_stride;
    source.lengths += first;
    source.rows = rows;
    return source;
  }

  bool follows_selection() const {
    return !launches_.empty() &&
           std::holds_alternative<KernelLaunch<IndexerSelectArguments>>(launches_.back());
  }

  // As many as are to be resident, and none without a page. Fewer, where so none has pages of two groups and
  // the largest share is the same.
  i64 score_blocks(const IndexerSource& source) const {
    const i64 most = plan_.multiprocessors * score_blocks_per_sm(tile());
    const i64 pages = source.tokens / kKernelPageSize, of_all = groups(source.rows) * pages;
    const i64 share = ceil_div(of_all, most);
    return share == 1 || (share >= kEvenPages && pages % share == 0) ? of_all / share : most;
  }

  // `first_row`: of the source's rows, among the call's.
  void score(const IndexerSource& source, i64 first_row, i64 logits_stride) {
    if (is_packed()) {
      launches_.emplace_back(KernelLaunch<IndexerGatherArguments>{
          .variant = kIndexerGather,
          .grid = source.tokens / kKernelPageSize,
          .arguments = {.source = cache_source(source.begin, source.tokens),
                        .quants = tensors_.gather_k_quant,
                        .scales = tensors_.gather_k_scale,
                        .contiguous_lengths = tensors_.contiguous_lengths,
                        .runtime_lengths = tensors_.runtime_lengths}});
    }
    launches_.emplace_back(KernelLaunch<IndexerScoreArguments>{
        .variant = indexer_score_variant(tile()),
        .grid = score_blocks(source),
        .arguments = {.source = source,
                      .q = inputs_.q + first_row * plan_.heads * kKeyElements,
                      .weights = inputs_.weights + first_row * plan_.heads,
                      .logits = tensors_.tile_logits,
                      .logits_stride = logits_stride,
                      .follows_selection = follows_selection()}});
  }

  // Blocks that share what is selected from: as many as have enough entries each. All of a launch should find
  // a place at once, though not every multiprocessor is in a place for a cluster.
  i64 parts(i64 entries, i64 selections) const {
    const auto pays = [&](i64 count) {
      return entries > count / 2 * kSelectPartEntries && 4 * count * selections <= 3 * plan_.multiprocessors;
    };
    i64 count = 1;
    while (count < kSelectParts && pays(2 * count)) count *= 2;
    return count;
  }

  KernelLaunch<IndexerSelectArguments>& select(const IndexerSource& source, i64 slices, i64 entries) {
    const i64 of_slice = ceil_div(entries, slices), of_each = parts(of_slice, source.rows * slices);
    launches_.emplace_back(KernelLaunch<IndexerSelectArguments>{
        .variant = indexer_select_variant(select_warps(ceil_div(of_slice, of_each))),
        .grid = source.rows * slices * of_each,
        .arguments = {.source = source,
                      .top_k = plan_.top_k,
                      .parts = of_each,
                      .slices = slices,
                      .slice_tokens = source.tokens,
                      .logits = tensors_.tile_logits,
                      .logits_stride = chunk_tokens(),
                      .scores = inputs_.scores ? inputs_.scores : tensors_.topk_values,
                      .indices = inputs_.indices ? inputs_.indices : tensors_.topk_indices,
                      .is_physical = inputs_.is_physical,
                      .keeps_empty = rest_lengths_ != nullptr},
        .cluster = of_each});
    return std::get<KernelLaunch<IndexerSelectArguments>>(launches_.back());
  }

  // Of a batch of rows that begins with one.
  void select_of_rows(i64 first) {
    const i64 rows = min_of(batch_rows(), inputs_.rows - first);
    const i64 stride = is_packed() ? chunk_tokens() : tokens();
    const IndexerSource source = is_packed() ? source_of(0) : rows_of(cache_source(0, tokens()), first, rows);
    score(source, first, stride);
    IndexerSelectArguments& arguments = select(source, 1, tokens()).arguments;
    arguments.logits_stride = stride;
    if (arguments.scores) arguments.scores += first * plan_.top_k;
    arguments.indices += first * plan_.top_k;
  }

  // Out of a chunk's logits and the best of those before it. The last one's are the call's.
  void select_with_carry(i64 chunk) {
    const IndexerSource source = source_of(chunk);
    IndexerSelectArguments& arguments =
        select(source, 1, source.tokens + (chunk > 0 ? plan_.top_k : 0)).arguments;
    const auto half = [&](i64 of_chunk) { return of_chunk % 2 * plan_.rows * plan_.top_k; };
    if (chunk > 0) {
      arguments.list_values = tensors_.candidate_values + half(chunk - 1);
      arguments.list_indices = tensors_.candidate_indices + half(chunk - 1);
      arguments.lists = 1;
      arguments.list_stride = plan_.top_k;
    }
    if (chunk + 1 < chunks()) {
      arguments.slot_values = tensors_.candidate_values + half(chunk);
      arguments.slot_indices = tensors_.candidate_indices + half(chunk);
      arguments.slot_row_step = 1;
    }
  }

  void select_slices(i64 chunk) {
    const Slots to = slots();
    const IndexerSource source = source_of(chunk);
    IndexerSelectArguments& arguments = select(source, slices_of(chunk), source.tokens).arguments;
    // Slices of equal size, so that no block waits for a larger one.
    arguments.slice_tokens = align_up(ceil_div(arguments.source.tokens, arguments.slices), kKernelPageSize);
    arguments.slot_values = to.values;
    arguments.slot_indices = to.indices;
    arguments.slot_row_step = slices();
    arguments.first_slot = chunk * slices_of(0);
  }

  void select_from_slices() {
    const Slots from = slots();
    IndexerSelectArguments& arguments =
        select(cache_source(0, tokens()), 1, slices() * plan_.top_k).arguments;
    arguments.logits = nullptr;
    arguments.list_values = from.values;
    arguments.list_indices = from.indices;
    arguments.lists = slices();
    arguments.list_stride = slices() * plan_.top_k;
  }

  // ---- The sieve. ----

  // The plan that what is left is selected with: its logits end where the words of all rows begin, an even
  // number, since ranks take 8 bytes.
  IndexerPlan rest_plan(const Sieve& sieve) const {
    IndexerPlan plan = plan_;
    plan.logits = (plan_.logits - sieve.shared_words()) / 2 * 2;
    return plan;
  }

  void sieve_rows() {
    const Sieve sieve = *this->sieve();
    const SieveTensors tensors = sieve_tensors(sieve, tensors_.tile_logits, rest_plan(sieve).logits);
    launches_.emplace_back(
        KernelLaunch<IndexerSplitArguments>{.variant = kIndexerSplit,
                                            .grid = inputs_.rows / rows_per_request(),
                                            .arguments = {.source = cache_source(0, this->tokens()),
                                                          .head_pages = sieve.head_pages,
                                                          .ends_pages = sieve.ends_pages,
                                                          .ends_table = tensors.ends_table,
                                                          .ends_lengths = tensors.ends_lengths,
                                                          .middle_lengths = tensors.middle_lengths,
                                                          .skipped_pages = tensors.skipped_pages,
                                                          .survivor_counts = tensors.survivor_counts}});
    for (i64 row = 0; row < inputs_.rows; row += sieve.batch_rows) {
      const SieveBatch batch = sieve_batch(sieve, tensors, row);
      select_from_ends(batch);
      sieve_middles(batch);
      join(batch);
      select_from_joined(batch);
    }
    // Rows whose survivors had no room, as if there were no others.
    const IndexerPlan plan = rest_plan(sieve);
    Call rest(plan, tensors_, inputs_);
    rest.rest_lengths_ = tensors.rest_lengths;
    for (IndexerLaunch& launch : rest.launches(rest.rest_fold())) launches_.push_back(std::move(launch));
  }
  // Mostly nothing is left: the one of the fewest launches.
  IndexerFold rest_fold() const {
    const bool is_single = batch_rows() > 0 && ceil_div(inputs_.rows, batch_rows()) <= chunks();
    return is_single ? IndexerFold::single : IndexerFold::carry;
  }

  // Some rows of the call, with what they have in the sieve's tensors.
  struct SieveBatch {
    const Sieve& sieve;
    SieveTensors tensors;
    i64 first_row;
    IndexerSource whole;  // of the batch's rows
    float* ends_values;   // slots: what is selected from the ends
    int* ends_indices;

    i64 head_tokens() const { return sieve.head_pages * kKernelPageSize; }
    i64 ends_tokens() const { return sieve.ends_pages * kKernelPageSize; }
  };
  SieveBatch sieve_batch(const Sieve& sieve, SieveTensors tensors, i64 first) const {
    tensors.least_ranks += first;
    for (int** of_rows : {&tensors.ends_lengths, &tensors.middle_lengths, &tensors.skipped_pages,
                          &tensors.list_counts, &tensors.rest_lengths})
      *of_rows += first;
    tensors.survivor_counts += first * kSurvivorLists * kCountWords;
    tensors.ends_table += first * sieve.ends_pages;
    const i64 rows = min_of(sieve.batch_rows, inputs_.rows - first), slots = first * plan_.top_k;
    return {.sieve = sieve,
            .tensors = tensors,
            .first_row = first,
            .whole = rows_of(cache_source(0, this->tokens()), first, rows),
            .ends_values = tensors_.candidate_values + slots,
            .ends_indices = tensors_.candidate_indices + slots};
  }

  void select_from_ends(const SieveBatch& batch) {
    IndexerSource ends = batch.whole;
    ends.page_table = batch.tensors.ends_table;
    ends.table_stride = ends.table_width = batch.sieve.ends_pages;
    ends.lengths = batch.tensors.ends_lengths;
    ends.active_width = nullptr;
    ends.tokens = batch.ends_tokens();
    score(ends, batch.first_row, ends.tokens);
    IndexerSelectArguments& arguments = select(ends, 1, ends.tokens).arguments;
    arguments.logits_stride = ends.tokens;
    arguments.slot_values = batch.ends_values;
    arguments.slot_indices = batch.ends_indices;
    arguments.slot_row_step = 1;
    arguments.least_ranks = batch.tensors.least_ranks;
  }

  void sieve_middles(const SieveBatch& batch) {
    IndexerSource middles = batch.whole;
    middles.lengths = batch.tensors.middle_lengths;
    middles.active_width = nullptr;
    middles.begin = middles.lengths_begin = batch.head_tokens();
    middles.tokens -= batch.ends_tokens();
    launches_.emplace_back(KernelLaunch<IndexerSieveArguments>{
        .variant = indexer_sieve_variant(tile()),
        .grid = score_blocks(middles),
        .arguments = {.source = middles,
                      .q = inputs_.q + batch.first_row * plan_.heads * kKeyElements,
                      .weights = inputs_.weights + batch.first_row * plan_.heads,
                      .least_ranks = batch.tensors.least_ranks,
                      .survivor_counts = batch.tensors.survivor_counts,
                      .survivors = batch.tensors.survivors,
                      .capacity = batch.sieve.capacity,
                      .directory = batch.tensors.directory,
                      .directory_stride = batch.sieve.directory_stride()}});
  }

  void join(const SieveBatch& batch) {
    const SieveTensors& tensors = batch.tensors;
    const i64 parts = min_of(max_of(plan_.multiprocessors / batch.whole.rows, 1), kMostJoinParts);
    launches_.emplace_back(
        KernelLaunch<IndexerJoinArguments>{.variant = kIndexerJoin,
                                           .grid = batch.whole.rows * parts,
                                           .arguments = {.source = batch.whole,
                                                         .parts = parts,
                                                         .top_k = plan_.top_k,
                                                         .ends_values = batch.ends_values,
                                                         .ends_indices = batch.ends_indices,
                                                         .head_tokens = batch.head_tokens(),
                                                         .skipped_pages = tensors.skipped_pages,
                                                         .middle_lengths = tensors.middle_lengths,
                                                         .survivor_counts = tensors.survivor_counts,
                                                         .survivors = tensors.survivors,
                                                         .capacity = batch.sieve.capacity,
                                                         .directory = tensors.directory,
                                                         .directory_stride = batch.sieve.directory_stride(),
                                                         .step_tokens = tile().tokens,
                                                         .list_values = tensors.list_values,
                                                         .list_indices = tensors.list_indices,
                                                         .list_stride = batch.sieve.list_stride(),
                                                         .list_counts = tensors.list_counts,
                                                         .rest_lengths = tensors.rest_lengths}});
  }

  void select_from_joined(const SieveBatch& batch) {
    const i64 entries = batch.sieve.top_k + batch.sieve.expected;
    IndexerSelectArguments& arguments = select(batch.whole, 1, entries).arguments;
    arguments.logits = nullptr;
    arguments.list_values = batch.tensors.list_values;
    arguments.list_indices = batch.tensors.list_indices;
    arguments.lists = 1;
    arguments.list_counts = batch.tensors.list_counts;
    arguments.list_stride = batch.sieve.list_stride();
    if (arguments.scores) arguments.scores += batch.first_row * plan_.top_k;
    arguments.indices += batch.first_row * plan_.top_k;
  }

  const IndexerPlan& plan_;
  const IndexerTensors& tensors_;
  const IndexerInputs& inputs_;
  const int* rest_lengths_ = nullptr;  // in place of the call's: of the rows that are left
  std::vector<IndexerLaunch> launches_;
};

std::vector<IndexerFold> folds_of(const Call& call) {
  using enum IndexerFold;
  std::vector<IndexerFold> order = {single, carry, two_level, sieve};
  if (!call.is_packed() && call.tokens() > kBatchTokens) order = {two_level, carry, single, sieve};
  const i64 sieved = has_own_queries(call.tile()) ? kSieveTokensOwnQueries : kSieveTokensSharedHeads;
  if (call.tokens() > kBatchTokens && call.rows() * call.tokens() > sieved)
    std::ranges::rotate(order, order.end() - 1);
  std::erase_if(order, [&](IndexerFold fold) { return !call.has_room(fold); });
  return order;
}

// The one that is asked for, or the one for the call's size.
IndexerFold fold_of(const Call& call, const IndexerInputs& inputs) {
  const std::vector<IndexerFold> folds = folds_of(call);
  MOEPLAN_CHECK(!folds.empty(), "a call that no fold has room for");
  const IndexerFold fold = inputs.fold.value_or(folds.front());
  MOEPLAN_CHECK(std::ranges::find(folds, fold) != folds.end(), "a fold that there is no room for");
  return fold;
}

}  // namespace

std::string missing_indexer_kernels(const IndexerRequest& request, const IndexerLayout& layout) {
  const auto* meta = std::get_if<PagedMeta>(&layout.meta);
  const auto caps = paged_caps(request.caps);
  if (!meta || !caps) return "this build has indexer kernels for paged plans alone";
  if (std::ranges::find(kIndexerTopK, caps->top_k) == std::end(kIndexerTopK))
    return concat("this build's indexer kernels select 512, 1024 or 2048 keys, not ", caps->top_k);
  if (std::ranges::find(kIndexerHeads, caps->num_q_heads) == std::end(kIndexerHeads))
    return concat("this build's indexer kernels score 16, 32 or 64 heads, not ", caps->num_q_heads);
  if (caps->page_size != kKernelPageSize)
    return concat("indexer kernels read pages of ", kKernelPageSize, " keys, not of ", caps->page_size);
  if (caps->score_mode != ScoreMode::nsa) return "this build has no indexer kernels for MSA";
  if (caps->max_q_rows * meta->max_chunks >= i64{1} << 31)
    return "this build's indexer kernels count rows in 31 bits";
  return "";
}

IndexerPlan indexer_plan(const IndexerRequest& request, const IndexerLayout& layout, i64 multiprocessors) {
  MOEPLAN_CHECK(missing_indexer_kernels(request, layout).empty(), "a plan without kernels of ours");
  const auto& meta = std::get<PagedMeta>(layout.meta);
  const auto caps = paged_caps(request.caps);
  const auto bytes = [&](std::string_view name) {
    const auto* tensor = std::ranges::find(layout.arena.tensors, name, &TensorSpec::name);
    return tensor == layout.arena.tensors.end() ? 0 : tensor->bytes;
  };
  return {.route = layout.route,
          .heads = caps->num_q_heads,
          .rows = caps->max_q_rows,
          .pages = caps->max_page_table_width,
          .top_k = caps->top_k,
          .supertile = meta.supertile_tokens,
          .logits = meta.tile_logits_elements,
          .fused_slots = meta.fused_pack_elements / caps->top_k,
          .fold_slab_bytes = bytes("fold_slab"),
          .has_candidates = meta.max_chunks > 1,
          .multiprocessors = multiprocessors};
}

std::vector<KernelVariant> indexer_variants(const IndexerPlan& plan) {
  const bool is_packed = plan.route == IndexerRoute::packed_contiguous;
  std::vector<KernelVariant> variants;
  const auto add = [&](const KernelVariant& variant) {
    if (std::ranges::find(variants, variant) == variants.end()) variants.push_back(variant);
  };
  for (i64 rows = 1; rows <= plan.rows && rows <= kMostTileRows + 1; ++rows) {
    add(indexer_score_variant(score_tile(plan.heads, rows)));
  }
  for (i64 warps : kSelectWarps) variants.push_back(indexer_select_variant(warps));
  if (is_packed) variants.push_back(kIndexerGather);
  if (can_sieve(plan)) {
    for (i64 rows = 1; rows <= min_of(plan.rows, kMostTileRows); ++rows) {
      const ScoreTile tile = score_tile(plan.heads, rows);
      if (rows <= tile.rows) add(indexer_sieve_variant(tile));
    }
    add(kIndexerSplit);
    add(kIndexerJoin);
  }
  return variants;
}

IndexerTensors indexer_tensors(const std::function<std::byte*(std::string_view)>& address) {
  return {.gather_k_quant = at<unsigned char>(address("gather_k_quant")),
          .gather_k_scale = at<unsigned char>(address("gather_k_scale")),
          .contiguous_lengths = at<int>(address("contiguous_lengths")),
          .runtime_lengths = at<int>(address("runtime_lengths")),
          .tile_logits = at<float>(address("tile_logits")),
          .topk_values = at<float>(address("topk_values")),
          .topk_indices = at<int>(address("topk_indices")),
          .candidate_values = at<float>(address("candidate_values")),
          .candidate_indices = at<int>(address("candidate_indices")),
          .active_width = at<const int>(address("active_width")),
          .fused_pack_values = at<float>(address("fused_pack_values")),
          .fused_pack_indices = at<int>(address("fused_pack_indices")),
          .fold_slab = address("fold_slab")};
}

std::vector<IndexerFold> indexer_folds(const IndexerPlan& plan, const IndexerInputs& inputs) {
  const IndexerTensors nowhere{};
  return folds_of(Call(plan, nowhere, inputs));
}

i64 indexer_chunk_tokens(const IndexerPlan& plan, const IndexerInputs& inputs) {
  const IndexerTensors nowhere{};
  return Call(plan, nowhere, inputs).chunk_tokens();
}

i64 indexer_ends_tokens(const IndexerPlan& plan, const IndexerInputs& inputs) {
  const IndexerTensors nowhere{};
  const auto sieve = Call(plan, nowhere, inputs).sieve();
  return sieve ? sieve->ends_pages * kKernelPageSize : 0;
}

i64 indexer_tile_rows(const IndexerPlan& plan, const IndexerInputs& inputs) {
  const IndexerTensors nowhere{};
  return Call(plan, nowhere, inputs).tile_rows();
}

std::vector<IndexerNeed> indexer_need(const IndexerPlan& plan, const IndexerInputs& inputs) {
  const IndexerTensors nowhere{};
  const Call call(plan, nowhere, inputs);
  return call.need(fold_of(call, inputs));
}

std::vector<IndexerLaunch> indexer_launches(const IndexerPlan& plan, const IndexerTensors& tensors,
                                            const IndexerInputs& inputs) {
  Call call(plan, tensors, inputs);
  return call.launches(fold_of(call, inputs));
}

}  // namespace moeplan
