// indexer_fused: the top_k best tokens of every row in one launch: by logit, of equal ones those with the
// lowest indices, in ascending order.
//
// Blocks score their shares of all pages (kernels/indexer/score_pages.cuh). Then they select together, in
// rounds of two barriers: each adds its logits to a histogram of the row; every block of the row finds the
// bin in which the top_k-th best lies; what lies above is selected, what lies in it is a candidate.
// Candidates are listed and ranked, or, where they are too many, counted in narrower bins in a next round.
#include "kernels/indexer/score_pages.cuh"

namespace moeplan {
namespace {

constexpr int kBins = static_cast<int>(kFusedBins);
constexpr int kCandidates = static_cast<int>(kFusedCandidates);
constexpr int kMostRows = static_cast<int>(kFusedRows);
constexpr int kBatch = 4;     // rows whose histograms a block makes at a time
constexpr int kRanked = 2;    // rows whose candidates are ranked at a time
constexpr int kHeld = 10240;  // logits of a block that are held in shared memory while it selects
static_assert(kBatch <= kWarps && 2 * kRanked <= kWarps, "a warp a row, or two");
static_assert(kBins % 64 == 0, "lanes share the bins, two at a time");

// The rank below which nothing is an entry: those of tokens without a page.
constexpr u64 kLeastRank = u64{1} << 32;

// ---- Bins: a sign, an exponent from 2^-16 to 2^16 and the top bits of the mantissa. What is outside is in
// the last bin of its side. ----

constexpr int kHalfBins = kBins / 2;
constexpr int kMantissaBits = 5;
constexpr int kBinShift = 23 - kMantissaBits;
constexpr int kLeastBin = (127 - 16) << kMantissaBits;  // of a float's bits, shifted
static_assert(kHalfBins == 32 << kMantissaBits, "bins of 32 powers of two");

inline int bin_of(u32 key) {
  const bool is_positive = key >> 31;
  const int bits = static_cast<int>(((is_positive ? key : ~key) & 0x7FFFFFFFu) >> kBinShift) - kLeastBin;
  const int bin = min(max(bits, 0), kHalfBins - 1);
  return is_positive ? kHalfBins + bin : kHalfBins - 1 - bin;
}
// The least rank in a bin; of kBins, the one behind all.
inline u64 least_rank(int bin) {
  if (bin == 0) return kLeastRank;
  if (bin == kBins) return 0;
  if (bin == kHalfBins) return u64{0x80000000u} << 32;
  if (bin > kHalfBins)
    return u64{static_cast<u32>(bin - kHalfBins + kLeastBin) << kBinShift | 0x80000000u} << 32;
  // Of a negative number: the largest in the bin.
  const u32 largest = (static_cast<u32>(kHalfBins - bin + kLeastBin) << kBinShift) - 1;
  return u64{0x7FFFFFFFu - largest} << 32;
}

// No logit of a rank from `least` on is less.
inline float least_logit(u64 least) {
  return least == kLeastRank ? least_finite() : logit_of(static_cast<u32>(least >> 32));
}

// By how much ranks of a span are shifted to be bins.
inline int shift_of(u64 span) {
  constexpr int kBinBits = 11;
  static_assert(kBins == 1 << kBinBits);
  const int bits = 64 - ptx::leading_zeros(span - 1);
  return bits > kBinBits ? bits - kBinBits : 0;
}

// ---- What a block knows of its rows while it selects. In shared memory, in place of keys and queries. ----

struct RowState {
  int row;
  int page;             // the first that the block has scored
  int pages;            // how many
  int live;             // tokens of the row
  int block;            // the block's number among the row's
  const float* logits;  // of the block's pages
  // The entries that may be the last that is wanted: ranks in [least, least + span); those above are wanted.
  u64 least;
  u64 span;
  u64 threshold;  // entries from here on are selected
  int wanted;     // of the span
  int inside;     // how many entries are there
  int above;      // entries that are selected for sure
  int own_above;  // and of this block
  int own_inside;
  int before;    // of blocks before this one, entries that are selected
  bool is_open;  // inside are too many
  bool is_listed;
};

struct SelectionShared {
  RowState rows[kMostRows];
  int row_count;
  int warp_counts[kMostRows][kWarps];
  alignas(16) float logits[kHeld];
  union alignas(16) {
    int histograms[kBatch][kBins];
    u64 own_candidates[kBatch][kCandidates];
    struct {
      int bins[kRanked][kBins];
      u64 candidates[kRanked][kCandidates];
      u64 few[kRanked][kCandidates];
    } ranking;
  };
};
static_assert(sizeof(SelectionShared) <= kShared.words, "a selection has the room of keys and queries");

inline void clear(int* words, int count) {
#pragma unroll 1
  for (int i = thread_id(); i < count / 4; i += kThreads) reinterpret_cast<ptx::Words*>(words)[i] = {};
}

inline int first_lane(u32 lanes) { return ptx::population((lanes & (0u - lanes)) - 1); }
// As `reach` finds it, by all lanes of a warp; where there are no more than wanted, all lie above bin -1.
inline ReachedBin warp_reach(const int* bins, int wanted) {
  constexpr int kLaneBins = kBins / 32;
  const int top = kBins - 1 - lane_id() * kLaneBins;  // the lane's highest bin
  int sum = 0;
#pragma unroll 8
  for (int i = 0; i < kLaneBins; ++i) sum += bins[top - (i + lane_id()) % kLaneBins];
  const int through = warp_prefix(sum), total = ptx::shuffle(through, 31);
  if (total <= wanted) return {-1, total, 0};
  const int first = first_lane(ptx::ballot(through >= wanted));
  const int high = kBins - 1 - first * kLaneBins - 2 * lane_id();  // two of its bins a lane
  const int two = bins[high] + bins[high - 1];
  const int through_two = ptx::shuffle(through - sum, first) + warp_prefix(two);
  const int second = first_lane(ptx::ballot(through_two >= wanted));
  const bool is_lower = through_two - two + bins[high] < wanted;
  const int bin = ptx::shuffle(is_lower ? high - 1 : high, second);
  const int above = ptx::shuffle(is_lower ? through_two - two + bins[high] : through_two - two, second);
  return {bin, above, bins[bin]};
}

// The ranks of a bin of a span.
inline void narrow(u64& least, u64& span, int bin) {
  const int shift = shift_of(span);
  const u64 begin = u64{static_cast<u32>(bin)} << shift, rest = span - begin;
  least += begin;
  span = rest < u64{1} << shift ? rest : u64{1} << shift;
}

// The worst candidate that is wanted: of those in the bin in which it lies, by comparing each with each.
inline u64 last_candidate(const RowState& row, const int* bins, const u64* candidates, u64* few) {
  const ReachedBin reached = warp_reach(bins, row.wanted);
  u64 least = row.least, span = row.span;
  narrow(least, span, reached.bin);  // some are not wanted, so there is one
  int count = 0;
#pragma unroll 1
  for (int first = 0; first < row.inside; first += 32) {
    const u64 candidate = first + lane_id() < row.inside ? candidates[first + lane_id()] : 0;
    const bool is_inside = first + lane_id() < row.inside && candidate - least < span;
    const u32 lanes = ptx::ballot(is_inside);
    if (is_inside) few[count + ptx::population(lanes & lanes_below())] = candidate;
    count += ptx::population(lanes);
  }
  ptx::warp_sync();
  const int wanted = row.wanted - reached.above;
#pragma unroll 1
  for (int first = 0;; first += 32) {
    const u64 own = first + lane_id() < count ? few[first + lane_id()] : 0;
    int better = 0;
#pragma unroll 1
    for (int i = 0; i < count; ++i) better += few[i] > own;
    const u32 found = ptx::ballot(first + lane_id() < count && better == wanted - 1);
    if (found != 0) return few[first + first_lane(found)];
  }
}

// Of two tokens that follow each other.
struct alignas(8) LogitPair {
  float logits[2];
};
// Pages of a row here, every `stride`-th: visit(two logits of the lane, token of the first) by all lanes of a
// warp; a token that is none has minus infinity.
template <class Visit>
inline void for_pages(const RowState& row, int first, int end, int stride, const Visit& visit) {
  const float* at = row.logits + first * kPageTokens + 2 * lane_id();
  const int live = row.live;
  int token = (row.page + first) * kPageTokens + 2 * lane_id();
#pragma unroll 2
  for (int page = first; page < end; page += stride) {
    LogitPair pair = *reinterpret_cast<const LogitPair*>(at);
    if (token + 1 >= live) {
      pair.logits[1] = minus_infinity();
      if (token >= live) pair.logits[0] = minus_infinity();
    }
    visit(pair, token);
    at += stride * kPageTokens;
    token += stride * kPageTokens;
  }
}
// visit(key, token) for those from a logit `least` on, by any lanes.
template <class Visit>
inline void for_best(const RowState& row, float least, const Visit& visit) {
  for_pages(row, warp_id(), row.pages, kWarps, [&](const LogitPair& pair, int token) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (!(pair.logits[i] < least)) visit(key_of(pair.logits[i]), token + i);
    }
  });
}

