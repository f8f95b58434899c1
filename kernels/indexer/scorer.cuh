// The logits of the tokens of a chunk:
//
//   logit[r, t] = scale[t] * sum over heads h of weights[r, h] * max(0, sum over d of q[r, h, d] * k[t, d])
//
// A block takes a share of all live pages of all groups of rows that read the same pages. Each of its warps
// streams parts of pages through a ring of its own, and multiplies a part with the heads of all rows of the
// group, which lie in shared memory as operands, or those of one row in registers. Tokens are the rows of a
// matrix multiplication (16 at a time), heads its columns (8), so that a lane sums the heads of its tokens.
// What becomes of the logits is the kernel's.
#pragma once

#include "kernels/indexer/arguments.hpp"
#include "kernels/indexer/order.cuh"
#include "kernels/indexer/pages.cuh"
#include "kernels/indexer/selection.cuh"
#include "planner/indexer/kernel_geometry.hpp"

namespace moeplan {
namespace {

constexpr ScoreTile kTile{HEADS, TOKENS, ROWS, WARPS};
constexpr ScoreShared kShared = score_shared(kTile);
static_assert(WARPS * 32 == THREADS, "host and device disagree about the threads of a block");
static_assert(kShared.bytes == SHARED_BYTES, "host and device disagree about shared memory");

constexpr int kThreads = THREADS;
constexpr int kWarps = WARPS;
constexpr int kStages = static_cast<int>(kScoreStages);
constexpr int kPageTokens = static_cast<int>(kKernelPageSize);
constexpr int kRows = ROWS;
constexpr bool kOwnsQueries = has_own_queries(kTile);
constexpr int kStepTokens = TOKENS;
constexpr int kPageSteps = kPageTokens / kStepTokens;
constexpr int kTokenTiles = kStepTokens / 16;
constexpr int kHeadTiles = HEADS / 8;
constexpr int kKeyBytes = kStepTokens * static_cast<int>(kKeyElements);  // of a step

// Multiplications in which a warp multiplies keys by heads: of 32 elements each where tensor cores take e4m3
// numbers, else of 16. Operands of two of them are loaded at a time.
constexpr int kMultiplications = MOEPLAN_NATIVE_E4M3 ? 4 : 8;
constexpr int kPairs = kMultiplications / 2;

// Pairs of tiles of heads that a loop goes through at a time: as many as there are registers for.
constexpr int kMostTilePairs = kWarps == 8 ? 1 : kRows > 1 || __CUDA_ARCH__ < 890 ? 2 : 4;

struct alignas(16) Operands {
  u32 words[4];
};

// ---- Queries: as the right operands of the lanes, [row, head tile, pair of multiplications, lane]. On their
// way they lie in shared memory as they are, the 16-byte granules of a head swizzled. ----

// By all threads; closes a group of copies. Weights come along, but those that go to registers.
template <class Arguments>
inline void start_queries(const Arguments& args, int first_row, int rows) {
  const auto in_shared = [](i64 offset) { return ptx::address_in_shared(ptx::dynamic_shared() + offset); };
  const i64 first_head = static_cast<i64>(first_row) * HEADS;
  const u32 to = in_shared(kShared.queries);
  const unsigned char* from = args.q + first_head * kKeyElements;
#pragma unroll 4
  for (u32 granule = threadIdx.x; granule < static_cast<u32>(rows) * (HEADS * 8); granule += kThreads) {
    const u32 head = granule / 8;
    ptx::copy_async(to + head * 128 + (granule % 8 ^ head % 8) * 16, from + granule * 16);
  }
  const float* weights = args.weights + first_head;
  const u32 weight_granules = kOwnsQueries ? 0 : static_cast<u32>(rows) * (HEADS / 4);
#pragma unroll 1
  for (u32 granule = threadIdx.x; granule < weight_granules; granule += kThreads)
    ptx::copy_async(in_shared(kShared.weights) + granule * 16, weights + granule * 4);
  ptx::commit_copies();
}

// What a lane has of a tile of heads in a half of their elements.
struct Half {
  u32 words[4];

