// Device instructions of the Trellis kernels beside those of kernels/ptx.cuh, by the same rules; some exist
// from sm_90 on.
#pragma once

#include "kernels/ptx.cuh"

namespace moeplan::ptx {

// Waits at named barrier 1 to 15 for `Threads` threads; what they wrote before is seen behind it.
template <int Threads>
inline void barrier_sync(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(Threads) : "memory");
}
// Counts as one of those threads, without waiting for them.
template <int Threads>
inline void barrier_arrive(int barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(Threads) : "memory");
}

// A barrier in shared memory whose phases end when `count` have arrived.
inline void mbarrier_init(u64* barrier, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}
inline void arrive(u64* barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(barrier))
               : "memory");
}
// Waits for the end of a phase by its parity: the first one has parity 0, and the one before it counts as
// ended.
inline void wait_phase(u64* barrier, int parity) {
  // From sm_90 on a try may sleep for a while; before it can only ask.
#if __CUDA_ARCH__ >= 900
#define MOEPLAN_ASK "try_wait"
#else
#define MOEPLAN_ASK "test_wait"
#endif
  asm volatile("{ .reg .pred ended; WAIT: mbarrier." MOEPLAN_ASK
               ".parity.shared.b64 ended, [%0], %1; @!ended bra WAIT; }" ::"r"(shared_address(barrier)),
               "r"(parity)
               : "memory");
#undef MOEPLAN_ASK
}

// Adds, and returns what was there.
inline int fetch_add_shared(int* address, int value) {
  int before;
  asm volatile("atom.shared.add.s32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(shared_address(address)), "r"(value)
               : "memory");
  return before;
}

// Where shared memory is at that address. What is derived from it is computed from a register, in place of
// finding the block's shared memory anew.
inline unsigned char* shared_pointer(u32 address) {
  asm volatile("" : "+r"(address));
  return static_cast<unsigned char*>(__cvta_shared_to_generic(address));
}

// Starts copying 16 bytes from global memory to that address of shared memory, past the L1 cache.
inline void copy_async(u32 shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

// (value & mask) ^ flip: one instruction, where the compiler would make one of each.
inline u32 masked_and_flipped(u32 value, u32 mask, u32 flip) {
  u32 result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(result) : "r"(value), "r"(mask), "r"(flip));
  return result;
}

// The value of lane (own ^ mask).
inline u32 shuffle_xor(u32 value, int mask) {
  u32 other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(value), "r"(mask));
  return other;
}

// Two bf16 numbers, rounded to halves. A bf16 is the upper half of a float.
inline u32 halves_of_bfloat16s(u32 pair) {
  return halves_of(__builtin_bit_cast(float, pair << 16), __builtin_bit_cast(float, pair & 0xFFFF0000u));
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

}  // namespace moeplan::ptx
