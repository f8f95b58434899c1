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

// ---- Bins of logits: a sign, an exponent from 2^-16 to 2^16 and the top bits of the mantissa. What is
// outside is in the last bin of its side. ----

constexpr int kBins = static_cast<int>(kSelectBins);
constexpr int kHalfBins = kBins / 2;
constexpr int kMantissaBits = 5;
constexpr int kBinShift = 23 - kMantissaBits;
constexpr int kLeastBin = (127 - 16) << kMantissaBits;  // of a float's bits, shifted
static_assert(kHalfBins == 32 << kMantissaBits, "bins of 32 powers of two");

// Zero, and next to it the smallest positive numbers.
constexpr int kZeroBin = kHalfBins;

// Keys ascend as bins do: first through those of negative numbers, then through those of positive ones.
inline int bin_of(u32 key) {
  const int top = static_cast<int>(key >> kBinShift), is_positive = static_cast<int>(key >> 31);
  constexpr int kSign = 1 << (31 - kBinShift);
  const int of_negative = max(min(top - (kSign - kHalfBins - kLeastBin), kHalfBins - 1), 0);
  const int of_positive = max(min(top - (kSign + kLeastBin), kHalfBins - 1), 0);
  return of_negative + of_positive + is_positive;
}

// The rank below which nothing is an entry: those of tokens without a page.
constexpr u64 kLeastRank = u64{1} << 32;

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

// ---- Bins of ranks: of equal width, in a span of them. ----

struct Span {
  u64 least;
  u64 width;  // 0: 2^64

  // By how much ranks are shifted to be bins.
  int shift() const {
    constexpr int kBinBits = 11;
    static_assert(kBins == 1 << kBinBits);
    const int bits = 64 - ptx::leading_zeros(width - 1);
    return bits > kBinBits ? bits - kBinBits : 0;
  }
  // The ranks of a bin.
  Span narrowed(int bin) const {
    const u64 begin = u64{static_cast<u32>(bin)} << shift(), of_bin = u64{1} << shift(), rest = width - begin;
    return {least + begin, rest < of_bin ? rest : of_bin};
  }
};

}  // namespace moeplan
