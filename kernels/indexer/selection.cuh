// Exact selection by the threads of a block: the rank that the `wanted` best entries reach, found by
// histograms of ever narrower ranges.
#pragma once

#include "kernels/indexer/order.cuh"
#include "planner/indexer/kernel_geometry.hpp"

namespace moeplan {

inline int thread_id() { return static_cast<int>(threadIdx.x); }
inline int lane_id() { return thread_id() % 32; }
inline int warp_id() { return thread_id() / 32; }

// The lanes below the own one, a bit each.
inline u32 lanes_below() { return (1u << lane_id()) - 1; }

// What the lanes below hold, and this one.
inline int warp_prefix(int value) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int below = ptx::shuffle_up(value, distance);
    if (lane_id() >= distance) value += below;
  }
  return value;
}

// Words of shared memory through which the threads of a block tell each other, and what lies where. All of
// these functions are called by all threads; the first thing they do with the words is to wait for those that
// still read them.
constexpr int kWordSums = 0;      // a word a warp
constexpr int kWordMost = 32;     // likewise
constexpr int kWordReached = 32;  // a ReachedBin
constexpr int kWordShare = 32;    // the Place where a block's share begins, and the pages of all
constexpr int kWordFew = 36;      // how many of the few are there
constexpr int kWordRanks = 64;    // and their ranks
constexpr int kFew = 32;

// Of a scorer, which has no few: where each warp scores, and where it loads.
constexpr int kWordWalks = 40;

// The sum of the values of lower threads, and of all.
struct Prefix {
  int before;
  int total;
};

// Of the values of warps, which their first lanes hold.
template <int kThreads>
inline Prefix warps_prefix(int value, int* words) {
  constexpr int kWarps = kThreads / 32;
  ptx::block_sync();
  if (lane_id() == 0) words[kWordSums + warp_id()] = value;
  ptx::block_sync();
  const int sum = lane_id() < kWarps ? words[kWordSums + lane_id()] : 0;
  return {ptx::warp_sum(lane_id() < warp_id() ? sum : 0), ptx::warp_sum(sum)};
}

template <int kThreads>
inline Prefix block_prefix(int value, int* words) {
  const int through = warp_prefix(value);
  const Prefix warps = warps_prefix<kThreads>(ptx::shuffle(through, 31), words);
  return {warps.before + through - value, warps.total};
}

// Counts the entries of a warp whose lanes hold `is_counted` into their bins; lanes of one bin add once.
inline void count_bin(int* histogram, bool is_counted, int bin) {
  const u32 counted = ptx::ballot(is_counted);
  if (counted == 0) return;
  const int first = ptx::shuffle(bin, 63 - ptx::leading_zeros(static_cast<u64>(counted)));
  if (ptx::ballot(is_counted && bin == first) == counted) {
    if (lane_id() == 0) ptx::add_shared(histogram + first, ptx::population(counted));
  } else if (is_counted) {
    ptx::add_shared(histogram + bin, 1);
  }
}

// Shared memory of a selection.
struct SelectionScratch {
  int* histogram;  // kHistogramBins
  int* words;      // kBlockWords
};

// The bin, from the top, in which the count reaches what is wanted; what lies above it, and in it. Where
// there are fewer: the lowest bin, with nothing in it.
struct ReachedBin {
  int bin;
  int above;
  int inside;
};
template <int kThreads>
inline ReachedBin reach(int wanted, const SelectionScratch& scratch) {
  constexpr int kBins = static_cast<int>(kHistogramBins) / kThreads;
  const int top = static_cast<int>(kHistogramBins) - 1 - thread_id() * kBins;  // the thread's highest bin
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kBins; ++i) sum += scratch.histogram[top - i];
  const Prefix prefix = block_prefix<kThreads>(sum, scratch.words);
  int* reached = scratch.words + kWordReached;
  if (prefix.before < wanted && wanted <= prefix.before + sum) {
    int above = prefix.before, bin = top;
#pragma unroll 1
    for (; above + scratch.histogram[bin] < wanted; --bin) above += scratch.histogram[bin];
    reached[0] = bin;
    reached[1] = above;
    reached[2] = scratch.histogram[bin];
  }
  if (thread_id() == 0) {
    scratch.words[kWordFew] = 0;
    if (prefix.total < wanted) reached[0] = reached[1] = reached[2] = 0;
  }
  ptx::block_sync();
  return {reached[0], reached[1], reached[2]};
}

// Not before a thread still reads it: `reach` ends in waiting for all.
template <int kThreads>
inline void clear_histogram(int* histogram) {
#pragma unroll
  for (int i = 0; i < kHistogramBins / kThreads; ++i) histogram[i * kThreads + thread_id()] = 0;
}

// The smallest and the largest of some keys.
struct KeyRange {
  u32 least = kNanKey;
  u32 most = kNoKey;

