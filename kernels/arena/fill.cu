// Writes ranges of an allocation: the poison byte into what a plan hands out, a pattern of their place into
// its guards. All blocks walk over all ranges together.
#include "kernels/arena/arguments.hpp"

namespace moeplan {

static_assert(kArenaThreads == THREADS, "host and device disagree about the threads of a block");

// Single bytes of a range that lie before or behind its vectors; fewer than 16 on either side.
__device__ void fill_bytes(const ArenaFillArguments& arguments, const ArenaRange& range, i64 begin, i64 end,
                           i64 thread) {
  unsigned char* bytes = static_cast<unsigned char*>(arguments.allocation);
  const i64 offset = begin + thread;
  if (offset < end)
    bytes[offset] = static_cast<unsigned char>(expected_byte(range, offset, arguments.pattern));
}

__device__ void fill_vectors(const ArenaFillArguments& arguments, const ArenaRange& range,
                             RangeVectors vectors, i64 thread, i64 threads) {
  char* bytes = static_cast<char*>(arguments.allocation);
  const i64 stride = threads * kArenaVectorBytes;
  for (i64 offset = vectors.begin + thread * kArenaVectorBytes; offset < vectors.end; offset += stride) {
    const i64 word = offset / 8;
    *reinterpret_cast<ulonglong2*>(bytes + offset) = make_ulonglong2(
        expected_word(range, word, arguments.pattern), expected_word(range, word + 1, arguments.pattern));
  }
}

}  // namespace moeplan

extern "C" __global__ void __launch_bounds__(THREADS)
    arena_fill(const __grid_constant__ moeplan::ArenaFillArguments arguments) {
  using namespace moeplan;
  const i64 thread = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 threads = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = 0; i < arguments.range_count; ++i) {
    const ArenaRange range = arguments.ranges[i];
    const RangeVectors vectors = vectors_of(range);
    fill_bytes(arguments, range, range.begin, vectors.begin, thread);
    fill_vectors(arguments, range, vectors, thread, threads);
    fill_bytes(arguments, range, vectors.end, range.end, thread);
  }
}
