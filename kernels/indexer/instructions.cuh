// Instructions that the indexer kernels need beside those of kernels/ptx.cuh: one instruction, one function,
// one comment.
#pragma once

#include "kernels/ptx.cuh"

// Whether tensor cores multiply e4m3 numbers as they are. Elsewhere the compiler would unpack both operands
// of every multiplication, so kernels unpack them once.
#if __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200
#define MOEPLAN_NATIVE_E4M3 1
#else
#define MOEPLAN_NATIVE_E4M3 0
#endif

namespace moeplan::ptx {

#if MOEPLAN_NATIVE_E4M3
// d (16x8, fp32) += a (16x32) * b (32x8), e4m3. With g = lane / 4 and t = 4 * (lane % 4):
//   a0: row g, columns t to t+3; a1: row g+8; a2: row g, columns t+16 to t+19; a3: row g+8, those columns
//   b0: rows t to t+3 of column g; b1: rows t+16 to t+19        d as in multiply_add
inline void multiply_add_e4m3(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// Two e4m3 numbers, the first in the low byte, as halves: exact.
inline u32 halves_of_e4m3(u32 pair) {
#if __CUDA_ARCH__ >= 890
  u32 halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<u16>(pair)));
  return halves;
#else
  // Sign, exponent and mantissa at their places leave 2^-8 of the value: the exponents' biases differ by 8.
  const u32 spread = permute_bytes(pair, 0, 0x1404);
  const u32 magnitude = (spread & 0x7F007F00u) >> 1;
  return multiply_halves((spread & 0x80008000u) | magnitude, 0x5C005C00u);
#endif
}

// The lanes for which it is true, a bit each.
inline u32 ballot(bool value) {
  u32 lanes;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
               : "=r"(lanes)
               : "r"(static_cast<u32>(value)));
  return lanes;
}

// The smallest and the largest value of a warp.
inline u32 warp_min(u32 value) {
  u32 least;
  asm volatile("redux.sync.min.u32 %0, %1, 0xffffffff;" : "=r"(least) : "r"(value));
  return least;
}
inline u32 warp_max(u32 value) {
  u32 most;
  asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(most) : "r"(value));
  return most;
}

// The sum of a warp's values.
inline int warp_sum(int value) {
  int sum;
  asm volatile("redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(sum) : "r"(value));
  return sum;
}

// Adds to a word of shared memory.
inline void add_shared(int* address, int value) {
  asm volatile("red.shared.add.s32 [%0], %1;" ::"r"(shared_address(address)), "r"(value) : "memory");
}

// Adds to a word of shared memory, and returns what was there.
inline int fetch_add_shared(int* address, int value) {
  int before;
  asm volatile("atom.shared.add.s32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(shared_address(address)), "r"(value)
               : "memory");
  return before;
}

// Zeros above the highest bit that is set; 64 of zero.
inline int leading_zeros(u64 value) {
  int zeros;
  asm("clz.b64 %0, %1;" : "=r"(zeros) : "l"(value));
  return zeros;
}

// Global memory as other blocks have left it: not out of the L1 cache.
struct alignas(16) Words {
  int word[4];
};
inline Words load_current(const Words* address) {
  Words words;
  asm volatile("ld.global.cg.v4.s32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.word[0]), "=r"(words.word[1]), "=r"(words.word[2]), "=r"(words.word[3])
               : "l"(address)
               : "memory");
  return words;
}
inline int load_current(const int* address) {
  int word;
  asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(word) : "l"(address) : "memory");
  return word;
}
inline u64 load_current(const u64* address) {
  u64 pair;
  asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(pair) : "l"(address) : "memory");
  return pair;
}

// Adds to a word of global memory, and returns what was there; orders nothing.
inline int fetch_add_unordered(int* address, int value) {
  int before;
  asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(address), "r"(value)
               : "memory");
  return before;
}

// Adds to a word of global memory.
inline void add_global(int* address, int value) {
  asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

// ---- Launches that follow one another. Before sm_90 none overlap. ----

// Lets the next launch start where it was asked to overlap with this one.
inline void release_next_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Waits for the end of the launch before, and for what it wrote, where this one was asked to overlap with it.
inline void wait_for_last_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The bits of a float, and the float of bits.
inline u32 bits_of(float value) {
  u32 bits;
  asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}
inline float float_of(u32 bits) {
  float value;
  asm("mov.b32 %0, %1;" : "=f"(value) : "r"(bits));
  return value;
}

}  // namespace moeplan::ptx
