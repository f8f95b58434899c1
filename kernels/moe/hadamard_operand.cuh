// The 16-point Hadamard transform as an operand of the matrix units.
#pragma once

#include "kernels/ptx.cuh"

namespace moeplan {

// The operand leaves 1/16 of the transform's sums, which is exact; what 1 / sqrt 128 of a 128-point transform
// has beyond that multiplies the products' sums.
constexpr float kRotationRest = 1.4142135623730951f;

// Signs of the 16-point transform, times 1/16. With g = lane / 4 and q = lane % 4: row m = g + 8 h stands for
// bits (h, g0, g1, g2), column 2 q + p + 8 e for bits (p, e, q0, q1), in the same order.
inline void hadamard_operand(unsigned (&a)[4], int lane) {
  constexpr unsigned kSixteenths = 0x2C002C00u, kSigns = 0x80008000u, kSecondSign = 0x80000000u;
  const int g = lane / 4, q = lane % 4;
  a[0] = kSixteenths ^ (ptx::population(static_cast<unsigned>(g / 2 & q)) % 2 != 0 ? kSigns : 0u);
  a[1] = a[0] ^ kSecondSign;
  a[2] = a[0] ^ (g % 2 != 0 ? kSigns : 0u);
  a[3] = a[2] ^ kSecondSign;
}

}  // namespace moeplan