  // Of a pair of multiplications among those of the half.
  Operands operands(int pair) const {
#if MOEPLAN_NATIVE_E4M3
    return {words[0], words[1], words[2], words[3]};
#else
    const u32 first = words[2 * pair], second = words[2 * pair + 1];
    return {ptx::halves_of_e4m3(first), ptx::upper_halves_of_e4m3(first), ptx::halves_of_e4m3(second),
            ptx::upper_halves_of_e4m3(second)};
#endif
  }
};
constexpr int kHalfPairs = kPairs / 2;
inline Half load_half(int tile, int half) {
  const u32 from = ptx::address_in_shared(ptx::dynamic_shared() + kShared.queries);
  const u32 lane = static_cast<u32>(lane_id());
  Half words;
  ptx::load_matrices(words.words,
                     from + (tile * 8 + lane % 8) * 128 + ((half * 4 + lane / 8) ^ lane % 8) * 16);
  return words;
}

// By all threads: operands take the place of the heads of all rows as they are.
inline void spread_queries() {
  constexpr int kHalves = kRows * kHeadTiles * 2 / kWarps;
  static_assert(kHalves * kWarps == kRows * kHeadTiles * 2, "warps spread as much each");
  const int first = warp_id() * kHalves;
  Half halves[kHalves];
#pragma unroll
  for (int i = 0; i < kHalves; ++i) halves[i] = load_half((first + i) / 2, (first + i) % 2);
  ptx::block_sync();
  auto* to = reinterpret_cast<Operands*>(ptx::dynamic_shared() + kShared.queries) + lane_id();
#pragma unroll
  for (int i = 0; i < kHalves; ++i) {
#pragma unroll
    for (int pair = 0; pair < kHalfPairs; ++pair)
      to[((first + i) * kHalfPairs + pair) * 32] = halves[i].operands(pair);
  }
}

// Of a lane's heads of a row in a tile of heads.
struct alignas(8) Weights {
  float first, second;
};
inline const float* weights_of(int row) {
  return reinterpret_cast<const float*>(ptx::dynamic_shared() + kShared.weights) + row * HEADS;
}
inline Weights lane_weights(const float* of_row, int tile) {
  return reinterpret_cast<const Weights*>(of_row)[tile * 4 + lane_id() % 4];
}

// Those of one row in a warp's registers, with their weights.
struct OwnQueries {
  Operands operands[kHeadTiles][kPairs];
  Weights weights[kHeadTiles];
};
inline void load_queries(OwnQueries& own, const float* weights) {
#pragma unroll
  for (int tile = 0; tile < kHeadTiles; ++tile) {
    own.weights[tile] = lane_weights(weights, tile);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Half words = load_half(tile, half);
#pragma unroll
      for (int pair = 0; pair < kHalfPairs; ++pair)
        own.operands[tile][half * kHalfPairs + pair] = words.operands(pair);
    }
  }
}

// ---- Keys on their way to shared memory. ----

// Steps of a share are counted through all of its groups: those of a group are [first, end), and `first` is
// where its first page would lie.
struct Walk {
  int group;
  int row;  // the first of the group
  int first;
  int end;
};
inline Walk walk_from(const IndexerSource& source, const Place& place) {
  const int first = -place.page * kPageSteps;
  return {place.group, Groups(source, kRows).first_row(place.group), first, first + place.pages * kPageSteps};
}
// Those of a warp lie in shared memory, for lack of registers.
inline Walk& shared_walk(bool is_ahead) {
  constexpr int kWalkWords = sizeof(Walk) / 4;
  static_assert(kWordWalks + 2 * kWarps * kWalkWords <= kBlockWords);
  return reinterpret_cast<Walk*>(ptx::dynamic_shared() + kShared.words +
                                 kWordWalks * 4)[2 * warp_id() + is_ahead];
}
// By all lanes of a warp: on to the group of a step.
inline void walk_on(Walk& shared, const IndexerSource& source, int step) {
  if (step < shared.end) return;
  const Groups groups(source, kRows);
  Walk walk = shared;
  while (step >= walk.end) {
    const Place next = groups.next(walk.group);
    walk = {next.group, groups.first_row(next.group), walk.end, walk.end + next.pages * kPageSteps};
  }
  ptx::warp_sync();
  if (lane_id() == 0) shared = walk;
  ptx::warp_sync();
}

// A warp's keys: every kWarps-th step of the block's. In a stage the 16-byte granules of a key are swizzled,
// by bits of their addresses: shared memory begins at a multiple of 128.
class KeyStream {
 public:
  explicit KeyStream(const IndexerSource& source) : source_(source) {}

