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

// Policies of the L2 cache: what is to leave it first, and last. They are what createpolicy.fractional makes
// of 1.0, from sm_80 to sm_120, which as a number takes no instructions.
constexpr u64 kFirstToLeave = 0x12F0000000000000;
constexpr u64 kLastToLeave = 0x14F0000000000000;

// Stores what is read soon: it stays in the L2 cache.
inline void store_kept(float* address, float value) {
  asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(address), "f"(value), "l"(kLastToLeave)
               : "memory");
}

// The address that instructions on shared memory take, as the compiler can reckon with it.
inline u32 address_in_shared(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// load_matrices, copy_async and a load by such addresses, to which the instruction adds what is known of
// them.
inline void load_matrices(u32 (&matrices)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(row)
               : "memory");
}
inline void copy_async(u32 shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}
// The copy is of what is seldom read again.
inline void copy_async_once(u32 shared, const void* global) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
               "l"(kFirstToLeave)
               : "memory");
}
inline float load_shared(u32 address) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

// The lower two of four e4m3 numbers, and the upper two, as halves: exact.
#if __CUDA_ARCH__ >= 890
inline u32 halves_of_e4m3(u32 four) {
  u32 halves;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, low; }"
      : "=r"(halves)
      : "r"(four));
  return halves;
}
inline u32 upper_halves_of_e4m3(u32 four) {
  u32 halves;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, high; }"
      : "=r"(halves)
      : "r"(four));
  return halves;
}
#else
inline u32 halves_of_e4m3(u32 four) {
  // Sign, exponent and mantissa at their places leave 2^-8 of the value: the exponents' biases differ by 8.
  const u32 spread = permute_bytes(four, 0, 0x1404);
  const u32 magnitude = (spread & 0x7F007F00u) >> 1;
  return multiply_halves((spread & 0x80008000u) | magnitude, 0x5C005C00u);
}
inline u32 upper_halves_of_e4m3(u32 four) { return halves_of_e4m3(four >> 16); }
#endif

// The lanes for which it is true, a bit each.
inline u32 ballot(bool value) {
  u32 lanes;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
               : "=r"(lanes)
               : "r"(static_cast<u32>(value)));
  return lanes;
}

// The sum of a warp's values.
inline int warp_sum(int value) {
  int sum;
  asm volatile("redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(sum) : "r"(value));
  return sum;
}

// The value of that lane.
inline u64 shuffle(u64 value, int lane) {
  const u32 high = static_cast<u32>(ptx::shuffle(static_cast<int>(value >> 32), lane));
  return u64{high} << 32 | static_cast<u32>(ptx::shuffle(static_cast<int>(value), lane));
}

// Adds to a word of shared memory.
inline void add_shared(int* address, int value) {
  asm volatile("red.shared.add.s32 [%0], %1;" ::"r"(address_in_shared(address)), "r"(value) : "memory");
}

// Adds one. Lanes that count the same word take no longer than others.
inline void count_shared(int* address) {
  asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(address_in_shared(address)) : "memory");
}

// Both floats as halves, rounded toward zero; NaN is 0x7FFF.
inline u32 truncated_halves_of(float first, float second) {
  u32 halves;
  asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(second), "f"(first));
  return halves;
}

// Adds to a word of shared memory, and returns what was there.
inline int fetch_add_shared(int* address, int value) {
  int before;
  asm volatile("atom.shared.add.s32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(address_in_shared(address)), "r"(value)
               : "memory");
  return before;
}

// Zeros above the highest bit that is set; 64 of zero.
inline int leading_zeros(u64 value) {
  int zeros;
  asm("clz.b64 %0, %1;" : "=r"(zeros) : "l"(value));
  return zeros;
}

// ---- Blocks of a cluster: from sm_90 on. Before, a block is a cluster of its own. ----

// Words of shared memory that follow each other.
struct alignas(8) Pair {
  int first;
  int second;
};
struct alignas(16) Four {
  int word[4];
};

#if __CUDA_ARCH__ >= 900
// Says that the thread is there; what it wrote to its block's shared memory before is seen by all threads of
// the cluster that wait.
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 8)
inline void cluster_arrive() {
  asm volatile("fence.release.sync_restrict::shared::cta.cluster; barrier.cluster.arrive.relaxed.aligned;" ::
                   : "memory");
}
#else
// Of global memory too, which takes longer.
inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
#endif
// Waits for all threads of the cluster.
inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Where an address of the own shared memory lies in that of a block.
inline u32 cluster_address(u32 address, u32 block) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
  return there;
}
#define MOEPLAN_CLUSTER_SPACE "shared::cluster"
#else
inline void cluster_arrive() {}
inline void cluster_wait() { block_sync(); }
inline u32 cluster_address(u32 address, u32) { return address; }
#define MOEPLAN_CLUSTER_SPACE "shared"
#endif

// Words at such an address: a multiple of their size.
inline Four load_cluster_four(u32 address) {
  Four four;
  asm volatile("ld." MOEPLAN_CLUSTER_SPACE ".v4.s32 {%0, %1, %2, %3}, [%4];"
               : "=r"(four.word[0]), "=r"(four.word[1]), "=r"(four.word[2]), "=r"(four.word[3])
               : "r"(address)
               : "memory");
  return four;
}
inline Pair load_cluster_pair(u32 address) {
  Pair pair;
  asm volatile("ld." MOEPLAN_CLUSTER_SPACE ".v2.s32 {%0, %1}, [%2];"
               : "=r"(pair.first), "=r"(pair.second)
               : "r"(address)
               : "memory");
  return pair;
}
inline int load_cluster(u32 address) {
  int word;
  asm volatile("ld." MOEPLAN_CLUSTER_SPACE ".s32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}
#undef MOEPLAN_CLUSTER_SPACE

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

// Adds to a word that all blocks share, and returns what was there. Orders nothing else.
inline int claim(int* address, int value) {
  int before;
  asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(address), "r"(value)
               : "memory");
  return before;
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
