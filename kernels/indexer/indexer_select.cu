// indexer_select: the top_k best tokens of a row, or of a slice of one, out of the logits of a chunk and of
// lists of earlier candidates: by logit, of equal ones those with the lowest indices, in ascending order. A
// block a slice.
//
// A sample guesses a logit that somewhat more than top_k entries reach; those are gathered in shared memory,
// in order, and the exact rank is found among them. Where the guess was wrong, or too many entries tie, the
// rank is found among all entries instead.
#include "kernels/indexer/arguments.hpp"
#include "kernels/indexer/order.cuh"
#include "kernels/indexer/pages.cuh"
#include "kernels/indexer/selection.cuh"
#include "planner/indexer/kernel_geometry.hpp"

namespace moeplan {
namespace {

constexpr SelectShared kShared = select_shared();
constexpr int kThreads = static_cast<int>(kSelectThreads);
constexpr int kWarps = kThreads / 32;
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");
static_assert(kShared.bytes == SHARED_BYTES, "host and device disagree about shared memory");

constexpr int kPageTokens = static_cast<int>(kKernelPageSize);
constexpr int kHeld = static_cast<int>(kSelectCandidates);
constexpr int kAllHeld = 3072;  // so few entries are held without a guess
constexpr int kRounds = 4;      // in which a block takes entries to registers, four a thread and round
static_assert(kHeld / kThreads * kWarps <= kHistogramBins);
constexpr int kSamples = 4;  // a thread

struct alignas(16) Quad {
  float logit[4];
};

// Entries in the order of their tokens: lists of candidates, then logits. Those of a warp follow each other.
class Entries {
 public:
  Entries(const IndexerSelectArguments& args, int row, int slice) {
    const Groups rows(args.source, 1);
    if (args.logits) {
      const int first = slice * static_cast<int>(args.slice_tokens);
      const int live = rows.live_tokens(row) - first;
      const int slice_tokens = static_cast<int>(args.slice_tokens);
      logits_ = args.logits + row * args.logits_stride + first;
      tokens_ = live < 0 ? 0 : (live < slice_tokens ? live : slice_tokens);
      first_token_ = static_cast<int>(args.source.begin) + first;
    }
    list_entries_ = static_cast<int>(args.lists * args.top_k);
    list_values_ = args.list_values + row * args.list_row_step * args.top_k;
    list_indices_ = args.list_indices + row * args.list_row_step * args.top_k;
  }

  int count() const { return list_entries_ + tokens_; }
  // Of an entry; minus infinity behind the last.
  float logit(int entry) const { return entry < count() ? *at(entry) : minus_infinity(); }
  int index(int entry) const {
    return entry < list_entries_ ? list_indices_[entry] : first_token_ + entry - list_entries_;
  }
  // Of an entry at a multiple of four, and the three behind it.
  Quad quad(int entry) const {
    if (entry >= count()) return {{minus_infinity(), minus_infinity(), minus_infinity(), minus_infinity()}};
    Quad quad = *reinterpret_cast<const Quad*>(at(entry));
    if (entry + 3 >= count()) {
#pragma unroll
      for (int i = 1; i < 4; ++i) quad.logit[i] = entry + i < count() ? quad.logit[i] : minus_infinity();
    }
    return quad;
  }

 private:
  const float* at(int entry) const {
    return entry < list_entries_ ? list_values_ + entry : logits_ + (entry - list_entries_);
  }