  // Starts a step's keys, if it is before the last: the warp's next one.
  void start(int step, int last) {
#pragma unroll
    for (int i = 0; i + 1 < kStages; ++i) started_[i] = started_[i + 1];
    if (step < last) {
      if (step >= end_) look_ahead(step);
      const int number = ptx::shuffle(numbers_, static_cast<u32>(step - begin_) / kWarps);
      started_[kStages - 1] = number;
      if (number >= 0) copy(step, number);
    }
    ptx::commit_copies();
  }

  // Whether the step that was started first, of those in stages, has a page.
  bool is_mapped() const { return started_[0] >= 0; }

  // Addresses in shared memory.
  static u32 keys_of(int step) { return address(0) + stage_of(step) * static_cast<u32>(kShared.stage_bytes); }
  static u32 scales_of(int step) { return address(kShared.scales) + stage_of(step) * (kStepTokens * 4); }

 private:
  static u32 address(i64 offset) { return ptx::address_in_shared(ptx::dynamic_shared() + offset); }
  static u32 stage_of(int step) {
    return static_cast<u32>(warp_id()) * kStages + static_cast<u32>(step) / kWarps % kStages;
  }

  // Loads the numbers of the pages of a step and those behind it in its group, a step a lane.
  void look_ahead(int step) {
    static_assert(kWarps % kPageSteps == 0, "the steps of a warp are all the same part of a page");
    Walk& ahead = shared_walk(true);
    walk_on(ahead, source_, step);
    const int first = ahead.first, own = step + lane_id() * kWarps;
    begin_ = step;
    end_ = min(ahead.end, step + 32 * kWarps);
    part_ = static_cast<u32>(step - first) % kPageSteps;
    const int page = static_cast<u32>(own - first) / kPageSteps;
    numbers_ = own < end_ ? page_numbers(source_, ahead.row)[page] : -1;
    if (source_.is_gathered && numbers_ >= 0) numbers_ = page;
  }

  void copy(int step, int number) const {
    // Four tokens at a time: every other time the swizzle differs in one bit. Where to is computed again for
    // every step, in place of being kept through the multiplications.
    const u32 lane = static_cast<u32>(ptx::opaque(lane_id())), token = lane / 8;
    const u32 to = keys_of(step) + token * 128 + (lane % 8 ^ token) * 16, to_other = to ^ 64;
    const unsigned char* keys =
        source_.quants + (offset_of(number, source_.quant_stride) + (part_ * kKeyBytes + lane * 16));
#pragma unroll
    for (int i = 0; i < kKeyBytes / 512; ++i)
      ptx::copy_async_once((i % 2 == 0 ? to : to_other) + i * 512, keys + i * 512);
    if (lane < kStepTokens / 4)
      ptx::copy_async_once(scales_of(step) + lane * 16,
                           source_.scales + (offset_of(number, source_.scale_stride) +
                                             (part_ * (kStepTokens * 4) + lane * 16)));
  }

  const IndexerSource& source_;
  int begin_ = 0;  // of the steps whose pages' numbers are there
  int end_ = 0;
  int numbers_ = -1;           // the lane's
  u32 part_ = 0;               // of a page: the warp's in this group
  int started_[kStages] = {};  // numbers of pages
};

// ---- A step's keys times the heads of a row. ----

// The keys of 16 tokens as left operands.
struct Keys {
  u32 words[kMultiplications][4];
};

// `granule`: the address of the lane's first one.
inline void load_keys(Keys& keys, u32 granule, int step) {
  u32 k[4];
  ptx::load_matrices(k, granule ^ step * 32);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#if MOEPLAN_NATIVE_E4M3
    keys.words[step][i] = k[i];
#else
    // Two of the four bytes of a register stand where the others do in the heads: the order of the 16
    // elements that are summed does not matter.
    keys.words[2 * step + i / 2][i % 2] = ptx::halves_of_e4m3(k[i]);
    keys.words[2 * step + i / 2][2 + i % 2] = ptx::upper_halves_of_e4m3(k[i]);
#endif
  }
}

