// Trellis tiles to halves. A tile holds 16x16 weights in 8 * Bits words, a stream of bits that starts at bit
// 31 of word 0. Weight t is a function of its state: the 16 bits that end where the t-th group of Bits bits
// does. The stream is a ring, so that the first weights reach back into its end.
#pragma once

#include "kernels/ptx.cuh"
#include "planner/moe/kernel_geometry.hpp"

namespace moeplan {

// Two states to two halves.
template <Codebook Book>
inline unsigned weights_of(unsigned state0, unsigned state1) {
  if constexpr (Book == Codebook::mul1) {
    // 0x6400 is 1024 in half precision, where a step is 1: adding the bytes' sum to the bits adds it to the
    // value.
    const unsigned sum0 = ptx::dot_bytes(state0 * 0x83DCD12Du, 0x01010101u, 0x6400u);
    const unsigned sum1 = ptx::dot_bytes(state1 * 0x83DCD12Du, 0x01010101u, 0x6400u);
    return ptx::fma_halves(sum0 | sum1 << 16, 0x1EEE1EEEu, 0xC931C931u);
  } else {
    // Each half of the hash becomes +-(1 + f) * 2^e with e in -3..0; a weight is the sum of the two.
    constexpr bool kMcg = Book == Codebook::mcg;
    constexpr unsigned kFactor = kMcg ? 0xCBAC1FEDu : 89226354u;
    constexpr unsigned kAddend = kMcg ? 0u : 64248484u;
    const unsigned hash0 = ((state0 * kFactor + kAddend) & 0x8FFF8FFFu) ^ 0x3B603B60u;
    const unsigned hash1 = ((state1 * kFactor + kAddend) & 0x8FFF8FFFu) ^ 0x3B603B60u;
    return ptx::add_halves(ptx::permute_bytes(hash0, hash1, 0x5410),
                           ptx::permute_bytes(hash0, hash1, 0x7632));
  }
}

// The lane's eight weights 8 * lane + j of the tile as the operand `a` of multiply_add: row n of the operand
// is column n of the weights. j counts k, k+1, k+8, k+9 of column n, then those of column n + 8, so that the
// operand's registers are pairs 0, 2, 1, 3.
template <int Bits, Codebook Book>
inline void decode_tile(unsigned (&a)[4], const unsigned* words, int lane) {
  constexpr int kWords = 8 * Bits;
  // States of as many weights as fit two words wherever the window ends.
  constexpr int kWindow = Bits <= 4 ? 8 : 4;
  constexpr int kRegister[4] = {0, 2, 1, 3};
#pragma unroll
  for (int first = 0; first < 8; first += kWindow) {
    const int end = (8 * lane + first + kWindow) * Bits;  // of the window, in bits of the stream
    const int last = (end - 1) / 32;                      // the word it ends in
    const unsigned long long pair =
        static_cast<unsigned long long>(words[last == 0 ? kWords - 1 : last - 1]) << 32 | words[last];
    const unsigned long long window = pair >> (32 * (last + 1) - end);
#pragma unroll
    for (int j = 0; j < kWindow; j += 2) {
      const unsigned state0 = static_cast<unsigned>(window >> (kWindow - 1 - j) * Bits) & 0xFFFFu;
      const unsigned state1 = static_cast<unsigned>(window >> (kWindow - 2 - j) * Bits) & 0xFFFFu;
      a[kRegister[(first + j) / 2]] = weights_of<Book>(state0, state1);
    }
  }
}

}  // namespace moeplan
