// indexer_select: the top_k best tokens of a row, or of a slice of one, out of the logits of a chunk and of
// lists of earlier candidates: by logit, of equal ones those with the lowest indices, in ascending order.
//
// A cluster of blocks selects from a row: each takes a part of its entries, and each of its warps a part of
// those. They count entries in bins of logits, until few are left in the bin in which the last one lies:
// every block compares those with each other. Every entry has a rank of its own, so that no two tie. Then
// each warp knows how many are selected before its own.
//
// A call takes as long as its warps have instructions to issue, and as blocks wait for each other: an entry
// costs few instructions, a warp keeps its own in registers where they fit, and blocks meet twice.
#include "kernels/indexer/arguments.hpp"
#include "kernels/indexer/cluster.cuh"
#include "kernels/indexer/order.cuh"
#include "kernels/indexer/pages.cuh"
#include "kernels/indexer/selection.cuh"

namespace moeplan {
namespace {

constexpr SelectShared kShared = select_shared();
constexpr int kThreads = THREADS;
constexpr int kWarps = kThreads / 32;
static_assert(kShared.bytes == SHARED_BYTES, "host and device disagree about shared memory");

constexpr int kPageTokens = static_cast<int>(kKernelPageSize);
constexpr int kWarpEntries = 128;  // of a quad a lane
constexpr int kQuads = 4;          // that a lane keeps
constexpr int kRound = kQuads * kWarpEntries;
constexpr int kFew = static_cast<int>(kSelectFew);
constexpr int kKept = 4;  // of those that are compared, of a lane
constexpr int kGroups = static_cast<int>(kSelectGroups), kOfGroup = kBins / kGroups;  // of bins
constexpr int kOfLane = kOfGroup / 32;
constexpr int kClearBytes = static_cast<int>(kShared.groups - kShared.bins);
static_assert(kGroups == 32 && kOfLane == 8, "a group a lane, and eight bins of one");
static_assert(kMostTopK % kWarpEntries == 0, "lists end where a warp's quads do");

// Words of shared memory.
constexpr int kWordSelected = 0;  // entries that are selected for sure, a word a warp
constexpr int kWordReached = 32;  // a Reached
constexpr int kWordFound = 40;    // a rank
constexpr int kWordListed = 42;  // entries of the block that are listed, and those that are selected for sure
constexpr int kWordSure = 43;
constexpr int kWordTotal = 44;   // entries that are selected, of all blocks
constexpr int kWordNumber = 45;  // of the slice
constexpr int kWordPlaces = 46;  // the block's first place, and the one behind its last

struct alignas(16) Quad {
  float logit[4];
};
// One that is selected.
struct alignas(8) Selected {
  float logit;
  int entry;
};
// A row, or a slice of one. All slices of a row follow each other.
struct Slice {
  int row;
  int slice;
};
inline Slice slice_of(const IndexerSelectArguments& args, int number) {
  const int slices = static_cast<int>(args.slices);
  const int row = slices == 1 ? number : number / slices;
  return {row, number - row * slices};
}

// Entries in the order of their tokens: lists of candidates, then logits.
class Entries {
 public:
  Entries(const IndexerSelectArguments& args, const Slice& of) {
    const int row = of.row, slice = of.slice;
    const Groups rows(args.source, 1);
    if (args.logits) {
      const int first = slice * static_cast<int>(args.slice_tokens);
      logits_ = args.logits + row * args.logits_stride + first;
      tokens_ = min(max(rows.live_tokens(row) - first, 0), static_cast<int>(args.slice_tokens));
      first_token_ = static_cast<int>(args.source.begin) + first;
    }
    if (args.lists > 0) {
      list_entries_ = args.list_counts ? args.list_counts[row] : static_cast<int>(args.lists * args.top_k);
      list_values_ = args.list_values + row * args.list_stride;
      list_indices_ = args.list_indices + row * args.list_stride;
    }
  }

  int count() const { return list_entries_ + tokens_; }
  // Of a warp's quads, by their first entry: all are of lists, or none.
  const float* logits(int first) const {
    return first < list_entries_ ? list_values_ + first : logits_ + (first - list_entries_);
  }
  int index(int entry) const {
    return entry < list_entries_ ? list_indices_[entry] : entry + (first_token_ - list_entries_);
  }

