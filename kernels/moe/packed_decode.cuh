// Packed NVFP4 weights to halves or bf16 numbers. A word holds a lane's eight weights of a 16x16 tile, each a
// sign, two bits of exponent and one of fraction (e2m1). With column c = lane / 4 and row r = 2 * (lane % 4):
//
//   bits   31 28   27 24   23 20   19 16   15 12   11  8    7  4    3  0
//   row    r + 9   r + 1   r + 9   r + 1   r + 8     r     r + 8     r
//   column c + 8   c + 8     c       c     c + 8   c + 8     c       c
//
// A scale is the byte behind the sign of an fp16 number: 128 times the block's scale, zero where that is
// below 2. Its exponent's highest bit is set in all others, which is what turns it into a bf16 number.
#pragma once

#include "kernels/ptx.cuh"

namespace moeplan {

// The e2m1 number in the upper four bits of each half becomes a number of 2^-14 (fp16) or 2^-126 (bf16) times
// its value: sign and bits are moved in place, and 0.5 becomes a subnormal number.
template <bool Bfloat16>
inline unsigned raise_weights(unsigned word) {
  return (word & 0x80008000u) | ((word & 0x70007000u) >> (Bfloat16 ? 6 : 3));
}

// The scale bytes 0 and 2 of a word, as two numbers.
template <bool Bfloat16>
inline unsigned raise_scales(unsigned word) {
  if constexpr (Bfloat16) return (word & 0x00800080u) << 7 | (word & 0x007F007Fu) << 4;
  return (word & 0x00FF00FFu) << 7;
}

// Products of a 2-bit and a 4-bit fraction: exact in both types.
template <bool Bfloat16>
inline unsigned scale_weights(unsigned weights, unsigned scales) {
  // Minus zero as the addend leaves the sign of a zero alone.
  if constexpr (Bfloat16) return ptx::fma_bfloat16s(weights, scales, 0x80008000u);
  return ptx::multiply_halves(weights, scales);
}

// A lane's eight weights as the operand `a` of multiply_add: row n of the operand is column n of the weights.
// `scales`: bytes 0 and 2 belong to columns c and c + 8.
template <bool Bfloat16>
inline void decode_packed(unsigned (&a)[4], unsigned word, unsigned scales) {
  const unsigned both = raise_scales<Bfloat16>(scales);
  const unsigned first = ptx::permute_bytes(both, both, 0x1010),
                 second = ptx::permute_bytes(both, both, 0x3232);
  a[0] = scale_weights<Bfloat16>(raise_weights<Bfloat16>(word << 12), first);
  a[2] = scale_weights<Bfloat16>(raise_weights<Bfloat16>(word << 8), first);
  a[1] = scale_weights<Bfloat16>(raise_weights<Bfloat16>(word << 4), second);
  a[3] = scale_weights<Bfloat16>(raise_weights<Bfloat16>(word), second);
}

}  // namespace moeplan
