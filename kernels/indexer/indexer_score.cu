// indexer_score: the logits of a chunk of tokens,
//
//   logit[r, t] = scale[t] * sum over heads h of weights[r, h] * max(0, sum over d of q[r, h, d] * k[t, d])
//
// A block takes a share of all live pages of all groups of rows that read the same pages, two pages a step:
// ROWS rows of a group at a time. Its warps divide a page's tokens, or the rows, or the halves of 64 heads;
// each keeps the heads it multiplies in registers. Tokens are the rows of a matrix multiplication (16 at a
// time), heads its columns (8), so that a thread sums the heads of two tokens. A token without a page has
// minus infinity.
#include "kernels/indexer/arguments.hpp"
#include "kernels/indexer/order.cuh"
#include "kernels/indexer/pages.cuh"
#include "kernels/indexer/selection.cuh"
#include "planner/indexer/kernel_geometry.hpp"

namespace moeplan {
namespace {

constexpr ScoreTile kTile{HEADS, ROWS};
constexpr ScoreShared kShared = score_shared(kTile);
constexpr int kThreads = static_cast<int>(kScoreThreads);
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");
static_assert(kShared.bytes == SHARED_BYTES, "host and device disagree about shared memory");

constexpr int kRows = ROWS;
constexpr int kStages = static_cast<int>(kScoreStages);
constexpr int kPages = static_cast<int>(kStepPages);
constexpr int kPageTokens = static_cast<int>(kKernelPageSize);

// A warp's unit: a row, or half the heads of one; the warps of a unit divide the tokens of a page.
constexpr int kUnits = static_cast<int>(score_units(kTile));
constexpr int kHalves = kUnits / kRows;
constexpr int kSlices = static_cast<int>(kScoreWarps) / kUnits;
static_assert(kSlices >= 1, "more rows and heads than warps");
constexpr int kHeadTiles = HEADS / kHalves / 8;
constexpr int kTokenTiles = kPageTokens / kSlices / 16;

// Words of shared memory beside those of block-wide functions.
constexpr int kWordMapped = 40;  // which of a stage's pages are there, a bit each

// Multiplications of 16 elements each in which a warp multiplies keys by heads, or of 32 where tensor cores
// take e4m3 numbers.
constexpr int kMultiplications = MOEPLAN_NATIVE_E4M3 ? 4 : 8;

// The heads of a unit as right operands, with their weights: columns 2 * (lane % 4) and the next.
struct Heads {
  u32 q[kHeadTiles][kMultiplications][2];
  float weights[kHeadTiles][2];
};

inline void load_heads(Heads& heads, const IndexerScoreArguments& args, int first_row) {
  const int unit = warp_id() % kUnits;
  const i64 row = min_of(first_row + unit / kHalves, args.source.rows - 1);
  const i64 head = row * HEADS + unit % kHalves * (HEADS / kHalves);
#pragma unroll
  for (int tile = 0; tile < kHeadTiles; ++tile) {
    const unsigned char* q = args.q + (head + tile * 8 + lane_id() / 4) * kKeyElements + lane_id() % 4 * 4;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const u32 bytes = *reinterpret_cast<const u32*>(q + step * 32 + half * 16);
#if MOEPLAN_NATIVE_E4M3
        heads.q[tile][step][half] = bytes;
#else
        heads.q[tile][2 * step + half][0] = ptx::halves_of_e4m3(bytes);
        heads.q[tile][2 * step + half][1] = ptx::halves_of_e4m3(bytes >> 16);
#endif
      }
    }
    const float* weights = args.weights + head + tile * 8 + lane_id() % 4 * 2;
    heads.weights[tile][0] = weights[0];
    heads.weights[tile][1] = weights[1];
  }
}

// ---- Pages on their way to shared memory. ----

// Pages of a step: of one group alone. `left`: of the share.
inline int step_pages(const Place& place, int left) {
  return min(min(place.pages - place.page, left), kPages);
}

class Loader {
 public:
  Loader(const IndexerSource& source, const Groups& groups, const Share& share, unsigned char* shared)
      : source_(source), groups_(groups), shared_(shared), place_(share.begin), left_(share.count) {
    numbers_ = page_numbers(source_, groups_.first_row(place_.group));
    look_ahead();
    const int token = thread_id() / 8;
    to_ = token * 128 + (thread_id() % 8 ^ token % 8) * 16;
  }

