// indexer_select: the top_k best tokens of a row, or of a slice of one, out of the logits of a chunk and of
// lists of earlier candidates: by logit, of equal ones those with the lowest indices, in ascending order.
//
// A cluster of blocks selects from a row: each takes a part of its entries, and each of its warps a part of
// those. They count entries in bins, of logits first and then of ever fewer ranks, until few enough are left
// that may be selected: those are listed, and the last one is found among them. Every entry has a rank of its
// own, so that no two tie.
//
// A call takes as long as its warps have instructions to issue and blocks to wait for: loops are not
// unrolled, every step is there once, and what is no candidate is looked at twice alone.
#include "kernels/indexer/arguments.hpp"
#include "kernels/indexer/cluster.cuh"
#include "kernels/indexer/order.cuh"
#include "kernels/indexer/pages.cuh"
#include "kernels/indexer/selection.cuh"

namespace moeplan {
namespace {

constexpr SelectShared kShared = select_shared();
constexpr int kThreads = static_cast<int>(kSelectThreads);
constexpr int kWarps = kThreads / 32;
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");
static_assert(kShared.bytes == SHARED_BYTES, "host and device disagree about shared memory");

constexpr int kPageTokens = static_cast<int>(kKernelPageSize);
constexpr int kWarpEntries = 128;  // of a quad a lane
constexpr int kListed = static_cast<int>(kSelectListed);
constexpr int kFew = static_cast<int>(kSelectFew);
constexpr int kClearBytes = static_cast<int>(kShared.before - kShared.histograms);  // histograms and bits
static_assert(kFew == 32, "a lane each");

// Words of shared memory. Those of two rounds by turns: what one reads of others while they count the next.
constexpr int kWordCoarse = 0;     // sums of kBins / 32 bins, of two rounds
constexpr int kWordSelected = 64;  // bits of those that are selected, a word a warp
constexpr int kWordReached = 96;   // a ReachedBin
constexpr int kWordListed = 100;   // entries of the block that are listed
constexpr int kWordFew = 101;      // that are compared
constexpr int kWordTotal = 102;    // that are selected

struct alignas(16) Quad {
  float logit[4];
};
struct alignas(16) QuadWords {
  u32 word[4];
};
// An entry that may be selected.
struct alignas(8) Listed {
  u32 key;
  int entry;
};

// Entries in the order of their tokens: lists of candidates, then logits.
class Entries {
 public:
  Entries(const IndexerSelectArguments& args, int row, int slice) {
    const Groups rows(args.source, 1);
    if (args.logits) {
      const int first = slice * static_cast<int>(args.slice_tokens);
      logits_ = args.logits + row * args.logits_stride + first;
      tokens_ = min(max(rows.live_tokens(row) - first, 0), static_cast<int>(args.slice_tokens));
      first_token_ = static_cast<int>(args.source.begin) + first;
    }
    if (args.lists > 0) {
      list_entries_ = static_cast<int>(args.lists * args.top_k);
      list_values_ = args.list_values + row * args.list_row_step * args.top_k;
      list_indices_ = args.list_indices + row * args.list_row_step * args.top_k;
    }
  }

  int count() const { return list_entries_ + tokens_; }
  int index(int entry) const {
    return entry < list_entries_ ? list_indices_[entry] : first_token_ + entry - list_entries_;
  }
  // Of an entry at a multiple of four, and the three behind it.
  Quad quad(int entry) const {
    return *reinterpret_cast<const Quad*>(entry < list_entries_ ? list_values_ + entry
                                                                : logits_ + (entry - list_entries_));
  }

 private:
  const float* logits_ = nullptr;
  int tokens_ = 0;
  int first_token_ = 0;
  const float* list_values_ = nullptr;
  const int* list_indices_ = nullptr;
  int list_entries_ = 0;
};

// The bin, from the top, in which the count of entries reaches what is wanted; how many lie above it, and in
// it. Bin -1: there are no more than wanted, and all lie above.
struct ReachedBin {
  int bin;
  int above;
  int inside;
};

class Selection {
 public:
  Selection(const IndexerSelectArguments& args, int part, int row, int slice)
      : args_(args),
        cluster_(static_cast<int>(args.parts)),
        entries_(args, row, slice),
        part_(part),
        row_(row),
        slice_(slice) {
    // Parts and warps are powers of two.
    const int of_all = cluster_.parts() * kWarps * kWarpEntries - 1;
    const int of_warp = (entries_.count() + of_all) >> ptx::population(of_all)
                                                           << ptx::population(kWarpEntries - 1);
    of_block_ = kWarps * of_warp;
    first_ = part * of_block_;
    begin_ = first_ + warp_id() * of_warp;
    end_ = min(begin_ + of_warp, entries_.count());
  }