// products += keys * heads in a multiplication.
inline void multiply(float (&products)[4], const Keys& keys, int multiplication, u32 first, u32 second) {
#if MOEPLAN_NATIVE_E4M3
  ptx::multiply_add_e4m3(products, keys.words[multiplication], first, second);
#else
  ptx::multiply_add(products, keys.words[multiplication], first, second);
#endif
}

// Sums of a lane's heads for token lane / 4 of a tile, and the one 8 behind it.
struct LaneSums {
  float first = 0;
  float second = 0;

  void add(const float (&products)[4], const Weights& weights) {
    first += weights.first * fmaxf(products[0], 0.0f);
    second += weights.first * fmaxf(products[2], 0.0f);
    first += weights.second * fmaxf(products[1], 0.0f);
    second += weights.second * fmaxf(products[3], 0.0f);
  }
  // Of two lanes, the even one's sums of the first, the odd one's of the second.
  float of_pair() const {
    const bool is_odd = lane_id() % 2 == 1;
    return (is_odd ? second : first) + ptx::shuffle_xor(is_odd ? first : second, 1);
  }
};

// A lane's token of a step. Where a step has fewer tokens than a warp has lanes, half of them hold none.
inline u32 lane_token() {
  const u32 lane = static_cast<u32>(ptx::opaque(lane_id()));
  return lane / 4 + lane % 2 * 8 + (kTokenTiles == 2 ? lane / 2 % 2 * 16 : 0);
}
inline bool has_token() { return kTokenTiles == 2 || lane_id() % 4 < 2; }

// The sum of the lane's token, out of those of pairs of lanes for each tile.
inline float token_sum(const float (&of_pairs)[kTokenTiles]) {
  const bool is_upper = kTokenTiles == 2 && lane_id() / 2 % 2 == 1;
  const float own = is_upper ? of_pairs[kTokenTiles - 1] : of_pairs[0];
  return own + ptx::shuffle_xor(is_upper ? of_pairs[0] : of_pairs[kTokenTiles - 1], 2);
}

// By the heads in registers.
inline float multiply_own(u32 granule, const OwnQueries& own) {
  float of_pairs[kTokenTiles] = {};
#pragma unroll
  for (int t = 0; t < kTokenTiles; ++t) {
    float products[kHeadTiles][4] = {};
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      constexpr int kOfStep = kMultiplications / 4;
      Keys keys;
      load_keys(keys, granule + t * 16 * 128, step);
#pragma unroll
      for (int i = step * kOfStep; i < (step + 1) * kOfStep; ++i) {
#pragma unroll
        for (int tile = 0; tile < kHeadTiles; ++tile) {
          const Operands& q = own.operands[tile][i / 2];
          multiply(products[tile], keys, i, q.words[i % 2 * 2], q.words[i % 2 * 2 + 1]);
        }
      }
    }
    LaneSums sums;
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) sums.add(products[tile], own.weights[tile]);
      // The last tile's stays last.
#pragma unroll
    for (int i = 0; i + 1 < kTokenTiles; ++i) of_pairs[i] = of_pairs[i + 1];
    of_pairs[kTokenTiles - 1] = sums.of_pair();
  }
  return token_sum(of_pairs);
}

// By the heads of a row of the group.
template <int kTilePairs>
inline float multiply_row(const Keys (&keys)[kTokenTiles], int row) {
  const auto* heads = reinterpret_cast<const Operands*>(ptx::dynamic_shared() + kShared.queries) +
                      row * (kHeadTiles * kPairs * 32) + lane_id();
  const float* weights_of_row = weights_of(row);
  LaneSums sums[kTokenTiles];
  // A loop even where it is gone through once: out of one, more would be kept in registers than there are.
  const int tiles = kHeadTiles == 2 ? ptx::opaque(kHeadTiles) : kHeadTiles;
#pragma unroll(kTilePairs)
  for (int tile = 0; tile < tiles; tile += 2) {
    float products[2][kTokenTiles][4] = {};
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Operands q = heads[((tile + i) * kPairs + pair) * 32];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int t = 0; t < kTokenTiles; ++t)
            multiply(products[i][t], keys[t], 2 * pair + half, q.words[2 * half], q.words[2 * half + 1]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Weights weights = lane_weights(weights_of_row, tile + i);
#pragma unroll
      for (int t = 0; t < kTokenTiles; ++t) sums[t].add(products[i][t], weights);
    }
  }
  float of_pairs[kTokenTiles];