  // Starts the next step's pages into a stage, if there are any.
  void start(int stage) {
    if (left_ > 0) {
      int mapped = 0;
#pragma unroll
      for (int i = 0; i < kPages; ++i) {
        if (number_[i] < 0) continue;
        copy(shared_ + kShared.stages + (stage * kPages + i) * kPageBytes,
             source_.is_gathered ? place_.page + i : number_[i]);
        mapped |= 1 << i;
      }
      if (thread_id() == 0) reinterpret_cast<int*>(shared_ + kShared.words)[kWordMapped + stage] = mapped;
      const int pages = step_pages(place_, left_);
      place_.page += pages;
      left_ -= pages;
      if (left_ > 0) {
        if (place_.page == place_.pages) {
          place_ = groups_.next(place_.group);
          numbers_ = page_numbers(source_, groups_.first_row(place_.group));
        }
        look_ahead();
      }
    }
    ptx::commit_copies();
  }

 private:
  // The numbers of the next step's pages are on their way while others are multiplied.
  void look_ahead() {
    const int pages = step_pages(place_, left_);
#pragma unroll
    for (int i = 0; i < kPages; ++i) number_[i] = i < pages ? numbers_[place_.page + i] : -1;
  }

  // A run of threads copies 16 tokens; the next run's lie as far on in both places.
  void copy(unsigned char* stage, i64 page) const {
    constexpr int kRun = kThreads * 16;
    const unsigned char* quants = source_.quants + page * source_.quant_stride + thread_id() * 16;
#pragma unroll
    for (int i = 0; i < kPageKeyBytes / kRun; ++i)
      ptx::copy_async(stage + to_ + i * kRun, quants + i * kRun, 16);
    if (thread_id() < kPageScaleBytes / 16)
      ptx::copy_async(stage + kPageKeyBytes + thread_id() * 16,
                      source_.scales + page * source_.scale_stride + thread_id() * 16, 16);
  }

  const IndexerSource& source_;
  const Groups& groups_;
  unsigned char* shared_;
  Place place_;
  const int* numbers_;
  int number_[kPages];
  int left_;
  int to_;
};

// ---- A page times the heads of the warp's unit. ----

// Adds 16 tokens times all heads; `keys`: the lane's row of them, for ldmatrix.
inline void multiply(float (&sums)[kHeadTiles][4], const unsigned char* keys, const Heads& heads) {
  const int swizzle = lane_id() % 8, second = lane_id() / 16;
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    u32 k[4];
    ptx::load_matrices(k, keys + ((2 * step + second) ^ swizzle) * 16);
#if MOEPLAN_NATIVE_E4M3
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile)
      ptx::multiply_add_e4m3(sums[tile], k, heads.q[tile][step][0], heads.q[tile][step][1]);
#else
    // Two of the four bytes of a register stand where the others do in the heads: the order of the 16
    // elements that are summed does not matter.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 top = k[2 * half], bottom = k[2 * half + 1];
      const u32 a[4] = {ptx::halves_of_e4m3(top), ptx::halves_of_e4m3(bottom), ptx::halves_of_e4m3(top >> 16),
                        ptx::halves_of_e4m3(bottom >> 16)};
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile)
        ptx::multiply_add(sums[tile], a, heads.q[tile][2 * step + half][0],
                          heads.q[tile][2 * step + half][1]);
    }
#endif
  }
}