  static void clear() {
#pragma unroll 1
    for (int i = thread_id(); i < kClearBytes / 16; i += kThreads)
      shared_at<QuadWords>(kShared.histograms)[i] = {};
    if (thread_id() == 0) words()[kWordListed] = words()[kWordFew] = words()[kWordTotal] = 0;
    ptx::block_sync();
  }

  void run() {
    find_least();
    count_selected();
    put_selected();
    cluster_.wait();
  }

 private:
  template <class T>
  static T* shared_at(i64 offset) {
    return reinterpret_cast<T*>(ptx::dynamic_shared() + offset);
  }
  static int* histogram(int round) { return shared_at<int>(kShared.histograms) + round % 2 * kBins; }
  static Listed* list() { return shared_at<Listed>(kShared.list); }
  static int* words() { return shared_at<int>(kShared.words); }

  // visit(quad, its first entry) for the entries of the warp, by all of its lanes; minus infinity behind the
  // last.
  template <class Visit>
  void for_quads(const Visit& visit) const {
    int entry = begin_ + lane_id() * 4;
    Quad next;
    if (entry < end_) next = entries_.quad(entry);
#pragma unroll 1
    for (int first = begin_; first < end_; first += kWarpEntries, entry += kWarpEntries) {
      Quad quad = next;
      if (entry + kWarpEntries < end_) next = entries_.quad(entry + kWarpEntries);
      if (entry + 3 >= end_) {
#pragma unroll
        for (int i = 0; i < 4; ++i) quad.logit[i] = entry + i < end_ ? quad.logit[i] : minus_infinity();
      }
      visit(quad, entry);
    }
  }
  // visit(one) for those that are listed.
  template <class Visit>
  void for_listed(const Visit& visit) const {
    const int count = words()[kWordListed];
#pragma unroll 1
    for (int i = thread_id(); i < count; i += kThreads) visit(list()[i]);
  }

  // ---- The least rank that is selected: a span of ranks in which it lies becomes ever narrower. ----

  void find_least() {
    const int top_k = static_cast<int>(args_.top_k);
    span_ = {kLeastRank, 0 - kLeastRank};
    inside_ = wanted_ = top_k;
    bool is_listed = entries_.count() <= top_k;
    if (is_listed) list_entries();
#pragma unroll 1
    for (int round = 0; !is_listed || inside_ > wanted_; ++round) {
      if (is_listed && inside_ <= kFew) {
        span_.least = least_of_few();
        return;
      }
      int* bins = histogram(round);
      if (round > 1) {
        for (int i = thread_id(); i < kBins; i += kThreads) bins[i] = 0;
        ptx::block_sync();
      }
      if (round == 0)
        count_logits(bins);
      else if (is_listed)
        for_listed([&](const Listed& one) { count_rank(bins, one.key, one.entry); });
      else
        count_ranks(bins);
      const ReachedBin reached = reach(round, wanted_);
      if (reached.bin < 0) {
        // There are no more than wanted.
        inside_ = wanted_;
      } else {
        span_ = round == 0
                    ? Span{least_rank(reached.bin), least_rank(reached.bin + 1) - least_rank(reached.bin)}
                    : span_.narrowed(reached.bin);
        inside_ = reached.inside;
        wanted_ -= reached.above;
      }
      if (!is_listed && top_k - wanted_ + inside_ <= kListed) {
        list_entries();
        is_listed = true;
      }
    }
  }

  void count_logits(int* bins) const {
    int zeros = 0;  // which often come in floods
    for_quads([&](const Quad& quad, int) {
      bool are_finite = true;
#pragma unroll
      for (int i = 0; i < 4; ++i) are_finite &= fabsf(quad.logit[i]) < infinity();
      u32 keys[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) keys[i] = finite_key_of(quad.logit[i]);
      if (!are_finite) {
#pragma unroll
        for (int i = 0; i < 4; ++i) keys[i] = key_of(quad.logit[i]);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int bin = bin_of(keys[i]);
        zeros += bin == kZeroBin;
        if (bin != kZeroBin && (are_finite || keys[i] != kNoKey)) ptx::add_shared(bins + bin, 1);
      }
    });
    zeros = ptx::warp_sum(zeros);
    if (lane_id() == 0 && zeros > 0) ptx::add_shared(bins + kZeroBin, zeros);
  }

  // In the span, where too many are to be listed.
  void count_ranks(int* bins) const {
    for_quads([&](const Quad& quad, int entry) {
#pragma unroll
      for (int i = 0; i < 4; ++i) count_rank(bins, key_of(quad.logit[i]), entry + i);
    });
  }
  void count_rank(int* bins, u32 key, int entry) const {
    const u64 at = rank_of(key, entry) - span_.least;
    if (at <= span_.width - 1) ptx::add_shared(bins + static_cast<int>(at >> span_.shift()), 1);
  }