#pragma unroll
  for (int t = 0; t < kTokenTiles; ++t) of_pairs[t] = sums[t].of_pair();
  return token_sum(of_pairs);
}

// ---- A share. ----

// Scores a block's share: by all threads, with nothing else in shared memory up to the words. `put` is told
// of every group, by all threads, when the launch before has ended: start(first_row, rows); then by warps of
// each of their steps and all of its rows: put(row, step, token, logit), rows counted from the group's first,
// steps from its first page, with the lane's token of the step; and last finish(). A token without a page has
// minus infinity.
template <int kTilePairs, class Arguments, class Put>
inline void score_share(const Arguments& args, const Share& share, Put& put) {
  const int last = share.count * kPageSteps;
  if (lane_id() == 0) shared_walk(false) = shared_walk(true) = walk_from(args.source, share.begin);
  ptx::warp_sync();
  const Walk& walk = shared_walk(false);
  int step = warp_id();
  KeyStream stream(args.source);
  const Groups groups(args.source, kRows);
  // Queries come before the keys, which would keep them waiting.
  start_queries(args, walk.row, groups.rows(walk.group));
#pragma unroll
  for (int i = 0; i + 1 < kStages; ++i) stream.start(step + i * kWarps, last);
  ptx::wait_copies<kStages - 1>();
  const u32 first_granule = lane_id() % 16 * 128 + (lane_id() / 16 ^ lane_id() % 8) * 16;
  while (true) {
    const int rows = groups.rows(walk.group);
    OwnQueries own;
    ptx::block_sync();
    if constexpr (kOwnsQueries) {
      load_queries(own, args.weights + static_cast<i64>(walk.row) * HEADS);
    } else {
      spread_queries();
      ptx::block_sync();
    }
    // Up to here others may still select from what these logits take the place of.
    ptx::wait_for_last_launch();
    put.start(walk.row, rows);
    const int end = min(walk.end, last), first = walk.first;
#pragma unroll 1
    for (; step < end; step += kWarps) {
      ptx::wait_copies<kStages - 2>();
      ptx::warp_sync();
      stream.start(step + (kStages - 1) * kWarps, last);
      const u32 granule = KeyStream::keys_of(step) + first_granule;
      const auto put_sum = [&](int row, float sum) {
        const u32 token = lane_token();
        const float scale = ptx::load_shared(KeyStream::scales_of(step) + token * 4);
        put(row, step - first, token, stream.is_mapped() ? sum * scale : minus_infinity());
      };
      if constexpr (kOwnsQueries) {
        put_sum(0, multiply_own(granule, own));
      } else {
        Keys keys[kTokenTiles];
#pragma unroll
        for (int t = 0; t < kTokenTiles; ++t) {
#pragma unroll
          for (int of_step = 0; of_step < 4; ++of_step) load_keys(keys[t], granule + t * 16 * 128, of_step);
        }
#pragma unroll 1
        for (int row = 0; row < rows; ++row) put_sum(row, multiply_row<kTilePairs>(keys, row));
      }
    }
    put.finish();
    ptx::block_sync();
    if (walk.end >= last) break;
    walk_on(shared_walk(false), args.source, walk.end);
    start_queries(args, walk.row, groups.rows(walk.group));
    ptx::wait_copies<0>();
  }
  ptx::wait_copies<0>();
  ptx::block_sync();
}

// Scores what is a block's of the source's pages; every block waits for the launch before.
template <int kTilePairs = kMostTilePairs, class Arguments, class Put>
inline void score(const Arguments& args, Put& put) {
  const Groups groups(args.source, kRows);
  int* words = reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.words);
  const Share share =
      find_share<kThreads>(groups, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), words);
  if (share.count > 0)
    score_share<kTilePairs>(args, share, put);
  else
    ptx::wait_for_last_launch();
}

}  // namespace
}  // namespace moeplan