 private:
  const float* logits_ = nullptr;
  int tokens_ = 0;
  int first_token_ = 0;
  const float* list_values_ = nullptr;
  const int* list_indices_ = nullptr;
  int list_entries_ = 0;
};

// Where the tokens of a slice go.
class Places {
 public:
  Places(const IndexerSelectArguments& args, const Slice& of) {
    const i64 row = of.row, slice = of.slice;
    if (args.slot_values) {
      const i64 to = (row * args.slot_row_step + args.first_slot + slice) * args.top_k;
      logits_ = args.slot_values + to;
      indices_ = args.slot_indices + to;
    } else {
      const i64 to = row * args.top_k;
      if (args.scores) logits_ = args.scores + to;
      indices_ = args.indices + to;
      if (args.is_physical) pages_ = args.source.page_table + row * args.source.table_stride;
    }
  }

  void put(int place, float logit, int index) const {
    if (pages_ && index >= 0) index = pages_[index / kPageTokens] * kPageTokens + index % kPageTokens;
    indices_[place] = index;
    if (logits_) logits_[place] = logit;
  }

 private:
  float* logits_ = nullptr;  // not wanted
  int* indices_;
  const int* pages_ = nullptr;  // indices are of tokens
};

// The span of ranks in which the count of entries from the top reaches what is wanted; how many lie above it,
// and in it.
struct alignas(16) Reached {
  Bounds bounds;
  int above;
  int inside;
  Span span;
};

class Selection {
 public:
  // `number`: of the slice.
  Selection(const IndexerSelectArguments& args, int part, int number)
      : args_(args),
        cluster_(static_cast<int>(args.parts)),
        entries_(args, slice_of(args, number)),
        part_(part) {
    // Parts and warps are powers of two.
    const int of_all = cluster_.parts() * kWarps * kWarpEntries - 1;
    const int of_warp = (entries_.count() + of_all) >> ptx::population(of_all)
                                                           << ptx::population(kWarpEntries - 1);
    begin_ = (part * kWarps + warp_id()) * of_warp;
    end_ = min(begin_ + of_warp, entries_.count());
  }

  // The slice's number is read again at last, for lack of registers.
  static void clear(int number) {
#pragma unroll
    for (int i = 0; i < kClearBytes / 16; i += kThreads)
      shared_at<ptx::Four>(kShared.bins)[i + thread_id()] = {};
    if (thread_id() == 0) {
      words()[kWordListed] = words()[kWordSure] = 0;
      words()[kWordNumber] = number;
    }
  }

  void run() {
    ptx::block_sync();
    ptx::wait_for_last_launch();
    if (args_.keeps_empty && args_.source.lengths[slice_of(args_, words()[kWordNumber]).row] == 0) return;
    find_least();
    put_selected();
    cluster_.wait();
  }

 private:
  template <class T>
  static T* shared_at(i64 offset) {
    return reinterpret_cast<T*>(ptx::dynamic_shared() + offset);
  }
  static int* bins() { return shared_at<int>(kShared.bins); }
  static int* groups() { return shared_at<int>(kShared.groups); }
  // Four bins of the group in which it is reached, as a part has counted them.
  static ptx::Four& of_group_in(int part, int bin) {
    return *reinterpret_cast<ptx::Four*>(shared_at<int>(kShared.group) + part * kOfGroup + bin);
  }
  // The same, when it is no longer read: of a warp for every part.
  static u64* spare() { return shared_at<u64>(kShared.group); }
  static u64* listed() { return shared_at<u64>(kShared.listed); }
  static int* words() { return shared_at<int>(kShared.words); }
  static u64* found() { return reinterpret_cast<u64*>(words() + kWordFound); }
  u64* few() const { return cluster_.parts() > 1 ? shared_at<u64>(kShared.few) : listed(); }

  // The lane's of the warp's quads from an entry on; minus infinity behind the last.
  void load_quads(int first) {
#pragma unroll
    for (int i = 0; i < kQuads; ++i, first += kWarpEntries) {
      if (first >= end_) break;
      const auto* quads = reinterpret_cast<const Quad*>(entries_.logits(first));
      if (first + kWarpEntries <= end_)
        quads_[i] = quads[lane_id()];
      else
        quads_[i] = last_quad(quads, end_ - first - lane_id() * 4);
    }
  }
  static Quad last_quad(const Quad* quads, int count) {
    Quad quad{minus_infinity(), minus_infinity(), minus_infinity(), minus_infinity()};
    if (count > 0) quad = quads[lane_id()];
#pragma unroll
    for (int i = 0; i < 4; ++i) quad.logit[i] = i < count ? quad.logit[i] : minus_infinity();
    return quad;
  }
  // visit(quad, first) for the entries of the warp, by all of its lanes, whose quads begin with one. Lanes
  // keep the quads of the last round, so that a pass backward behind one forward loads a round less.
  template <class Visit>
  void for_quads(const Visit& visit) {
#pragma unroll 1
    for (int first = begin_; first < end_; first += kRound) visit_round(visit, first);
  }
  template <class Visit>
  void for_quads_backward(const Visit& visit) {
    if (begin_ >= end_) return;
#pragma unroll 1
    for (int first = end_ - 1 - (end_ - 1 - begin_) % kRound; first >= begin_; first -= kRound)
      visit_round(visit, first);
  }
  template <class Visit>
  void visit_round(const Visit& visit, int first) {
    if (first != loaded_) {
      loaded_ = first;
      load_quads(first);
    }
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      if (first + i * kWarpEntries >= end_) break;
      visit(quads_[i], first + i * kWarpEntries);
    }
  }