  const float* logits_ = nullptr;
  int tokens_ = 0;
  int first_token_ = 0;
  const float* list_values_;
  const int* list_indices_;
  int list_entries_;
};

// ---- Few entries that are held in shared memory. ----

struct Held {
  float* logits;
  int* entries;
  int count;
};

// Where a warp's entries of each round go that pass, when those of a round follow each other by warps, and
// rounds by their numbers. `passing`: of the warp, a round each; `table`: a word a round and warp.
template <int kOf>
struct Places {
  int first[kOf];
  int total;
};
template <int kOf>
inline Places<kOf> places_of(const int (&passing)[kOf], int* table) {
  static_assert(kOf * kWarps <= kHistogramBins);
#pragma unroll
  for (int round = 0; round < kOf; ++round)
    if (lane_id() == 0) table[round * kWarps + warp_id()] = passing[round];
  ptx::block_sync();
  Places<kOf> places{};
#pragma unroll
  for (int round = 0; round < kOf; ++round) {
    const int of_warp = lane_id() < kWarps ? table[round * kWarps + lane_id()] : 0;
    places.first[round] = places.total + ptx::warp_sum(lane_id() < warp_id() ? of_warp : 0);
    places.total += ptx::warp_sum(of_warp);
  }
  return places;
}

// A logit that, as a sample has it, somewhat more than `wanted` entries reach, and the largest of the sample;
// the least of all: every entry is wanted.
struct Guess {
  float least;
  float most;
};
inline Guess guess_logit(const Entries& entries, int wanted, const SelectionScratch& scratch) {
  const int step = (entries.count() + 32 * kSamples * kWarps - 1) / (32 * kSamples * kWarps) * 32;
  float logits[kSamples];
#pragma unroll
  for (int i = 0; i < kSamples; ++i) logits[i] = entries.logit((warp_id() * kSamples + i) * step + lane_id());
  KeyRange finite;
#pragma unroll
  for (int i = 0; i < kSamples; ++i) finite.add_finite(key_of(logits[i]));
  clear_histogram<kThreads>(scratch.histogram);
  finite = block_range<kThreads>(finite, scratch.words);
  const LogitBins bins(finite);
#pragma unroll
  for (int i = 0; i < kSamples; ++i)
    if (!(logits[i] < least_finite())) ptx::add_shared(scratch.histogram + bins.of(logits[i]), 1);
  ptx::block_sync();
  // Four standard deviations of what a sample can be off by.
  const float expected = static_cast<float>(wanted) * 32.0f / static_cast<float>(step);
  const int reached = static_cast<int>(expected + 4.0f * sqrtf(expected)) + 8;
  const ReachedBin bin = reach<kThreads>(reached, scratch);
  return {bin.bin == 0 ? least_finite() : bins.least(bin.bin), logit_of(finite.most)};
}

// Holds the entries that reach a logit, in order. Not true: they are too many.
inline bool hold(Held& held, const Entries& entries, float least, int* table) {
  for (int begin = 0; begin < entries.count(); begin += kRounds * 4 * kThreads) {
    const int own = begin + thread_id() * 4;
    Quad quads[kRounds];
#pragma unroll
    for (int round = 0; round < kRounds; ++round) quads[round] = entries.quad(own + round * 4 * kThreads);
    int passing[kRounds];
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      passing[round] = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) passing[round] += !(quads[round].logit[i] < least);
      passing[round] = ptx::warp_sum(passing[round]);
    }
    const Places<kRounds> places = places_of(passing, table);
    if (held.count + places.total > kHeld) return false;
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      if (passing[round] == 0) continue;
      int place = held.count + places.first[round];
      bool passes[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        passes[i] = !(quads[round].logit[i] < least);
        place += ptx::population(ptx::ballot(passes[i]) & lanes_below());
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (!passes[i]) continue;
        held.logits[place] = quads[round].logit[i];
        held.entries[place++] = own + round * 4 * kThreads + i;
      }
    }
    held.count += places.total;
    ptx::block_sync();
  }
  return true;
}

// ---- The result. ----

inline void put(const IndexerSelectArguments& args, int row, int slice, int place, float logit, int index) {
  if (args.slot_values) {
    const i64 to = (row * args.slot_row_step + args.first_slot + slice) * args.top_k + place;
    args.slot_values[to] = logit;
    args.slot_indices[to] = index;
    return;
  }
  if (args.is_physical && index >= 0) {
    const int* numbers = args.source.page_table + row * args.source.table_stride;
    index = numbers[index / kPageTokens] * kPageTokens + index % kPageTokens;
  }
  const i64 to = row * args.top_k + place;
  if (args.scores) args.scores[to] = logit;
  args.indices[to] = index;
}

// Selects from what is held. Not true: too many tie, or nearly so, for a short way.
inline bool select_held(const IndexerSelectArguments& args, const Entries& entries, const Held& held,
                        const Guess& guess, int row, int slice, const SelectionScratch& scratch) {
  const int top_k = static_cast<int>(args.top_k);
  const auto for_each = [&](const auto& visit) {
#pragma unroll 1
    for (int begin = 0; begin < held.count; begin += kThreads) {
      const int at = begin + thread_id();
      visit(at < held.count ? key_of(held.logits[at]) : kNoKey, at < held.count ? held.entries[at] : 0);
    }
  };
  u64 least = 0;
  if (held.count > top_k) {
    KeyRange range{key_of(guess.least), key_of(guess.most)};
    clear_histogram<kThreads>(scratch.histogram);
    if (guess.least == least_finite()) {
      range = {};
      for_each([&](u32 key, int) { range.add_finite(key); });
      range = block_range<kThreads>(range, scratch.words);
    } else {
      ptx::block_sync();
    }
    const LogitBins bins(range);
    for_each([&](u32 key, int) {
      if (key != kNoKey) ptx::add_shared(scratch.histogram + bins.of(logit_of(key)), 1);
    });
    ptx::block_sync();
    const ReachedBin reached = reach<kThreads>(top_k, scratch);
    if (reached.inside > kFew) return false;
    // Entries ascend as indices do.
    least = rank_of_few(
        for_each, [&](u32 key, int) { return bins.of(logit_of(key)) == reached.bin; }, reached.inside,
        top_k - reached.above, scratch.words);
  }
  const auto is_best = [&](u32 key, int entry) { return key != kNoKey && rank_of(key, entry) >= least; };
  int* table = scratch.histogram;
  int round = 0;
  ptx::block_sync();
  for_each([&](u32 key, int entry) {
    const u32 best = ptx::ballot(is_best(key, entry));
    if (lane_id() == 0) table[round * kWarps + warp_id()] = ptx::population(best);
    ++round;
  });
  ptx::block_sync();
  int place = 0;
  round = 0;
  for_each([&](u32 key, int entry) {
    const bool is_put = is_best(key, entry);
    const u32 lanes = ptx::ballot(is_put);
    const int of_warp = lane_id() < kWarps ? table[round * kWarps + lane_id()] : 0;
    const int before = ptx::warp_sum(lane_id() < warp_id() ? of_warp : 0);
    if (is_put)
      put(args, row, slice, place + before + ptx::population(lanes & lanes_below()), logit_of(key),
          entries.index(entry));
    place += ptx::warp_sum(of_warp);
    ++round;
  });
  for (int missing = place + thread_id(); missing < top_k; missing += kThreads)
    put(args, row, slice, missing, minus_infinity(), -1);
  return true;
}

