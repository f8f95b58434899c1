// The input rotation of 8 rows by 128 of K, on the matrix units. The 128-point Hadamard transform is one of
// 32 points, two matrix products, and two steps of sums and differences between their results. Bits of the
// index k are named by where they lie, for the lane g * 4 + q and element e of one of its four chunks c of 8:
//
//          bit    0    1    2    3    4    5    6
//   input        e0   e1   e2   q0   q1   c0   c1     of row g
//   product      in   -    in   in   in   -    in     in: mixed by the products; the others by sums
//   output     half  word  g0   g1   g2   c0   c1     of rows 2 q and 2 q + 1
//
// so that loads are 16 bytes of a row, and stores 8 without a conflict of banks.
#pragma once

#include "kernels/moe/hadamard.cuh"
#include "kernels/moe/hadamard_operand.cuh"
#include "kernels/ptx.cuh"

namespace moeplan {

// A lane's elements of 8 rows, or of suh, by 128 of K: chunk i is at column 32 i + 8 q.
struct RotationChunks {
  HalfOctet chunks[4];
};
inline RotationChunks load_chunks(const HalfBits* from) {
  RotationChunks loaded;
#pragma unroll
  for (int i = 0; i < 4; ++i) loaded.chunks[i] = *reinterpret_cast<const HalfOctet*>(from + 32 * i);
  return loaded;
}

// Sums and differences of results that differ in one bit.
template <int Distance>
inline void add_products(float (&d)[4][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i & Distance) continue;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float first = d[i][j], second = d[i + Distance][j];
      d[i][j] = first + second;
      d[i + Distance][j] = first - second;
    }
  }
}

// d[2 * c0 + word]: the lane's elements of output chunk c0 + 2 * c1: the pair `half` 0 of rows 2 q and
// 2 q + 1, then of 1. `x`: times suh already.
inline void transform(float (&d)[4][4], const RotationChunks& x, const unsigned (&operand)[4], int c1) {
  const unsigned signs = static_cast<unsigned>(c1) * 0x80008000u;
  const unsigned upper[4] = {operand[0] ^ signs, operand[1] ^ signs, operand[2] ^ signs, operand[3] ^ signs};
#pragma unroll
  for (int c = 0; c < 2; ++c) {
#pragma unroll
    for (int word = 0; word < 2; ++word) {
      float(&sums)[4] = d[2 * c + word];
      sums[0] = sums[1] = sums[2] = sums[3] = 0;
      ptx::multiply_add(sums, operand, x.chunks[c].pairs[word], x.chunks[c].pairs[2 + word]);
      ptx::multiply_add(sums, upper, x.chunks[2 + c].pairs[word], x.chunks[2 + c].pairs[2 + word]);
    }
  }
  add_products<1>(d);
  add_products<2>(d);
}

}  // namespace moeplan