  // ---- The least rank that is selected: a span of ranks in which it lies becomes ever narrower. ----

  void find_least() {
    span_ = {kLeastRank, 0 - kLeastRank};
    bounds_ = {least_finite(), infinity()};
    wanted_ = static_cast<int>(args_.top_k);
    inside_ = max(entries_.count(), wanted_);
#pragma unroll 1
    for (bool is_of_logits = true; inside_ > (is_of_logits ? wanted_ : max(wanted_, kFew));
         is_of_logits = false) {
      if (is_of_logits)
        count_logits();
      else
        count_ranks();
      reach(is_of_logits);
    }
    list_entries();
    if (listed_ > 0) compare_listed();
    if (args_.least_ranks && part_ == 0 && thread_id() == 0)
      args_.least_ranks[slice_of(args_, words()[kWordNumber]).row] = span_.least;
  }

  // Tokens without a page too, in the last bin of all.
  void count_logits() {
    for_quads([&](const Quad& quad, int) {
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        // Negative zero is zero.
        const u32 halves = ptx::truncated_halves_of(quad.logit[i] + 0.0f, quad.logit[i + 1] + 0.0f);
        ptx::count_shared(bins() + low_bin(halves));
        ptx::count_shared(bins() + high_bin(halves));
      }
    });
  }

