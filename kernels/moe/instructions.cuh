// Device instructions of the Trellis kernels beside those of kernels/ptx.cuh, by the same rules.
#pragma once

#include "kernels/ptx.cuh"

namespace moeplan::ptx {

// The value of lane (own ^ mask).
inline u32 shuffle_xor(u32 value, int mask) {
  u32 other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(value), "r"(mask));
  return other;
}

// Starts copying 16 bytes from global memory to a shared address past the L1 cache, or does nothing.
inline void copy_async_if(bool is_copied, u32 shared, const void* global) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16;}" ::"r"(shared),
      "l"(global), "r"(static_cast<u32>(is_copied))
      : "memory");
}

// load_matrices of rows by their shared addresses, to which the instruction adds what is known of them.
inline void load_matrices(u32 (&matrices)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(row)
               : "memory");
}

// The sum of the two halves of `first`, then that of `second`, rounded once each.
inline u32 sums_of_halves(u32 first, u32 second) {
  u32 sums;
  asm("{.reg .b16 a, b, c, d; mov.b32 {a, b}, %1; mov.b32 {c, d}, %2; add.rn.f16 a, a, b; add.rn.f16 c, c, "
      "d; "
      "mov.b32 %0, {a, c};}"
      : "=r"(sums)
      : "r"(first), "r"(second));
  return sums;
}

// (bits & mask) ^ flips.
inline u32 mask_and_flip(u32 bits, u32 mask, u32 flips) {
  u32 result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(result) : "r"(bits), "r"(mask), "r"(flips));
  return result;
}

}  // namespace moeplan::ptx
