// Compares ranges of an allocation with what fill.cu wrote there and reduces, for each range, to
//   how many bytes differ, and the offsets of the first and the last that do.
// All blocks walk over all ranges together; a warp that saw a difference adds it with three atomics.
#include "kernels/arena/arguments.hpp"

namespace moeplan {

static_assert(kArenaThreads == THREADS, "host and device disagree about the threads of a block");

constexpr unsigned kWholeWarp = 0xffffffffu;
constexpr i64 kVectorsInFlight = 4;  // of one thread

// `changed`: the word that is there, exclusive-or the one expected. `offset`: of its lowest byte.
__device__ void add_word(ArenaDifference& seen, u64 changed, i64 offset) {
  const u64 marks = nonzero_bytes(changed);
  if (marks == 0) return;
  seen.bytes += __popcll(marks);
  seen.first = min_of(seen.first, offset + (__ffsll(static_cast<i64>(marks)) - 1) / 8);
  seen.last = max_of(seen.last, offset + (63 - __clzll(static_cast<i64>(marks))) / 8);
}

// Single bytes of a range that lie before or behind its vectors; fewer than 16 on either side.
__device__ void scan_bytes(ArenaDifference& seen, const ArenaScanArguments& arguments,
                           const ArenaRange& range, i64 begin, i64 end, i64 thread) {
  const unsigned char* bytes = static_cast<const unsigned char*>(arguments.allocation);
  const i64 offset = begin + thread;
  if (offset < end) add_word(seen, bytes[offset] ^ expected_byte(range, offset, arguments.pattern), offset);
}

__device__ void compare_vector(ArenaDifference& seen, const ArenaScanArguments& arguments,
                               const ArenaRange& range, ulonglong2 found, i64 offset) {
  const i64 word = offset / 8;
  add_word(seen, found.x ^ expected_word(range, word, arguments.pattern), offset);
  add_word(seen, found.y ^ expected_word(range, word + 1, arguments.pattern), offset + 8);
}

__device__ void scan_vectors(ArenaDifference& seen, const ArenaScanArguments& arguments,
                             const ArenaRange& range, RangeVectors vectors, i64 thread, i64 threads) {
  const char* bytes = static_cast<const char*>(arguments.allocation);
  const i64 stride = threads * kArenaVectorBytes;
  i64 offset = vectors.begin + thread * kArenaVectorBytes;
  // Loads first, so that memory works on several while none is waited for.
  for (; offset + (kVectorsInFlight - 1) * stride < vectors.end; offset += kVectorsInFlight * stride) {
    ulonglong2 found[kVectorsInFlight];
#pragma unroll
    for (int i = 0; i < kVectorsInFlight; ++i)
      found[i] = *reinterpret_cast<const ulonglong2*>(bytes + offset + i * stride);
#pragma unroll
    for (int i = 0; i < kVectorsInFlight; ++i)
      compare_vector(seen, arguments, range, found[i], offset + i * stride);
  }
  for (; offset < vectors.end; offset += stride)
    compare_vector(seen, arguments, range, *reinterpret_cast<const ulonglong2*>(bytes + offset), offset);
}

__device__ void reduce_warp(ArenaDifference& seen) {
  for (int distance = 16; distance > 0; distance /= 2) {
    seen.bytes += __shfl_xor_sync(kWholeWarp, seen.bytes, distance);
    seen.first = min_of(seen.first, __shfl_xor_sync(kWholeWarp, seen.first, distance));
    seen.last = max_of(seen.last, __shfl_xor_sync(kWholeWarp, seen.last, distance));
  }
}

__device__ void add_to(ArenaDifference& whole, const ArenaDifference& seen) {
  atomicAdd(reinterpret_cast<u64*>(&whole.bytes), static_cast<u64>(seen.bytes));
  atomicMin(&whole.first, seen.first);
  atomicMax(&whole.last, seen.last);
}

}  // namespace moeplan

extern "C" __global__ void __launch_bounds__(THREADS)
    arena_scan(const __grid_constant__ moeplan::ArenaScanArguments arguments) {
  using namespace moeplan;
  const i64 thread = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 threads = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = 0; i < arguments.range_count; ++i) {
    const ArenaRange range = arguments.ranges[i];
    const RangeVectors vectors = vectors_of(range);
    ArenaDifference seen;
    scan_bytes(seen, arguments, range, range.begin, vectors.begin, thread);
    scan_vectors(seen, arguments, range, vectors, thread, threads);
    scan_bytes(seen, arguments, range, vectors.end, range.end, thread);
    if (!__any_sync(kWholeWarp, seen.bytes != 0)) continue;
    reduce_warp(seen);
    if (threadIdx.x % 32 == 0) add_to(arguments.differences[i], seen);
  }
}