  // In the span, where too many are left to compare them.
  void count_ranks() {
    cluster_.sync();
    for (int i = thread_id(); i < kBins; i += kThreads) bins()[i] = 0;
    ptx::block_sync();
    for_quads([&](const Quad& quad, int first) {
      const int entry = first + lane_id() * 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const u64 at = rank_of(key_of(quad.logit[i]), entry + i) - span_.least;
        if (at <= span_.width - 1) ptx::count_shared(bins() + static_cast<int>(at >> span_.shift()));
      }
    });
  }

  // What all blocks have counted: the bin in which it reaches what is wanted becomes the span. In bins of
  // logits there may be no more than wanted; then the span stays, and all in it are.
  void reach(bool is_of_logits) {
    auto* reached = reinterpret_cast<Reached*>(words() + kWordReached);
    ptx::block_sync();
#pragma unroll
    for (int group = warp_id(); group < kGroups; group += kWarps) {
      int of_group = 0;
#pragma unroll
      for (int i = 0; i < kOfGroup; i += 128) {
        const ptx::Four& four = reinterpret_cast<const ptx::Four*>(bins() + group * kOfGroup + i)[lane_id()];
        of_group += four.word[0] + four.word[1] + four.word[2] + four.word[3];
      }
      of_group = ptx::warp_sum(of_group);
      if (lane_id() == 0) groups()[group] = of_group;
    }
    cluster_.sync();
    // From the top: a group a lane, then the bins of the group in which it is reached, which ascend or
    // descend. A warp for every part finds the group, and fetches what the part has counted there.
    int group = 0, above = 0;
    bool is_reached = false, ascends = false;
    if (warp_id() < cluster_.parts()) {
      const int last = is_of_logits ? kGroups / 2 : kGroups;
      const int of_lane = lane_id() < last ? last - 1 - lane_id() : lane_id();
      int sum = 0;
#pragma unroll
      for (int part = 0; part < kMostParts; ++part)
        if (part < cluster_.parts()) sum += cluster_.word_of(groups() + of_lane, part);
      const int through = warp_prefix(sum);
      is_reached = ptx::ballot(through > wanted_) != 0;
      const int at = first_lane(ptx::ballot(through >= wanted_)) % 32;
      group = ptx::shuffle(of_lane, at);
      above = ptx::shuffle(through - sum, at);
      ascends = at >= last;
#pragma unroll
      for (int i = lane_id() * 4; i < kOfGroup; i += 128)
        of_group_in(warp_id(), i) = cluster_.four_of(bins() + group * kOfGroup + i, warp_id());
    }
    ptx::block_sync();
    if (warp_id() == 0) {
      const int first = kOfLane * (ascends ? lane_id() : 31 - lane_id());
      int counts[kOfLane] = {}, sum = 0;
#pragma unroll
      for (int part = 0; part < kMostParts; ++part) {
        if (part >= cluster_.parts()) continue;
#pragma unroll
        for (int i = 0; i < kOfLane; ++i) counts[i] += of_group_in(part, first + i / 4 * 4).word[i % 4];
      }
#pragma unroll
      for (int i = 0; i < kOfLane; ++i) sum += counts[i];
      above += warp_prefix(sum) - sum;
      if (!is_reached) {
        if (lane_id() == 0) *reached = {bounds_, 0, wanted_, span_};
      } else if (above < wanted_ && wanted_ <= above + sum) {
        int bin = 0, inside = 0;
#pragma unroll
        for (int i = 0; i < kOfLane; ++i) {
          if (above + inside >= wanted_) continue;
          above += inside;
          inside = ascends ? counts[i] : counts[kOfLane - 1 - i];
          bin = ascends ? i : kOfLane - 1 - i;
        }
        bin += group * kOfGroup + first;
        if (is_of_logits && bin >= kMinusInfinityBin) {
          *reached = {bounds_, 0, wanted_, span_};
        } else {
          const Span span = is_of_logits ? span_of_logits(bin) : span_.narrowed(bin);
          *reached = {is_of_logits ? Bounds::of_logits(bin, span) : Bounds::of_ranks(), above, inside, span};
        }
      }
    }
    ptx::block_sync();
    bounds_ = reached->bounds;
    wanted_ -= reached->above;
    inside_ = reached->inside;
    span_ = reached->span;
  }

  // Counts what is above the span, and lists what is in it. Where all in it are selected, they count as
  // above.
  void list_entries() {
    const bool is_open = inside_ > wanted_, is_by_rank = !(bounds_.end == bounds_.end);
    const float least = bounds_.least, end = is_open ? bounds_.end : bounds_.least;
    int sure = 0;
    for_quads_backward([&](const Quad& quad, int first) {
      const int entry = first + lane_id() * 4;
      u32 listed = 0;  // a bit each
      if (!is_by_rank) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const bool is_below_end = quad.logit[i] < end;
          sure += !is_below_end;
          if (!(quad.logit[i] < least) & is_below_end) listed |= 1u << i;
        }
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const u64 rank = rank_of(key_of(quad.logit[i]), entry + i);
          const bool is_above = is_open ? span_.end() != 0 && rank >= span_.end() : rank >= span_.least;
          sure += is_above;
          if ((rank >= span_.least) & !is_above) listed |= 1u << i;
        }
      }
      if (listed == 0) return;
      u64* to = this->listed() + ptx::fetch_add_shared(words() + kWordListed, ptx::population(listed));
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (listed >> i & 1) *to++ = rank_of(key_of(quad.logit[i]), entry + i);
    });
    sure = ptx::warp_sum(sure);
    if (lane_id() == 0) {
      words()[kWordSelected + warp_id()] = sure;
      ptx::add_shared(words() + kWordSure, sure);
    }
    cluster_.sync();
    // A warp a part gathers what is listed. Most have few, which are asked for before it is known how many.
    const int parts = cluster_.parts();
    const bool gathers = is_open && parts > 1 && warp_id() < parts;
    u64 rank = 0;
    if (gathers) rank = rank_of_part(lane_id());
    const ptx::Pair counts =
        lane_id() < parts ? cluster_.pair_of(words() + kWordListed, lane_id()) : ptx::Pair{};
    first_place_ = ptx::warp_sum(lane_id() < part_ ? counts.second : 0) +
                   ptx::warp_sum(lane_id() < warp_id() ? words()[kWordSelected + lane_id()] : 0);
    const int sure_of_all = ptx::warp_sum(counts.second);
    if (thread_id() == 0) words()[kWordTotal] = sure_of_all + (is_open ? wanted_ : 0);
    if (gathers) {
      u64* to = few() + ptx::warp_sum(lane_id() < warp_id() ? counts.first : 0);
      const int count = ptx::shuffle(counts.first, warp_id());
      // All of it is put somewhere: what is on its way when another block ends would have no source.
      *(lane_id() < count ? to + lane_id() : spare() + thread_id()) = rank;
#pragma unroll 1
      for (int i = lane_id() + 32; i < count; i += 32) to[i] = rank_of_part(i);
    }
    ptx::block_sync();
    cluster_.arrive();
    listed_ = is_open ? inside_ : 0;
  }
  // That is listed by the part of the warp's number.
  u64 rank_of_part(int at) const {
    const ptx::Pair rank = cluster_.pair_of(listed() + at, warp_id());
    return u64{static_cast<u32>(rank.second)} << 32 | static_cast<u32>(rank.first);
  }

  // Compares what is listed with each other, a warp one at a time.
  void compare_listed() {
    u64 ranks[kKept];
#pragma unroll
    for (int i = 0; i < kKept; ++i) ranks[i] = i * 32 + lane_id() < listed_ ? few()[i * 32 + lane_id()] : 0;
#pragma unroll 1
    for (int at = warp_id(); at < listed_; at += kWarps) {
      const u64 one = few()[at];
      const int better = count_listed(ranks, [&](u64 rank) { return rank > one; });
      if (better == wanted_ - 1 && lane_id() == 0) *found() = one;
    }
    ptx::block_sync();
    span_.least = *found();
    first_place_ += count_listed(ranks, [&](u64 rank) {
      return (rank >= span_.least) & (static_cast<int>(~static_cast<u32>(rank)) < begin_);
    });
  }
  // How many it is true of. `ranks`: the lane's of the first ones.
  template <class Is>
  int count_listed(const u64 (&ranks)[kKept], const Is& is) const {
    int count = 0;
#pragma unroll
    for (int i = 0; i < kKept; ++i)
      if (i * 32 < listed_) count += is(ranks[i]);
#pragma unroll 1
    for (int i = kKept * 32 + lane_id(); i < listed_; i += 32) count += is(few()[i]);
    return ptx::warp_sum(count);
  }

  // ---- The result. ----

  // Each warp brings together what it has of them, then all threads put them where they belong.
  void put_selected() {
    const Threshold threshold = Threshold::of(span_.least);
    auto* selected = shared_at<Selected>(kShared.bins);
    if (lane_id() == 0 && warp_id() == 0) words()[kWordPlaces] = first_place_;
    for_quads([&](const Quad& quad, int first) {
      const int entry = first + lane_id() * 4;
      bool is_selected[4];
      int count = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        is_selected[i] = threshold.has(quad.logit[i], entry + i);
        count += is_selected[i];
      }
      const u32 lanes = ptx::ballot(count > 0);
      if (lanes == 0) return;
      const auto put = [&](int place, int i) { selected[place] = {quad.logit[i] + 0.0f, entry + i}; };
      if (ptx::ballot(count > 1) == 0) {
        // As mostly: none of a lane's, or one.
        const int place = first_place_ + ptx::population(lanes & lanes_below());
        first_place_ += ptx::population(lanes);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (is_selected[i]) put(place, i);
        return;
      }
      int place = first_place_;
#pragma unroll
      for (int i = 0; i < 4; ++i) place += ptx::population(ptx::ballot(is_selected[i]) & lanes_below());
      first_place_ = ptx::shuffle(place + count, 31);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (is_selected[i]) put(place, i);
        place += is_selected[i];
      }
    });
    if (lane_id() == 0 && warp_id() == kWarps - 1) words()[kWordPlaces + 1] = first_place_;
    ptx::block_sync();
    const int end = words()[kWordPlaces + 1];
    const Places places(args_, slice_of(args_, words()[kWordNumber]));