  // All of the block from the least rank on, in any order.
  void list_entries() const {
    const float least = least_logit(span_.least);
    // Some of the least logit may not be among them; and all compare so with what is no number.
    const bool is_by_rank = static_cast<u32>(span_.least) != 0 || !(least == least);
    for_quads([&](const Quad& quad, int entry) {
      bool reaches[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) reaches[i] = !(quad.logit[i] < least);
      if (ptx::ballot(reaches[0] || reaches[1] || reaches[2] || reaches[3]) == 0) return;
      if (is_by_rank) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          reaches[i] = reaches[i] && rank_of(key_of(quad.logit[i]), entry + i) >= span_.least;
      }
      u32 lanes[4];
      int count = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        lanes[i] = ptx::ballot(reaches[i]);
        count += ptx::population(lanes[i]);
      }
      int at = 0;
      if (lane_id() == 0) at = ptx::fetch_add_shared(words() + kWordListed, count);
      at = ptx::shuffle(at, 0);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (reaches[i])
          list()[at + ptx::population(lanes[i] & lanes_below())] = {key_of(quad.logit[i]), entry + i};
        at += ptx::population(lanes[i]);
      }
    });
    ptx::block_sync();
  }

  // By comparing each with each.
  u64 least_of_few() const {
    u64* few = shared_at<u64>(kShared.few);
    int* count = words() + kWordFew;
    for_listed([&](const Listed& one) {
      const u64 rank = rank_of(one.key, one.entry);
      if (rank - span_.least <= span_.width - 1) few[ptx::fetch_add_shared(count, 1)] = rank;
    });
    cluster_.sync();
    u64* found = few + kFew;
    if (warp_id() == 0) {
      const int of_part = lane_id() < cluster_.parts() ? cluster_.word_of(count, lane_id()) : 0;
      const int through = warp_prefix(of_part);
      // The part that has the lane's entry: lower ones have fewer than so many.
      int part = 0;
#pragma unroll 1
      for (int i = 0; i < kMostParts; ++i) part += ptx::shuffle(through, i) <= lane_id();
      const int through_lower = ptx::shuffle(through, max(part - 1, 0));
      const int before = part == 0 ? 0 : through_lower;
      const u64 own = lane_id() < inside_ ? cluster_.rank_of(few + (lane_id() - before), part) : 0;
      int better = 0;
#pragma unroll 1
      for (int i = 0; i < inside_; ++i) better += ptx::shuffle(own, i) > own;
      if (lane_id() < inside_ && better == wanted_ - 1) *found = own;
    }
    ptx::block_sync();
    return *found;
  }

  // What all blocks have counted.
  ReachedBin reach(int round, int wanted) {
    constexpr int kGroups = 32, kOfGroup = kBins / kGroups;
    static_assert(kOfGroup == 64, "two bins a lane");
    const int* bins = histogram(round);
    int* coarse = words() + kWordCoarse + round % 2 * kGroups;
    int* reached = words() + kWordReached;
    ptx::block_sync();
#pragma unroll
    for (int group = warp_id(); group < kGroups; group += kWarps) {
      const int* of_lane = bins + group * kOfGroup + 2 * lane_id();
      const int of_group = ptx::warp_sum(of_lane[0] + of_lane[1]);
      if (lane_id() == 0) coarse[group] = of_group;
    }
    cluster_.sync();
    if (warp_id() == 0) {
      // From the top: a group of bins a lane, then two bins of the group in which it is reached.
      const int sum = cluster_.sum(coarse + kGroups - 1 - lane_id());
      const int through = warp_prefix(sum), total = ptx::shuffle(through, 31);
      if (total <= wanted) {
        if (lane_id() == 0) {
          reached[0] = -1;
          reached[1] = total;
          reached[2] = 0;
        }
      } else {
        const int group = first_lane(ptx::ballot(through >= wanted));
        const int high = kBins - 1 - group * kOfGroup - 2 * lane_id();
        const ptx::Pair of_bins = cluster_.sum_of_pair(bins + high - 1);
        const int two = of_bins.first + of_bins.second;
        const int through_two = ptx::shuffle(through - sum, group) + warp_prefix(two);
        const int before = through_two - two;
        if (lane_id() == first_lane(ptx::ballot(through_two >= wanted))) {
          const bool is_lower = before + of_bins.second < wanted;
          reached[0] = is_lower ? high - 1 : high;
          reached[1] = is_lower ? before + of_bins.second : before;
          reached[2] = is_lower ? of_bins.first : of_bins.second;
        }
      }
    }
    ptx::block_sync();
    return {reached[0], reached[1], reached[2]};
  }

  // ---- The result. ----

  bool is_selected(const Listed& one) const { return rank_of(one.key, one.entry) >= span_.least; }

  // How many entries are selected, of lower blocks and of all, and those of the first window: a bit each.
  void count_selected() {
    int selected = 0;
    for_listed([&](const Listed& one) { selected += is_selected(one); });
    mark_selected(first_);
    selected = ptx::warp_sum(selected);
    if (lane_id() == 0 && selected > 0) ptx::add_shared(words() + kWordTotal, selected);
    cluster_.sync();
    const int of_part = lane_id() < cluster_.parts() ? cluster_.word_of(words() + kWordTotal, lane_id()) : 0;
    before_ = ptx::warp_sum(lane_id() < part_ ? of_part : 0);
    total_ = ptx::warp_sum(of_part);
    cluster_.arrive();
  }
  void mark_selected(int window) const {
    int* bits = shared_at<int>(kShared.bits);
    for_listed([&](const Listed& one) {
      const int at = one.entry - window;
      if (is_in_window(at) && is_selected(one)) ptx::or_shared(bits + at / 32, 1u << at % 32);
    });
  }
  static bool is_in_window(int at) { return static_cast<u32>(at) < static_cast<u32>(kSelectWindow); }

  // An entry's place is how many lie before it: in the windows before, and in its own.
  void put_selected() {
    int* bits = shared_at<int>(kShared.bits);
    auto* before = shared_at<unsigned short>(kShared.before);  // each word
    const int last = min(first_ + of_block_, entries_.count());
#pragma unroll 1
    for (int window = first_; window < last; window += static_cast<int>(kSelectWindow)) {
      const int bit_words = (min(last - window, static_cast<int>(kSelectWindow)) + 31) / 32;
      if (window > first_) {
        ptx::block_sync();
        for (int i = thread_id(); i < bit_words; i += kThreads) bits[i] = 0;
        ptx::block_sync();
        mark_selected(window);
        ptx::block_sync();
      }
      const int of_thread = (bit_words + kThreads - 1) / kThreads;
      const int begin = thread_id() * of_thread, end = min(begin + of_thread, bit_words);
      int count = 0;
#pragma unroll 1
      for (int i = begin; i < end; ++i) count += ptx::population(bits[i]);
      const Prefix prefix = block_prefix<kThreads>(count, words() + kWordSelected);
      count = prefix.before;
#pragma unroll 1
      for (int i = begin; i < end; ++i) {
        before[i] = static_cast<unsigned short>(count);
        count += ptx::population(bits[i]);
      }
      ptx::block_sync();
      for_listed([&](const Listed& one) {
        const int at = one.entry - window;
        if (!is_in_window(at) || !is_selected(one)) return;
        put(before_ + before[at / 32] +
                ptx::population(static_cast<u32>(bits[at / 32]) & ((1u << at % 32) - 1)),
            logit_of(one.key), entries_.index(one.entry));
      });
      before_ += prefix.total;
    }
    if (part_ > 0) return;
#pragma unroll 1
    for (int at = total_ + thread_id(); at < args_.top_k; at += kThreads) put(at, minus_infinity(), -1);
  }

  void put(int place, float logit, int index) const {
    if (args_.slot_values) {
      const i64 to = (row_ * args_.slot_row_step + args_.first_slot + slice_) * args_.top_k + place;
      args_.slot_values[to] = logit;
      args_.slot_indices[to] = index;
      return;
    }
    if (args_.is_physical && index >= 0) {
      const int* numbers = args_.source.page_table + row_ * args_.source.table_stride;
      index = numbers[index / kPageTokens] * kPageTokens + index % kPageTokens;
    }
    const i64 to = row_ * args_.top_k + place;
    if (args_.scores) args_.scores[to] = logit;
    args_.indices[to] = index;
  }

  const IndexerSelectArguments& args_;
  const Cluster cluster_;
  const Entries entries_;
  const int part_;
  const int row_;
  const int slice_;
  int of_block_;  // entries
  int first_;     // of the block's
  int begin_;     // of the warp's
  int end_;
  Span span_;
  int inside_;  // entries in the span
  int wanted_;  // of them
  int before_;  // entries that are selected, of lower blocks and windows
  int total_;   // of all
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    indexer_select(const __grid_constant__ IndexerSelectArguments args) {
  // Parts are a power of two.
  const int parts = static_cast<int>(args.parts), slices = static_cast<int>(args.slices);
  const int part = static_cast<int>(blockIdx.x) & (parts - 1);
  const int block = static_cast<int>(blockIdx.x) >> ptx::population(parts - 1);
  if (!kHasClusters && part > 0) return;
  const int row = slices == 1 ? block : block / slices;
  // What was there before the launch that scored.
  Selection selection(args, part, row, block - row * slices);
  Selection::clear();
  ptx::wait_for_last_launch();
  selection.run();
}

}  // namespace moeplan
