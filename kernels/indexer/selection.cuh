// Exact selection: the bins by which the wanted-th best rank is found, and what the threads of a block and of
// a warp tell each other.
#pragma once

#include "kernels/indexer/order.cuh"
#include "planner/indexer/kernel_geometry.hpp"

namespace moeplan {

inline int thread_id() { return static_cast<int>(threadIdx.x); }
inline int lane_id() { return static_cast<int>(threadIdx.x % 32); }
inline int warp_id() { return static_cast<int>(threadIdx.x / 32); }

// The lanes below the own one, a bit each; and the lowest lane of some.
inline u32 lanes_below() { return (1u << lane_id()) - 1; }
inline int first_lane(u32 lanes) { return ptx::population((lanes & (0u - lanes)) - 1); }

// What the lanes below hold, and this one.
inline int warp_prefix(int value) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int below = ptx::shuffle_up(value, distance);
    if (lane_id() >= distance) value += below;
  }
  return value;
}

// Words of a scorer's shared memory: sums of its warps, where its share begins, and where each
// warp scores and loads.
constexpr int kWordSums = 0;
constexpr int kWordShare = 32;
constexpr int kWordWalks = 40;

// The sum of the values of lower threads, and of all.
struct Prefix {
  int before;
  int total;
};
// By all threads of a block; first they wait for those that still read the words.
template <int kThreads>
inline Prefix block_prefix(int value, int* words) {
  constexpr int kWarps = kThreads / 32;
  const int through = warp_prefix(value);
  ptx::block_sync();
  if (lane_id() == 31) words[kWordSums + warp_id()] = through;
  ptx::block_sync();
  const int sum = lane_id() < kWarps ? words[kWordSums + lane_id()] : 0;
  return {ptx::warp_sum(lane_id() < warp_id() ? sum : 0) + through - value, ptx::warp_sum(sum)};
}

// ---- Bins of logits: the upper bits of a half, rounded toward zero. Those of positive numbers ascend, those
// of negative numbers lie behind and descend. ----

constexpr int kBins = static_cast<int>(kSelectBins);
constexpr int kBinBits = 13;
static_assert(kBins == 1 << kBinBits);

constexpr int kNegativeBins = kBins / 2;  // the first of them
constexpr int kInfinityBin = 0x7C00 >> (16 - kBinBits);
// Of tokens without a page; behind it there is none.
constexpr int kMinusInfinityBin = kNegativeBins + kInfinityBin;

// The first bin and the second, of two halves.
inline int low_bin(u32 halves) { return static_cast<int>(halves >> (16 - kBinBits) & (kBins - 1)); }
inline int high_bin(u32 halves) { return static_cast<int>(halves >> (32 - kBinBits)); }

// The rank below which nothing is an entry: those of tokens without a page.
constexpr u64 kLeastRank = u64{1} << 32;

// What entries of a rank and of those above it have: a greater logit, or the same one and no later place. No
// number is greater than infinity.
struct alignas(16) Threshold {
  float logit;
  int last_equal;
  int last_greater;

  static Threshold of(u64 rank) {
    const u32 key = static_cast<u32>(rank >> 32);
    const int last = static_cast<int>(~static_cast<u32>(rank) & 0x7FFFFFFFu);
    const bool is_number = key != kNanKey;
    const float logit = rank == kLeastRank ? least_finite() : logit_of(key);
    return {is_number ? logit : infinity(), is_number ? last : -1, is_number ? 0x7FFFFFFF : last};
  }
  bool has(float x, int entry) const {
    return (!(x <= logit) & (entry <= last_greater)) | ((x == logit) & (entry <= last_equal));
  }
};

// What a logit has to be greater than, to come before a rank. `comes_first`: that of an equal one would be
// greater. Where no float tells, a few more are.
inline float floor_behind(u64 rank, bool comes_first) {
  constexpr u32 kMinusInfinityKey = 0x007FFFFFu, kMinusZeroKey = 0x7FFFFFFFu, kInfinityKey = 0xFF800000u;
  u32 key = static_cast<u32>(rank >> 32);
  if (comes_first) key -= 1 + (key == kMinusZeroKey + 1);
  return logit_of(max(min(key, kInfinityKey), kMinusInfinityKey));
}

// ---- Spans of ranks, and their bins of equal width. ----

struct Span {
  u64 least;
  u64 width;  // 0: 2^64

  // The one behind all; 0: there is none.
  u64 end() const { return least + width; }

  // By how much ranks are shifted to be bins.
  int shift() const {
    const int bits = 64 - ptx::leading_zeros(width - 1);
    return bits > kBinBits ? bits - kBinBits : 0;
  }
  // The ranks of a bin.
  Span narrowed(int bin) const {
    const u64 begin = u64{static_cast<u32>(bin)} << shift(), of_bin = u64{1} << shift(), rest = width - begin;
    return {least + begin, rest < of_bin ? rest : of_bin};
  }
};

// The ranks of a bin of logits.
inline Span span_of_logits(int bin) {
  constexpr u32 kZeroKey = 0x80000000u;
  const auto bits_of_bin = [](int of_positive) {
    return ptx::bits_of(ptx::float_of_half(static_cast<ptx::u16>(of_positive << (16 - kBinBits))));
  };
  const bool is_negative = bin >= kNegativeBins;
  const int of_positive = is_negative ? bin - kNegativeBins : bin;
  const u32 inner = bits_of_bin(of_positive), outer = bits_of_bin(of_positive + 1);
  u32 least = is_negative ? kZeroKey - outer : kZeroKey | inner;
  u32 end = is_negative ? kZeroKey - inner : kZeroKey | outer;
  if (!is_negative && bin >= kInfinityBin) {
    least = bin == kInfinityBin ? least : kNanKey;
    end = bin == kInfinityBin ? kNanKey : 0;
  }
  return {u64{least} << 32, u64{end - least} << 32};
}

// The same of the logits of a bin: from the least one on, before the end. Where it is no number, ranks tell.
struct Bounds {
  float least;
  float end;

  static Bounds of_ranks() { return {least_finite(), ptx::float_of(0x7FFFFFFFu)}; }
  static Bounds of_logits(int bin, const Span& span) {
    if (bin >= kInfinityBin && bin < kNegativeBins) return of_ranks();
    return {logit_of(static_cast<u32>(span.least >> 32)), logit_of(static_cast<u32>(span.end() >> 32))};
  }
};

}  // namespace moeplan