#pragma unroll 1
    for (int at = words()[kWordPlaces] + thread_id(); at < end; at += kThreads)
      places.put(at, selected[at].logit, entries_.index(selected[at].entry));
    if (part_ > 0) return;
#pragma unroll 1
    for (int at = words()[kWordTotal] + thread_id(); at < args_.top_k; at += kThreads)
      places.put(at, minus_infinity(), -1);
  }

  const IndexerSelectArguments& args_;
  const Cluster cluster_;
  const Entries entries_;
  const int part_;
  int begin_;  // of the warp's entries
  int end_;
  Quad quads_[kQuads];
  int loaded_ = -1;  // their first entry
  Span span_;
  Bounds bounds_;    // the same
  int wanted_;       // entries in the span
  int inside_;       // that are there
  int listed_;       // by all blocks
  int first_place_;  // of those of the warp that are to come
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    indexer_select(const __grid_constant__ IndexerSelectArguments args) {
  // Parts are a power of two.
  const int parts = static_cast<int>(args.parts);
  const int part = static_cast<int>(blockIdx.x) & (parts - 1);
  if (!kHasClusters && part > 0) return;
  ptx::release_next_launch();
  // Lengths were there before the launch that scored; how long a list is, that before this one says.
  if (args.list_counts) ptx::wait_for_last_launch();
  const int number = static_cast<int>(blockIdx.x) >> ptx::population(parts - 1);
  Selection::clear(number);
  Selection(args, part, number).run();
}

}  // namespace moeplan