// The scores of a page for the warp's unit and tokens.
inline void score_page(float* scores, const unsigned char* stage, const Heads& heads) {
  const int unit = warp_id() % kUnits, first_token = warp_id() / kUnits * (kPageTokens / kSlices);
  const int row = first_token + lane_id() % 16;
#pragma unroll
  for (int tile = 0; tile < kTokenTiles; ++tile) {
    float sums[kHeadTiles][4] = {};
    multiply(sums, stage + (row + tile * 16) * 128, heads);
    float first = 0, second = 0;  // tokens lane / 4 and the one 8 behind it
#pragma unroll
    for (int h = 0; h < kHeadTiles; ++h) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        first += heads.weights[h][i] * fmaxf(sums[h][i], 0.0f);
        second += heads.weights[h][i] * fmaxf(sums[h][2 + i], 0.0f);
      }
    }
    // Of the four lanes that hold heads of the same tokens, even ones sum the first, odd ones the second.
    const bool is_odd = lane_id() % 2 == 1;
    float sum = (is_odd ? second : first) + ptx::shuffle_xor(is_odd ? first : second, 1);
    sum += ptx::shuffle_xor(sum, 2);
    const int token = first_token + tile * 16 + lane_id() / 4 + (is_odd ? 8 : 0);
    if (lane_id() % 4 < 2)
      scores[unit * kPageTokens + token] = sum * reinterpret_cast<const float*>(stage + kPageKeyBytes)[token];
  }
}

inline float score_of(const float* scores, int row, int token) {
  float score = scores[row * kHalves * kPageTokens + token];
#pragma unroll
  for (int half = 1; half < kHalves; ++half) score += scores[(row * kHalves + half) * kPageTokens + token];
  return score;
}

// ---- What becomes of a page's scores. ----

// Where a thread stores logits: one token of every step, for each row of the group.
class Logits {
 public:
  void enter(const IndexerScoreArguments& args, const Groups& groups, int group) {
    const int first_row = groups.first_row(group), rows = groups.rows(group);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      live_[row] = row < rows ? groups.live_tokens(first_row + row) : 0;
      to_[row] = args.logits + (first_row + row) * args.logits_stride + thread_id();
    }
  }

  // Of the pages from `page` on; `mapped`: those that are there.
  void store(const float* scores, int page, int pages, int mapped) const {
    const int in_step = thread_id() / kPageTokens, first = page * kPageTokens;
    if (in_step >= pages) return;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      if (first + thread_id() >= live_[row]) continue;
      to_[row][first] = mapped >> in_step & 1 ? score_of(scores + in_step * kUnits * kPageTokens, row,
                                                         thread_id() % kPageTokens)
                                              : minus_infinity();
    }
  }

 private:
  static_assert(kPages * kPageTokens == kThreads, "a thread stores a token of a step");
  int live_[kRows];
  float* to_[kRows];
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kScoreBlocksPerSm)
    indexer_score(const __grid_constant__ IndexerScoreArguments args) {
  unsigned char* shared = ptx::dynamic_shared();
  int* words = reinterpret_cast<int*>(shared + kShared.words);
  const Groups groups(args.source, kRows);
  const Share share =
      find_share<kThreads>(groups, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), words);
  if (share.count == 0) return;

  Loader loader(args.source, groups, share, shared);
  Logits logits;
  Heads heads;
  Place place = share.begin;
  int group = -1;             // whose heads are loaded
  int pages = 0, mapped = 0;  // of the step before
  int left = share.count;
  // The first steps start pages alone.
#pragma unroll 1
  for (int step = 1 - kStages, stage = 0;; ++step) {
    if (step >= 0) {
      ptx::wait_copies<kStages - 2>();
      ptx::block_sync();
    }
    loader.start(step < 0 ? step + kStages - 1 : stage == 0 ? kStages - 1 : stage - 1);
    if (step < 0) continue;
    float* scores = reinterpret_cast<float*>(shared + kShared.scores);
    constexpr int kStepScores = kPages * kUnits * kPageTokens;
    if (step > 0) {
      logits.store(scores + (step - 1) % 2 * kStepScores, place.page, pages, mapped);
      place.page += pages;
      left -= pages;
      if (left == 0) break;
      if (place.page == place.pages) place = groups.next(place.group);
    }
    if (place.group != group) {
      group = place.group;
      logits.enter(args, groups, group);
      load_heads(heads, args, groups.first_row(group));
    }
    pages = step_pages(place, left);
    mapped = words[kWordMapped + stage];
#pragma unroll
    for (int i = 0; i < kPages; ++i) {
      if (i == pages) break;
      score_page(scores + step % 2 * kStepScores + i * kUnits * kPageTokens,
                 shared + kShared.stages + (stage * kPages + i) * kPageBytes, heads);
    }
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
  ptx::wait_copies<0>();
}

}  // namespace moeplan
