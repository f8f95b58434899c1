// The 128-point Hadamard transform of 8 rows by a warp, on the matrix units. An element's place has seven
// bits, e0 to e6. The transform is a product of one of two points in every bit, so that it falls apart into
// one of 16 points in e0, e1, e4, e5, which is a multiplication by a 16x16 matrix of ones and minus ones, and
// one of 8 points in e2, e3, e6, which are sums of the products that a lane holds. Sums are fp32 throughout.
#pragma once

#include "kernels/moe/hadamard.cuh"
#include "kernels/moe/hadamard_operand.cuh"
#include "kernels/moe/instructions.cuh"
#include "kernels/moe/lean_decode_blocks.cuh"

namespace moeplan {

// With g = lane / 4 and t = lane % 4. Columns of the operand stand for e0, e1, e4 and e5 (those of t), its
// rows for e0, e1, e4 and e5 (those of g).
//
// Of row g the elements 16 t + 8 e3 + 64 e6 to 7 behind, eight halves for each pair of e3 and e6.
struct HadamardRows {
  unsigned pairs[2][2][4];  // [e6][e3][e1 + 2 e2]
};
inline int hadamard_lane_offset() { return 16 * (lane_id() % 4); }

// x * suh in halves; zeros of a row that is not live. Both point to the lane's first element of a block.
template <bool IsBfloat16>
inline HadamardRows scaled_rows(const HalfBits* x, const HalfBits* suh, bool is_live) {
  HadamardRows rows{};
  if (!is_live) return rows;
#pragma unroll
  for (int e6 = 0; e6 < 2; ++e6) {
#pragma unroll
    for (int e3 = 0; e3 < 2; ++e3) {
      auto input = *reinterpret_cast<const HalfOctet*>(x + 8 * e3 + 64 * e6);
      const auto scale = *reinterpret_cast<const HalfOctet*>(suh + 8 * e3 + 64 * e6);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (IsBfloat16) input.pairs[i] = ptx::halves_of_bfloat16s(input.pairs[i]);
        rows.pairs[e6][e3][i] = ptx::multiply_halves(input.pairs[i], scale.pairs[i]);
      }
    }
  }
  return rows;
}

// H rows / 16, rounded, into the row units of eight tiles.
inline void store_rotated(const HadamardRows& rows, const unsigned (&matrix)[4], unsigned char* to,
                          int first_tile) {
  float v[2][2][2][4] = {};  // [e6][e3][e2], as the matrix product leaves them: [e0][row % 2]
#pragma unroll
  for (int e6 = 0; e6 < 2; ++e6) {
#pragma unroll
    for (int e3 = 0; e3 < 2; ++e3) {
#pragma unroll
      for (int e2 = 0; e2 < 2; ++e2)
        ptx::multiply_add(v[e6][e3][e2], matrix, rows.pairs[e6][e3][2 * e2], rows.pairs[e6][e3][2 * e2 + 1]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto exchange = [](float& first, float& second) {
      const float sum = first + second;
      second = first - second;
      first = sum;
    };
#pragma unroll
    for (int a = 0; a < 2; ++a) {
#pragma unroll
      for (int b = 0; b < 2; ++b) exchange(v[a][b][0][i], v[a][b][1][i]);
    }
#pragma unroll
    for (int a = 0; a < 2; ++a) {
#pragma unroll
      for (int b = 0; b < 2; ++b) exchange(v[a][0][b][i], v[a][1][b][i]);
    }
#pragma unroll
    for (int a = 0; a < 2; ++a) {
#pragma unroll
      for (int b = 0; b < 2; ++b) exchange(v[0][a][b][i], v[1][a][b][i]);
    }
  }
  const int g = lane_id() / 4, t = lane_id() % 4;
  const auto twice = [](float value) { return ptx::halves_of(value, value); };
#pragma unroll
  for (int e6 = 0; e6 < 2; ++e6) {
#pragma unroll
    for (int e2 = 0; e2 < 2; ++e2) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        *row_unit(to, first_tile + g / 2 + 4 * e6, 2 * t + i, g % 2 + 2 * e2) = {
            twice(v[e6][0][e2][i]), twice(v[e6][1][e2][i]), twice(v[e6][0][e2][2 + i]),
            twice(v[e6][1][e2][2 + i])};
    }
  }
}

}  // namespace moeplan
