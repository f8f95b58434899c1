// Device instructions: one PTX instruction, one function, one comment. All of them exist from sm_80 on.
// Halves travel as bits: two of them in an unsigned, the first in its low 16 bits.
#pragma once

namespace moeplan::ptx {

using u16 = unsigned short;
using u32 = unsigned;
using u64 = unsigned long long;

// ---- Threads of a block and of a warp. All threads of the group have to call. ----

// Waits for every thread of the block; what they wrote before is seen by all behind it.
inline void block_sync() { asm volatile("bar.sync 0;" ::: "memory"); }

// The same among the threads of a warp.
inline void warp_sync() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

// The value of lane (own ^ mask).
inline float shuffle_xor(float value, int mask) {
  float other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(value), "r"(mask));
  return other;
}

// The value of that lane.
inline int shuffle(int value, int lane) {
  int other;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(value), "r"(lane));
  return other;
}
inline float shuffle(float value, int lane) {
  float other;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(value), "r"(lane));
  return other;
}

// The value of lane (own - distance); lanes below `distance` get their own.
inline int shuffle_up(int value, int distance) {
  int other;
  asm volatile("shfl.sync.up.b32 %0, %1, %2, 0, 0xffffffff;" : "=r"(other) : "r"(value), "r"(distance));
  return other;
}

// The lanes that hold the same value, a bit each.
inline u32 match_any(int value) {
  u32 lanes;
  asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(lanes) : "r"(value));
  return lanes;
}

// The low 32 bits of (high, low) shifted right by shift modulo 32.
inline u32 funnel_right(u32 low, u32 high, u32 shift) {
  u32 word;
  asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(low), "r"(high), "r"(shift));
  return word;
}

// The value, as if it were another one: what follows from it is computed again, in place of being kept.
inline int opaque(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// How many bits are set.
inline int population(u32 bits) {
  int count;
  asm("popc.b32 %0, %1;" : "=r"(count) : "r"(bits));
  return count;
}

// ---- Shared memory and asynchronous copies. ----

// The block's dynamic shared memory.
inline unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return bytes;
}

// The address that instructions on shared memory take.
inline u32 shared_address(const void* pointer) {
  u64 address;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(pointer));
  return static_cast<u32>(address);
}

// Starts copying 16 bytes from global to shared memory past the L1 cache; those behind the first `bytes` are
// zeros and are not read.
inline void copy_async(void* shared, const void* global, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(bytes)
               : "memory");
}

// Closes a group: the thread's copies since the last one.
inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `Pending` of the thread's groups are still on their way.
template <int Pending>
inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// ---- Matrices of a warp. ----

// Four 8x8 matrices of halves. Lane l gives the address of row l % 8 (16 bytes) of matrix l / 8, and receives
// elements 2 * (l % 4) and the next of row l / 4 of each.
inline void load_matrices(u32 (&matrices)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(shared_address(row))
               : "memory");
}

// d (16x8, fp32) += a (16x16) * b (16x8), halves. With g = lane / 4 and t = 2 * (lane % 4):
//   a0: row g, columns t, t+1; a1: row g+8; a2: row g, columns t+8, t+9; a3: row g+8, those columns
//   b0: rows t, t+1 of column g; b1: rows t+8, t+9      d0, d1: row g, columns t, t+1; d2, d3: row g+8
inline void multiply_add(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same of bf16 numbers.
inline void multiply_add_bfloat16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- Halves, floats and bytes. ----

// Both floats rounded to halves.
inline u32 halves_of(float first, float second) {
  u32 halves;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(second), "f"(first));
  return halves;
}

// Both floats rounded to bf16 numbers.
inline u32 bfloat16s_of(float first, float second) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

// A half, exactly.
inline float float_of_half(u16 half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}

// a + b of both halves, rounded once.
inline u32 add_halves(u32 a, u32 b) {
  u32 sum;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}

// a * b of both halves, rounded once.
inline u32 multiply_halves(u32 a, u32 b) {
  u32 product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

// a * b + c of both halves, rounded once.
inline u32 fma_halves(u32 a, u32 b, u32 c) {
  u32 sum;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}

// The same of bf16 numbers.
inline u32 fma_bfloat16s(u32 a, u32 b, u32 c) {
  u32 sum;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}

// Four bytes of the eight of (high, low), by the selector's nibbles, lowest first.
inline u32 permute_bytes(u32 low, u32 high, u32 selector) {
  u32 bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selector));
  return bytes;
}

// sum + the products of the four unsigned bytes of a and b.
inline u32 dot_bytes(u32 a, u32 b, u32 sum) {
  u32 dot;
  asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(dot) : "r"(a), "r"(b), "r"(sum));
  return dot;
}

// 2 to the power of `exponent`, to 2 units in the last place.
inline float exp2_fast(float exponent) {
  float power;
  asm("ex2.approx.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}

// numerator / denominator, to 2 units in the last place.
inline float divide_fast(float numerator, float denominator) {
  float quotient;
  asm("div.full.f32 %0, %1, %2;" : "=f"(quotient) : "f"(numerator), "f"(denominator));
  return quotient;
}

// ---- Words that the blocks of a grid share. ----

// Adds, and returns what was there. Orders the thread's accesses before and behind it.
inline int fetch_add(int* address, int value) {
  int before;
  asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(address), "r"(value)
               : "memory");
  return before;
}

// What others wrote before they released the value that is read is seen behind it.
inline int load_acquire(const int* address) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

// Whoever acquires the value sees what was written before it.
inline void store_release(int* address, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

}  // namespace moeplan::ptx
