// The logits of pages of keys:
//
//   logit[r, t] = scale[t] * sum over heads h of weights[r, h] * max(0, sum over d of q[r, h, d] * k[t, d])
//
// A block takes a share of all live pages of all groups of rows that read the same pages. Each of its warps
// streams parts of pages through a ring of its own, and multiplies a part with the heads of all rows of the
// group, which lie in shared memory as operands, or those of one row in registers. Tokens are the rows of a
// matrix multiplication (16 at a time), heads its columns (8), so that a lane sums the heads of its tokens.
#pragma once

#include "kernels/indexer/arguments.hpp"
#include "kernels/indexer/order.cuh"
#include "kernels/indexer/pages.cuh"
#include "kernels/indexer/selection.cuh"
#include "planner/indexer/kernel_geometry.hpp"

namespace moeplan {

constexpr ScoreTile kTile{HEADS, TOKENS, ROWS};
constexpr ScoreShared kShared = score_shared(kTile);
static_assert(kScoreThreads == THREADS, "host and device disagree about the threads of a block");
static_assert(kShared.bytes == SHARED_BYTES, "host and device disagree about shared memory");

constexpr int kThreads = static_cast<int>(kScoreThreads);
constexpr int kWarps = static_cast<int>(kScoreWarps);
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

struct alignas(16) Operands {
  u32 words[4];
};

// ---- Queries, as the right operands of the lanes: [row, head tile, pair of multiplications, lane]. ----

inline Operands load_operands(const unsigned char* head, int pair) {
  const auto word = [&](int at) { return *reinterpret_cast<const u32*>(head + at); };
#if MOEPLAN_NATIVE_E4M3
  return {word(pair * 64), word(pair * 64 + 16), word(pair * 64 + 32), word(pair * 64 + 48)};
#else
  const u32 first = word(pair * 32), second = word(pair * 32 + 16);
  return {ptx::halves_of_e4m3(first), ptx::halves_of_e4m3(first >> 16), ptx::halves_of_e4m3(second),
          ptx::halves_of_e4m3(second >> 16)};
#endif
}

inline void load_queries(const unsigned char* all, int first_row, int rows) {
  unsigned char* shared = ptx::dynamic_shared();
  auto* to = reinterpret_cast<Operands*>(shared + kShared.queries);
  const unsigned char* q = all + static_cast<i64>(first_row) * (HEADS * kKeyElements);
#pragma unroll 4
  for (int i = thread_id(); i < rows * (kHeadTiles * kPairs * 32); i += kThreads) {
    const int lane = i % 32, pair = i / 32 % kPairs, tile = i / (32 * kPairs);
    to[i] = load_operands(q + (tile * 8 + lane / 4) * kKeyElements + lane % 4 * 4, pair);
  }
}

// By a block, or by a warp where each has a row of its own.
inline void load_weights(const IndexerScoreArguments& args, int first_row, int rows) {
  auto* weights = reinterpret_cast<float*>(ptx::dynamic_shared() + kShared.weights);
  const float* row = args.weights + static_cast<i64>(first_row) * HEADS;
  if constexpr (kOwnsQueries) {
    if (lane_id() < HEADS) weights[warp_id() * HEADS + lane_id()] = row[lane_id()];
  } else {
    for (int i = thread_id(); i < rows * HEADS; i += kThreads) weights[i] = row[i];
  }
}
// Of a lane's heads of a row in a tile of heads.
struct alignas(8) Weights {
  float first, second;
};
inline Weights lane_weights(int row, int tile) {
  return reinterpret_cast<const Weights*>(
      ptx::dynamic_shared() +
      kShared.weights)[(kOwnsQueries ? warp_id() : row) * (HEADS / 2) + tile * 4 + lane_id() % 4];
}

// Those of one row in a warp's registers.
struct OwnQueries {
  Operands operands[kHeadTiles][kPairs];
};
inline void load_queries(OwnQueries& own, const unsigned char* all, int row) {
#pragma unroll
  for (int tile = 0; tile < kHeadTiles; ++tile) {
    const unsigned char* head =
        all + (static_cast<i64>(row) * HEADS + tile * 8 + lane_id() / 4) * kKeyElements + lane_id() % 4 * 4;
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) own.operands[tile][pair] = load_operands(head, pair);
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

// A warp's keys: every kWarps-th step of the block's. A step lies in a stage as in a page,
// keys and then scales, the 16-byte granules of a key swizzled.
class KeyStream {
 public:
  KeyStream(const IndexerSource& source, int step, int last) : source_(source) { look_at(step, last); }

  // Starts a step's keys, if it is before the last: the step that was looked at last.
  void start(int step, int last) {
    if (step < last) {
      const u32 mapped = 1u << stage_number(step);
      mapped_ &= ~mapped;
      if (number_ >= 0) {
        mapped_ |= mapped;
        copy(stage_of(step), (step - shared_walk(true).first) % kPageSteps);
      }
      look_at(step + kWarps, last);
    }
    ptx::commit_copies();
  }

  // Whether a step whose keys are there has a page.
  bool is_mapped(int step) const { return mapped_ >> stage_number(step) & 1; }

  static unsigned char* stage_of(int step) {
    return ptx::dynamic_shared() +
           (warp_id() * kStages + stage_number(step)) * static_cast<int>(kShared.stage_bytes);
  }

 private:
  static int stage_number(int step) { return static_cast<int>(static_cast<u32>(step) / kWarps % kStages); }

  // The number of the next step's page is on its way while others are multiplied.
  void look_at(int step, int last) {
    if (step >= last) return;
    Walk& ahead = shared_walk(true);
    walk_on(ahead, source_, step);
    const int page = (step - ahead.first) / kPageSteps;
    number_ = page_numbers(source_, ahead.row)[page];
    if (source_.is_gathered && number_ >= 0) number_ = page;
  }

  void copy(unsigned char* stage, int part) const {
    const unsigned char* keys = source_.quants + number_ * source_.quant_stride + part * kKeyBytes;
    // Four tokens at a time: every other time the swizzle differs in one bit. Where to is computed again for
    // every step, in place of being kept through the multiplications.
    const int lane = ptx::opaque(lane_id()), token = lane / 8, to = token * 128 + (lane % 8 ^ token) * 16;
#pragma unroll
    for (int i = 0; i < kKeyBytes / 512; ++i)
      ptx::copy_async(stage + (i % 2 == 0 ? to : to ^ 64) + i * 512, keys + i * 512 + lane * 16, 16);
    if (lane < kStepTokens / 4)
      ptx::copy_async(stage + kKeyBytes + lane * 16,
                      source_.scales + number_ * source_.scale_stride + (part * kStepTokens + lane * 4) * 4,
                      16);
  }

  const IndexerSource& source_;
  int number_ = 0;  // of the next step's page
  u32 mapped_ = 0;  // stages whose page is there, a bit each
};

// ---- A step's keys times the heads of a row. ----

// The keys of 16 tokens as left operands.
struct Keys {
  u32 words[kMultiplications][4];
};

inline void load_keys(Keys& keys, const unsigned char* tokens, int step) {
  u32 k[4];
  const int granule = lane_id() / 16 ^ lane_id() % 8;  // of the first step
  ptx::load_matrices(k, tokens + lane_id() % 16 * 128 + (granule * 16 ^ step * 32));
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#if MOEPLAN_NATIVE_E4M3
    keys.words[step][i] = k[i];
#else
    // Two of the four bytes of a register stand where the others do in the heads: the order of the 16
    // elements that are summed does not matter.
    keys.words[2 * step + i / 2][i % 2] = ptx::halves_of_e4m3(k[i]);
    keys.words[2 * step + i / 2][2 + i % 2] = ptx::halves_of_e4m3(k[i] >> 16);
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
inline int lane_token() {
  const int lane = ptx::opaque(lane_id());
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
inline float multiply_own(const unsigned char* stage, const OwnQueries& own) {
  float of_pairs[kTokenTiles] = {};
#pragma unroll 1
  for (int t = 0; t < kTokenTiles; ++t) {
    float products[kHeadTiles][4] = {};
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      constexpr int kOfStep = kMultiplications / 4;
      Keys keys;
      load_keys(keys, stage + t * 16 * 128, step);
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
    for (int tile = 0; tile < kHeadTiles; ++tile) sums.add(products[tile], lane_weights(0, tile));
      // The last tile's stays last.
#pragma unroll
    for (int i = 0; i + 1 < kTokenTiles; ++i) of_pairs[i] = of_pairs[i + 1];
    of_pairs[kTokenTiles - 1] = sums.of_pair();
  }
  return token_sum(of_pairs);
}

// By the heads of a row of the group.
inline float multiply_row(const Keys (&keys)[kTokenTiles], int row) {
  const auto* heads = reinterpret_cast<const Operands*>(ptx::dynamic_shared() + kShared.queries) +
                      row * (kHeadTiles * kPairs * 32) + lane_id();
  LaneSums sums[kTokenTiles];
  // A loop even where it is gone through once: out of one, more would be kept in registers than there are.
  const int tiles = kHeadTiles == 2 ? ptx::opaque(kHeadTiles) : kHeadTiles;
#pragma unroll 1
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
      const Weights weights = lane_weights(row, tile + i);
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

// Scores a block's share: by all threads, with nothing else in shared memory up to the words. A token without
// a page has minus infinity.
inline void score_share(const IndexerScoreArguments& args, const Share& share) {
  const int last = share.count * kPageSteps;
  if (lane_id() == 0) shared_walk(false) = shared_walk(true) = walk_from(args.source, share.begin);
  ptx::warp_sync();
  const Walk& walk = shared_walk(false);
  int step = warp_id();
  KeyStream stream(args.source, step, last);
#pragma unroll
  for (int i = 0; i + 1 < kStages; ++i) stream.start(step + i * kWarps, last);
  OwnQueries own;
  while (true) {
    int rows = 1;
    if constexpr (kOwnsQueries) {
      if (step >= last) break;
      walk_on(shared_walk(false), args.source, step);
      load_weights(args, walk.row, 1);
      load_queries(own, args.q, walk.row);
      ptx::warp_sync();
    } else {
      rows = Groups(args.source, kRows).rows(walk.group);
      load_weights(args, walk.row, rows);
      load_queries(args.q, walk.row, rows);
      ptx::block_sync();
    }
#pragma unroll 1
    for (; step < min(walk.end, last); step += kWarps) {
      ptx::wait_copies<kStages - 2>();
      ptx::warp_sync();
      stream.start(step + (kStages - 1) * kWarps, last);
      const unsigned char* keys_of_it = KeyStream::stage_of(step);
      const auto put = [&](int row, float sum) {
        const float scale = reinterpret_cast<const float*>(keys_of_it + kKeyBytes)[lane_token()];
        const float logit = stream.is_mapped(step) ? sum * scale : minus_infinity();
        float* of_row = args.logits + (walk.row + row) * args.logits_stride;
        if (has_token()) of_row[(step - walk.first) * kStepTokens + lane_token()] = logit;
      };
      if constexpr (kOwnsQueries) {
        put(0, multiply_own(keys_of_it, own));
      } else {
        Keys keys[kTokenTiles];
#pragma unroll
        for (int t = 0; t < kTokenTiles; ++t) {
#pragma unroll
          for (int of_step = 0; of_step < 4; ++of_step)
            load_keys(keys[t], keys_of_it + t * 16 * 128, of_step);
        }
#pragma unroll 1
        for (int row = 0; row < rows; ++row) put(row, multiply_row(keys, row));
      }
    }
    if constexpr (kOwnsQueries) {
      ptx::warp_sync();
    } else {
      ptx::block_sync();
      if (walk.end >= last) break;
      walk_on(shared_walk(false), args.source, walk.end);
    }
  }
  ptx::wait_copies<0>();
  ptx::block_sync();
}

}  // namespace moeplan
