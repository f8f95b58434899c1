// Trellis tiles to halves. A tile holds 16x16 weights in 8 * Bits words, a stream of bits that starts at bit
// 31 of word 0. Weight t is a function of its state: the 16 bits that end where the t-th group of Bits bits
// does. The stream is a ring, so that the first weights reach back into its end.
#pragma once

#include "kernels/moe/arguments.hpp"
#include "kernels/moe/instructions.cuh"
#include "kernels/ptx.cuh"
#include "planner/moe/kernel_geometry.hpp"

namespace moeplan {

// A state's two halves, each +-(1 + f) * 2^e with e in -3..0: the weight is their sum.
template <int Bits, Codebook Book>
inline unsigned summands_of(unsigned state) {
  static_assert(Book != Codebook::mul1, "its weights are no sums of two halves");
  constexpr unsigned kFactor = Book == Codebook::mcg ? 0xCBAC1FEDu : 89226354u;
  constexpr unsigned kAddend = Book == Codebook::mcg ? 0u : 64248484u;
  constexpr unsigned kMask = 0x8FFF8FFFu, kFlip = 0x3B603B60u;
  const unsigned value = state * kFactor + kAddend;
  // One instruction takes a register for the flip, which these leave large blocks no room for.
  if constexpr (Bits > 4 || Book == Codebook::three_instructions) return (value & kMask) ^ kFlip;
  return ptx::masked_and_flipped(value, kMask, kFlip);
}

// Two states to two weights.
template <int Bits, Codebook Book>
inline unsigned weights_of(unsigned state0, unsigned state1) {
  if constexpr (Book == Codebook::mul1) {
    // 0x6400 is 1024 in half precision, where a step is 1: adding the bytes' sum to the bits adds it to the
    // value.
    const unsigned sum0 = ptx::dot_bytes(state0 * 0x83DCD12Du, 0x01010101u, 0x6400u);
    const unsigned sum1 = ptx::dot_bytes(state1 * 0x83DCD12Du, 0x01010101u, 0x6400u);
    return ptx::fma_halves(sum0 | sum1 << 16, 0x1EEE1EEEu, 0xC931C931u);
  } else {
    return ptx::sums_of_halves(summands_of<Bits, Book>(state0), summands_of<Bits, Book>(state1));
  }
}

// The states of a lane's eight weights of 3 bits, from the two words that its window ends in. A shift left by
// a multiplication runs in the pipe of the multiplications, which has room where the shifts' has none; a
// constant factor would be turned back into a shift, so the factors are arguments of the launch.
inline void states_of_3_bits(unsigned (&states)[8], unsigned before, unsigned word, unsigned shift,
                             const StateFactors& factors) {
  const unsigned low = ptx::funnel_right(word, before, shift);
  const unsigned high = ptx::funnel_right(word, before, shift + 5);
  states[0] = high >> 16;
  states[1] = high * factors.by_3 >> 16;
  states[2] = low * factors.by_1 >> 16;
  states[3] = low * factors.by_4 >> 16;
  states[4] = low * factors.by_7 >> 16;
  states[5] = low * factors.by_10 >> 16;
  states[6] = low * factors.by_13 >> 16;
  states[7] = low & 0xFFFFu;
}

// The states of the lane's eight weights 8 * lane + j of the tile. j counts k, k+1, k+8, k+9 of column n,
// then those of column n + 8.
template <int Bits>
inline void states_of(unsigned (&states)[8], const unsigned* words, int lane, const StateFactors& factors) {
  constexpr int kWords = 8 * Bits;
  // States of as many weights as fit two words wherever the window ends.
  constexpr int kWindow = Bits <= 4 ? 8 : 4;
#pragma unroll
  for (int first = 0; first < 8; first += kWindow) {
    const int end = (8 * lane + first + kWindow) * Bits;  // of the window, in bits of the stream
    const int last = (end - 1) / 32;                      // the word it ends in
    const unsigned shift = static_cast<unsigned>(32 * (last + 1) - end);
    const unsigned before = words[last == 0 ? kWords - 1 : last - 1], word = words[last];
    if constexpr (Bits == 3) {
      states_of_3_bits(states, before, word, shift, factors);
    } else {
      const unsigned long long window =
          static_cast<unsigned long long>(before >> shift) << 32 | ptx::funnel_right(word, before, shift);
#pragma unroll
      for (int j = 0; j < kWindow; ++j)
        states[first + j] = static_cast<unsigned>(window >> (kWindow - 1 - j) * Bits) & 0xFFFFu;
    }
  }
}

// The weights of a tile as the operand `a` of multiply_add: row n of the operand is column n of the weights,
// so that its registers are pairs 0, 2, 1, 3 of the lane's weights.
template <int Bits, Codebook Book>
inline void decode_tile(unsigned (&a)[4], const unsigned* words, int lane, const StateFactors& factors) {
  unsigned s[8];
  states_of<Bits>(s, words, lane, factors);
  a[0] = weights_of<Bits, Book>(s[0], s[1]);
  a[1] = weights_of<Bits, Book>(s[4], s[5]);
  a[2] = weights_of<Bits, Book>(s[2], s[3]);
  a[3] = weights_of<Bits, Book>(s[6], s[7]);
}

// Rows of x, twice each: what a weight's two summands are multiplied by when they are two elements of K.
struct DoubledRows {
  unsigned even0, even8, odd0, odd8;  // k, k+8, k+1, k+9
};
inline DoubledRows doubled_rows(unsigned rows0, unsigned rows8) {
  return {ptx::permute_bytes(rows0, rows0, 0x1010), ptx::permute_bytes(rows8, rows8, 0x1010),
          ptx::permute_bytes(rows0, rows0, 0x3232), ptx::permute_bytes(rows8, rows8, 0x3232)};
}

// sums += the tile's 16 columns by 8 rows of x, without adding a weight's summands first: twice the products,
// which cost less than the additions where few rows share them.
template <int Bits, Codebook Book>
inline void multiply_tile(float (&sums)[4], const unsigned* words, const DoubledRows& x, int lane,
                          const StateFactors& factors) {
  unsigned s[8];
  states_of<Bits>(s, words, lane, factors);
  const unsigned even[4] = {summands_of<Bits, Book>(s[0]), summands_of<Bits, Book>(s[4]),
                            summands_of<Bits, Book>(s[2]), summands_of<Bits, Book>(s[6])};
  const unsigned odd[4] = {summands_of<Bits, Book>(s[1]), summands_of<Bits, Book>(s[5]),
                           summands_of<Bits, Book>(s[3]), summands_of<Bits, Book>(s[7])};
  ptx::multiply_add(sums, even, x.even0, x.even8);
  ptx::multiply_add(sums, odd, x.odd0, x.odd8);
}

}  // namespace moeplan
