// The 128-point Walsh-Hadamard transform in natural order. A warp transforms four blocks of 128 side by side,
// eight lanes each: of its block, lane l has 16 elements, with i = l % 8,
//
//   v[0..7]   elements 8 i to 8 i + 7
//   v[8..15]  elements 64 + 8 i to 64 + 8 i + 7
//
// so that it loads and stores 16 bytes of halves at a time, and most sums stay in the lane.
#pragma once

#include "kernels/moe/lanes.cuh"
#include "kernels/ptx.cuh"
#include "planner/moe/kernel_geometry.hpp"

namespace moeplan {

constexpr float kHadamardScale = 0.088388347648318447f;  // 1 / sqrt(128), on each side of a linear layer
constexpr int kLaneElements = kHadamardColumns / 32;
constexpr int kLanePairs = kLaneElements / 2;

// Halves of a lane, two in each.
struct LaneHalves {
  unsigned pairs[kLanePairs];
};
struct alignas(16) HalfOctet {
  unsigned pairs[4];
};

// Two bf16 numbers as halves. A bf16 is the upper half of a float.
inline unsigned halves_of_bfloat16s(unsigned pair) {
  return ptx::halves_of(__builtin_bit_cast(float, pair << 16), __builtin_bit_cast(float, pair & 0xFFFF0000u));
}

// The lane's first column of those that its warp transforms.
inline i64 lane_column() { return lane_id() / 8 * kHadamardBlock + lane_id() % 8 * 8; }

// `from`: the lane's first element.
inline LaneHalves load_lane(const HalfBits* from) {
  const auto low = *reinterpret_cast<const HalfOctet*>(from);
  const auto high = *reinterpret_cast<const HalfOctet*>(from + kHadamardBlock / 2);
  LaneHalves halves;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    halves.pairs[i] = low.pairs[i];
    halves.pairs[4 + i] = high.pairs[i];
  }
  return halves;
}

inline void store_lane(HalfBits* to, const LaneHalves& halves) {
  const auto& p = halves.pairs;
  *reinterpret_cast<HalfOctet*>(to) = {p[0], p[1], p[2], p[3]};
  *reinterpret_cast<HalfOctet*>(to + kHadamardBlock / 2) = {p[4], p[5], p[6], p[7]};
}

inline void to_floats(float (&v)[kLaneElements], const LaneHalves& halves) {
#pragma unroll
  for (int i = 0; i < kLanePairs; ++i) {
    v[2 * i] = ptx::float_of_half(static_cast<HalfBits>(halves.pairs[i]));
    v[2 * i + 1] = ptx::float_of_half(static_cast<HalfBits>(halves.pairs[i] >> 16));
  }
}

inline void multiply_by(float (&v)[kLaneElements], const LaneHalves& factors) {
#pragma unroll
  for (int i = 0; i < kLanePairs; ++i) {
    v[2 * i] *= ptx::float_of_half(static_cast<HalfBits>(factors.pairs[i]));
    v[2 * i + 1] *= ptx::float_of_half(static_cast<HalfBits>(factors.pairs[i] >> 16));
  }
}

inline LaneHalves rounded(const float (&v)[kLaneElements]) {
  LaneHalves halves;
#pragma unroll
  for (int i = 0; i < kLanePairs; ++i) halves.pairs[i] = ptx::halves_of(v[2 * i], v[2 * i + 1]);
  return halves;
}

// Sums and differences of the lane's elements that are `Distance` apart in v.
template <int Distance>
inline void add_within(float (&v)[kLaneElements]) {
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) {
    if (i & Distance) continue;
    const float first = v[i], second = v[i + Distance];
    v[i] = first + second;
    v[i + Distance] = first - second;
  }
}

// The same with another lane's.
template <int LaneDistance>
inline void add_across(float (&v)[kLaneElements]) {
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) {
    const float other = ptx::shuffle_xor(v[i], LaneDistance);
    v[i] = (lane_id() & LaneDistance) ? other - v[i] : v[i] + other;
  }
}

// H v / sqrt(128). All lanes have to call; those without a block of their own transform nothing of others.
inline void hadamard128(float (&v)[kLaneElements]) {
  add_within<1>(v);
  add_within<2>(v);
  add_within<4>(v);
  add_across<1>(v);  // elements 8 apart
  add_across<2>(v);
  add_across<4>(v);
  add_within<8>(v);  // elements 64 apart
#pragma unroll
  for (float& element : v) element *= kHadamardScale;
}

}  // namespace moeplan