// ---- Any entries, however many tie: slower. ----

// visit(key, entry) for the entries of the warp, a lane each. Lanes without an entry have kNoKey.
template <class Visit>
inline void visit_warp(const Entries& entries, const Visit& visit) {
  const int share = (entries.count() + 32 * kWarps - 1) / (32 * kWarps) * 32;
  const int begin = warp_id() * share, end = min(begin + share, entries.count());
#pragma unroll 1
  for (int entry = begin + lane_id(); entry - lane_id() < end; entry += 32)
    visit(entry < end ? key_of(entries.logit(entry)) : kNoKey, entry);
}

// How many entries of lower warps fulfil the condition, and how many of all.
template <class Condition>
inline Prefix count_where(const Entries& entries, const Condition& condition, int* words) {
  int count = 0;
  visit_warp(entries, [&](u32 key, int entry) { count += condition(key, entry); });
  return warps_prefix<kThreads>(ptx::warp_sum(count), words);
}

inline void select_any(const IndexerSelectArguments& args, const Entries& entries, int row, int slice,
                       const SelectionScratch& scratch) {
  const int top_k = static_cast<int>(args.top_k);
  const int valid = count_where(
                        entries, [](u32 key, int) { return key != kNoKey; }, scratch.words)
                        .total;
  u64 least = 0;
  if (valid > top_k) {
    least = find_rank<kThreads>(
        [&](const auto& visit) {
          visit_warp(entries,
                     [&](u32 key, int entry) { visit(key, key == kNoKey ? 0 : entries.index(entry)); });
        },
        top_k, scratch);
  }
  const auto is_best = [&](u32 key, int entry) {
    return key != kNoKey && rank_of(key, entries.index(entry)) >= least;
  };
  const Prefix best = count_where(entries, is_best, scratch.words);
  int place = best.before;
  visit_warp(entries, [&](u32 key, int entry) {
    const bool is_put = is_best(key, entry);
    const u32 lanes = ptx::ballot(is_put);
    if (is_put)
      put(args, row, slice, place + ptx::population(lanes & lanes_below()), logit_of(key),
          entries.index(entry));
    place += ptx::population(lanes);
  });
  for (int missing = best.total + thread_id(); missing < top_k; missing += kThreads)
    put(args, row, slice, missing, minus_infinity(), -1);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    indexer_select(const __grid_constant__ IndexerSelectArguments args) {
  unsigned char* shared = ptx::dynamic_shared();
  const SelectionScratch scratch{reinterpret_cast<int*>(shared + kShared.histogram),
                                 reinterpret_cast<int*>(shared + kShared.words)};
  const int slices = static_cast<int>(args.slices), top_k = static_cast<int>(args.top_k);
  const int row = static_cast<int>(blockIdx.x) / slices, slice = static_cast<int>(blockIdx.x) % slices;
  const Entries entries(args, row, slice);

  Guess guess{least_finite(), 0};
  if (entries.count() > kAllHeld) guess = guess_logit(entries, top_k, scratch);
  Held held{reinterpret_cast<float*>(shared + kShared.values),
            reinterpret_cast<int*>(shared + kShared.entries), 0};
  if (hold(held, entries, guess.least, scratch.histogram) &&
      (held.count >= top_k || guess.least == least_finite()) &&
      select_held(args, entries, held, guess, row, slice, scratch))
    return;
  select_any(args, entries, row, slice, scratch);
}

}  // namespace moeplan