  void add_finite(u32 key) {
    if (key != kNoKey && key < kInfinityKey) add(key);
  }
  void add(u32 key) {
    least = key < least ? key : least;
    most = key > most ? key : most;
  }
};
// Of all threads' ranges.
template <int kThreads>
inline KeyRange block_range(const KeyRange& range, int* words) {
  const u32 least = ptx::warp_min(range.least), most = ptx::warp_max(range.most);
  ptx::block_sync();
  if (lane_id() == 0) {
    words[kWordSums + warp_id()] = static_cast<int>(least);
    words[kWordMost + warp_id()] = static_cast<int>(most);
  }
  ptx::block_sync();
  const int warp = lane_id() < kThreads / 32 ? lane_id() : 0;
  return {ptx::warp_min(static_cast<u32>(words[kWordSums + warp])),
          ptx::warp_max(static_cast<u32>(words[kWordMost + warp]))};
}

// Bins of equal width between two finite logits. NaN lies above all.
class LogitBins {
 public:
  explicit LogitBins(const KeyRange& finite) {
    if (finite.least >= finite.most) return;
    least_ = logit_of(finite.least);
    per_logit_ = ptx::divide_fast(static_cast<float>(kHistogramBins) - 0.5f, logit_of(finite.most) - least_);
  }
  int of(float logit) const {
    const float bin = (logit - least_) * per_logit_;
    return logit == logit ? static_cast<int>(fminf(fmaxf(bin, 0.0f), static_cast<float>(kHistogramBins - 1)))
                          : static_cast<int>(kHistogramBins) - 1;
  }
  // At about the lower end of a bin.
  float least(int bin) const { return least_ + ptx::divide_fast(static_cast<float>(bin), per_logit_); }

 private:
  float least_ = 0;
  float per_logit_ = 0;
};

// The rank of the wanted-th best of a few entries: those for which `is_one` holds. `reach` came before.
template <class ForEach, class IsOne>
inline u64 rank_of_few(const ForEach& for_each, const IsOne& is_one, int count, int wanted, int* words) {
  u64* ranks = reinterpret_cast<u64*>(words + kWordRanks);
  for_each([&](u32 key, int index) {
    if (key != kNoKey && is_one(key, index))
      ranks[ptx::fetch_add_shared(words + kWordFew, 1)] = rank_of(key, index);
  });
  ptx::block_sync();
  const u64 own = lane_id() < count ? ranks[lane_id()] : 0;
  int better = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) better += ranks[i] > own;
  const u32 found = ptx::ballot(lane_id() < count && better == wanted - 1);
  return ranks[63 - ptx::leading_zeros(static_cast<u64>(found))];
}

// The rank of the wanted-th best entry; at least so many entries are there. `for_each(visit)` calls
// visit(key, index) for the entries of the thread, all lanes of a warp together; kNoKey is no entry.
template <int kThreads, class ForEach>
inline u64 find_rank(const ForEach& for_each, int wanted, const SelectionScratch& scratch) {
  constexpr int kBits = 10;
  static_assert(1 << kBits == kHistogramBins);
  // Logits that are made of sums lie close together on a line, whatever their signs.
  KeyRange finite;
  for_each([&](u32 key, int) { finite.add_finite(key); });
  clear_histogram<kThreads>(scratch.histogram);
  const LogitBins bins(block_range<kThreads>(finite, scratch.words));
  for_each([&](u32 key, int) { count_bin(scratch.histogram, key != kNoKey, bins.of(logit_of(key))); });
  ptx::block_sync();
  ReachedBin reached = reach<kThreads>(wanted, scratch);
  wanted -= reached.above;
  const auto is_in_bin = [&](u32 key, int) { return bins.of(logit_of(key)) == reached.bin; };
  if (reached.inside <= kFew) return rank_of_few(for_each, is_in_bin, reached.inside, wanted, scratch.words);

  // Of the ranks in the bin, ranges of equal width, ever narrower.
  KeyRange range;
  for_each([&](u32 key, int index) {
    if (key != kNoKey && is_in_bin(key, index)) range.add(key);
  });
  range = block_range<kThreads>(range, scratch.words);
  u64 least = static_cast<u64>(range.least) << 32;
  int open_bits = 96 - ptx::leading_zeros(static_cast<u64>(range.most - range.least));
  while (true) {
    const int shift = open_bits > kBits ? open_bits - kBits : 0;
    // Ranks of all 64 bits wrap around below the least key.
    const auto is_open = [&](u32 key, int index) {
      return key >= range.least && key <= range.most &&
             (open_bits == 64 || (rank_of(key, index) - least) >> open_bits == 0);
    };
    clear_histogram<kThreads>(scratch.histogram);
    ptx::block_sync();
    for_each([&](u32 key, int index) {
      count_bin(scratch.histogram, key != kNoKey && is_open(key, index),
                static_cast<int>((rank_of(key, index) - least) >> shift));
    });
    ptx::block_sync();
    reached = reach<kThreads>(wanted, scratch);
    least += static_cast<u64>(static_cast<u32>(reached.bin)) << shift;
    wanted -= reached.above;
    open_bits = shift;
    if (shift == 0) return least;
    if (reached.inside <= kFew) return rank_of_few(for_each, is_open, reached.inside, wanted, scratch.words);
  }
}

}  // namespace moeplan