// ---- The launch. ----

class Fused {
 public:
  explicit Fused(const IndexerFusedArguments& args) : args_(args) {}

  void run() {
    {
      const Groups groups(args_.score.source, kRows);
      const Share share = find_share<kThreads>(groups, block(), static_cast<int>(gridDim.x), words());
      pad_rows_without_pages(groups);
      // A launch that never waited would end before the one ahead of it.
      if (share.count == 0) return ptx::wait_for_last_launch();
      score_share(args_.score, share);
    }
    find_rows();
    ptx::wait_for_last_launch();  // what blocks share is clear
    bool has_open = true;
#pragma unroll 1
    for (bool is_first = true; has_open; is_first = false) {
      count(is_first);
      sync();
      locate(is_first);
      list();
      if (block() == 0 && thread_id() == 0) *flag(round_ + 2) = 0;
      sync();
      has_open = ptx::load_current(flag(round_)) != 0;
      if (has_open) clear_histograms();
      ++round_;
    }
    rank();
    put_best();
  }

 private:
  static int block() { return static_cast<int>(blockIdx.x); }
  static int* words() { return reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.words); }
  static SelectionShared& shared() { return *reinterpret_cast<SelectionShared*>(ptx::dynamic_shared()); }

  // ---- Memory that blocks share. ----

  i64 rows() const { return args_.score.source.rows; }
  template <class T>
  T* scratch_at(i64 offset) const {
    return reinterpret_cast<T*>(args_.scratch + offset);
  }
  FusedScratch scratch() const { return fused_scratch(rows(), args_.scratch_blocks); }
  // Whether a row is open behind a round.
  int* flag(int turn) const {
    return scratch_at<int>(scratch().flags) + turn % static_cast<int>(kFusedFlags);
  }
  int* histogram(int row) const {
    return scratch_at<int>(scratch().histograms) + (round_ % 2 * static_cast<int>(rows()) + row) * kBins;
  }
  int* cursor(int row) const { return scratch_at<int>(scratch().cursors) + row; }
  int* above(int row, int of_block) const {
    return scratch_at<int>(scratch().above) + row * static_cast<int>(args_.scratch_blocks) + of_block;
  }
  u64* candidates(int row) const { return scratch_at<u64>(scratch().candidates) + row * kCandidates; }

  // The barrier of all blocks that have a share, however often rows ask for it: not that of grid_barrier.cuh,
  // which is for all blocks of a grid and a number of barriers that is known. Its count grows until the end.
  void sync() {
    ptx::block_sync();
    arrivals_ += blocks_;
    if (thread_id() == 0) {
      ptx::fetch_add(scratch_at<int>(scratch().barrier), 1);
      while (ptx::load_acquire(scratch_at<int>(scratch().barrier)) < arrivals_) {
      }
    }
    ptx::block_sync();
  }

  // ---- Selecting. ----

  // The block's rows, and what it has scored of them.
  void find_rows() {
    SelectionShared& s = shared();
    const Share share = found_share(block(), static_cast<int>(gridDim.x), words());
    blocks_ = min(share.total, static_cast<int>(gridDim.x));
    if (thread_id() == 0) {
      const Groups groups(args_.score.source, kRows);
      const PageShares shares(share.total, static_cast<int>(gridDim.x));
      int count = 0, left = share.count, first_of_group = share.first - share.begin.page;
#pragma unroll 1
      for (Place place = share.begin;; place = groups.next(place.group)) {
        const int pages = min(place.pages - place.page, left);
        const int first_row = groups.first_row(place.group);
#pragma unroll 1
        for (int row = first_row; row < first_row + groups.rows(place.group); ++row) {
          s.rows[count++] = {
              .row = row,
              .page = place.page,
              .pages = pages,
              .live = groups.live_tokens(row),
              .block = block() - shares.block_of(first_of_group),
              .logits = args_.score.logits + row * args_.score.logits_stride + place.page * kPageTokens,
              .own_above = 0,
              .own_inside = 0,
              .is_open = true,
              .is_listed = false};
        }
        left -= pages;
        if (left == 0) break;
        first_of_group += place.pages;
      }
      s.row_count = count;
    }
    ptx::block_sync();
    hold_logits();
  }
  // Takes the block's logits to shared memory, where they have room.
  static void hold_logits() {
    SelectionShared& s = shared();
    int floats = 0;
#pragma unroll 1
    for (int r = 0; r < s.row_count; ++r) {
      const int of_row = s.rows[r].pages * kPageTokens;
      if (floats + of_row > kHeld) break;
      const float* from = s.rows[r].logits;
#pragma unroll 1
      for (int i = thread_id() * 4; i < of_row; i += kThreads * 4)
        ptx::copy_async(s.logits + floats + i, from + i, 16);
      floats += of_row;
    }
    ptx::commit_copies();
    ptx::wait_copies<0>();
    ptx::block_sync();
    if (thread_id() == 0) {
      int at = 0;
#pragma unroll 1
      for (int r = 0; r < s.row_count && at < floats; ++r) {
        s.rows[r].logits = s.logits + at;
        at += s.rows[r].pages * kPageTokens;
      }
    }
    ptx::block_sync();
  }

  // Adds the logits of rows that are open to their histograms.
  void count(bool is_first) const {
    SelectionShared& s = shared();
#pragma unroll 1
    for (int batch = 0; batch < s.row_count; batch += kBatch) {
      const int rows = min(s.row_count - batch, kBatch);
      clear(&s.histograms[0][0], rows * kBins);
      ptx::block_sync();
#pragma unroll 1
      for (int r = 0; r < rows; ++r) {
        const RowState& row = s.rows[batch + r];
        if (!row.is_open) continue;
        int* bins = s.histograms[r];
        if (is_first) {
          for_best(row, least_finite(), [&](u32 key, int) { ptx::add_shared(bins + bin_of(key), 1); });
        } else {
          const u64 least = row.least, span = row.span;
          const int shift = shift_of(span);
          for_best(row, least_logit(least), [&](u32 key, int token) {
            const u64 at = rank_of(key, token) - least;
            if (at < span) ptx::add_shared(bins + static_cast<int>(at >> shift), 1);
          });
        }
      }
      ptx::block_sync();
#pragma unroll 1
      for (int i = thread_id(); i < rows * kBins; i += kThreads) {
        const int found = (&s.histograms[0][0])[i];
        if (found != 0) ptx::add_global(histogram(s.rows[batch + i / kBins].row) + i % kBins, found);
      }
      ptx::block_sync();
    }
  }
  // They are used again in the round after the next, two barriers on.
  void clear_histograms() const {
    SelectionShared& s = shared();
#pragma unroll 1
    for (int r = 0; r < s.row_count; ++r) {
      if (s.rows[r].block == 0) clear(histogram(s.rows[r].row), kBins);
    }
  }

  // Finds the bin of the last entry that is wanted, of rows that are open: a warp a row.
  void locate(bool is_first) const {
    SelectionShared& s = shared();
#pragma unroll 1
    for (int batch = 0; batch < s.row_count; batch += kBatch) {
      const int rows = min(s.row_count - batch, kBatch);
#pragma unroll 2
      for (int i = thread_id(); i < rows * (kBins / 4); i += kThreads) {
        const int r = i / (kBins / 4);
        const auto* from = reinterpret_cast<const ptx::Words*>(histogram(s.rows[batch + r].row));
        reinterpret_cast<ptx::Words*>(s.histograms[r])[i % (kBins / 4)] =
            ptx::load_current(from + i % (kBins / 4));
      }
      ptx::block_sync();
      if (warp_id() < rows && s.rows[batch + warp_id()].is_open)
        locate_row(s.rows[batch + warp_id()], s.histograms[warp_id()], is_first);
      ptx::block_sync();
    }
  }
  void locate_row(RowState& row, const int* bins, bool is_first) const {
    const int wanted = is_first ? static_cast<int>(args_.top_k) : row.wanted;
    const ReachedBin reached = warp_reach(bins, wanted);
    if (lane_id() != 0) return;
    if (!is_first) {
      narrow(row.least, row.span, reached.bin);
    } else if (reached.bin < 0) {
      row.least = kLeastRank;
      row.span = 0;
    } else {
      row.least = least_rank(reached.bin);
      row.span = least_rank(reached.bin + 1) - row.least;
    }
    row.above = (is_first ? 0 : row.above) + reached.above;
    row.wanted = reached.bin < 0 ? 0 : wanted - reached.above;
    row.inside = reached.inside;
    if (row.inside == row.wanted) {  // nothing is left to be ranked
      row.above += row.inside;
      row.span = 0;
      row.wanted = row.inside = 0;
    }
    row.is_open = row.inside > kCandidates;
    if (row.is_open) *flag(round_) = 1;
  }

  // Of rows whose last entry is among few: counts what lies above them, and lists them.
  void list() const {
    SelectionShared& s = shared();
#pragma unroll 1
    for (int batch = 0; batch < s.row_count; batch += kBatch) {
      const int rows = min(s.row_count - batch, kBatch);
#pragma unroll 1
      for (int r = 0; r < rows; ++r) {
        RowState& row = s.rows[batch + r];
        if (row.is_open || row.is_listed) continue;
        const u64 least = row.least, span = row.span;
        int above_count = 0;
        for_best(row, least_logit(least), [&](u32 key, int token) {
          const u64 rank = rank_of(key, token);
          if (rank < least) return;
          if (rank - least >= span)
            ++above_count;
          else
            s.own_candidates[r][ptx::fetch_add_shared(&row.own_inside, 1)] = rank;
        });
        above_count = ptx::warp_sum(above_count);
        if (lane_id() == 0 && above_count > 0) ptx::add_shared(&row.own_above, above_count);
      }
      ptx::block_sync();
      if (warp_id() < rows && !s.rows[batch + warp_id()].is_open && !s.rows[batch + warp_id()].is_listed) {
        RowState& row = s.rows[batch + warp_id()];
        int at = 0;
        if (lane_id() == 0) {
          *above(row.row, row.block) = row.own_above;
          if (row.own_inside > 0) at = ptx::fetch_add_unordered(cursor(row.row), row.own_inside);
        }
        at = ptx::shuffle(at, 0);
#pragma unroll 1
        for (int i = lane_id(); i < row.own_inside; i += 32)
          candidates(row.row)[at + i] = s.own_candidates[warp_id()][i];
        ptx::warp_sync();
        if (lane_id() == 0) row.is_listed = true;
      }
      ptx::block_sync();
    }
  }

  // The rank from which on entries are selected, and how many of those are in blocks before this one: a warp
  // a row ranks its candidates, another one counts.
  void rank() const {
    SelectionShared& s = shared();
    auto& ranking = s.ranking;
#pragma unroll 1
    for (int batch = 0; batch < s.row_count; batch += kRanked) {
      const int rows = min(s.row_count - batch, kRanked);
      clear(&ranking.bins[0][0], rows * kBins);
      ptx::block_sync();
#pragma unroll 1
      for (int r = 0; r < rows; ++r) {
        const RowState& row = s.rows[batch + r];
        const int shift = shift_of(row.span);
#pragma unroll 1
        for (int i = thread_id(); i < row.inside; i += kThreads) {
          const u64 candidate = ptx::load_current(candidates(row.row) + i);
          ranking.candidates[r][i] = candidate;
          ptx::add_shared(ranking.bins[r] + static_cast<int>((candidate - row.least) >> shift), 1);
        }
      }
      ptx::block_sync();
      const int member = warp_id() % kRanked;
      RowState& row = s.rows[batch + min(member, rows - 1)];
      if (warp_id() < rows) {
        const u64 found = row.inside == 0 ? row.least
                                          : last_candidate(row, ranking.bins[member],
                                                           ranking.candidates[member], ranking.few[member]);
        if (lane_id() == 0) row.threshold = found;
      } else if (warp_id() >= kRanked && warp_id() < kRanked + rows) {
        int before = 0;
#pragma unroll 4
        for (int i = lane_id(); i < row.block; i += 32) before += ptx::load_current(above(row.row, i));
        before = ptx::warp_sum(before);
        if (lane_id() == 0) row.before = before;
      }
      ptx::block_sync();
      if (warp_id() < rows) {
        int before = 0;
#pragma unroll 1
        for (int i = lane_id(); i < row.inside; i += 32) {
          const u64 candidate = ranking.candidates[member][i];
          before += candidate >= row.threshold &&
                    static_cast<int>(~static_cast<u32>(candidate)) < row.page * kPageTokens;
        }
        before = ptx::warp_sum(before);
        if (lane_id() == 0) row.before += before;
      }
      ptx::block_sync();
    }
  }

  // ---- Results. ----

  // In order: a warp's part of a row's pages follows the one of the warp before.
  void put_best() const {
    SelectionShared& s = shared();
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
#pragma unroll 1
      for (int r = 0; r < s.row_count; ++r) {
        const RowState& row = s.rows[r];
        const int begin = row.pages * warp_id() / kWarps, end = row.pages * (warp_id() + 1) / kWarps;
        int place = 0;
        if (pass > 0) {
          const int of_warp = lane_id() < warp_id() ? s.warp_counts[r][lane_id()] : 0;
          place = row.before + ptx::warp_sum(of_warp);
        }
        const u64 threshold = row.threshold;
        const float least = least_logit(threshold);
        for_pages(row, begin, end, 1, [&](const LogitPair& pair, int token) {
          bool is_selected[2];
#pragma unroll
          for (int i = 0; i < 2; ++i)
            is_selected[i] =
                !(pair.logits[i] < least) && rank_of(key_of(pair.logits[i]), token + i) >= threshold;
          const u32 first = ptx::ballot(is_selected[0]), second = ptx::ballot(is_selected[1]);
          int at = place + ptx::population(first & lanes_below()) + ptx::population(second & lanes_below());
          place += ptx::population(first) + ptx::population(second);
          if (pass == 0) return;
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            if (is_selected[i]) put(row.row, at++, logit_of(key_of(pair.logits[i])), token + i);
          }
        });
        if (pass == 0 && lane_id() == 0) s.warp_counts[r][warp_id()] = place;
        if (pass > 0 && row.block == 0) pad(row.row, row.above + row.wanted);
      }
      ptx::block_sync();
    }
  }
  void pad(int row, int from) const {
#pragma unroll 1
    for (int at = from + thread_id(); at < args_.top_k; at += kThreads) put(row, at, minus_infinity(), -1);
  }
  // Nobody's share has any of them.
  void pad_rows_without_pages(const Groups& groups) const {
#pragma unroll 1
    for (int group = block(); group < groups.count(); group += static_cast<int>(gridDim.x)) {
      if (groups.pages(group) > 0) continue;
      for (int row = 0; row < groups.rows(group); ++row) pad(groups.first_row(group) + row, 0);
    }
  }
  void put(int row, int place, float logit, int index) const {
    const IndexerSource& source = args_.score.source;
    if (args_.is_physical && index >= 0) {
      const int* numbers = source.page_table + row * source.table_stride;
      index = numbers[index / kPageTokens] * kPageTokens + index % kPageTokens;
    }
    const i64 to = row * args_.top_k + place;
    if (args_.scores) args_.scores[to] = logit;
    args_.indices[to] = index;
  }

  const IndexerFusedArguments& args_;
  int blocks_ = 0;    // that have a share
  int arrivals_ = 0;  // at which the barrier opens
  int round_ = 0;     // rounds before this one
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kScoreBlocksPerSm)
    indexer_fused(const __grid_constant__ IndexerFusedArguments args) {
  Fused(args).run();
}

}  // namespace moeplan
