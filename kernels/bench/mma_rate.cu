// How fast tensor cores multiply halves and add floats: every warp multiplies the same registers again and
// again into sums of its own, side by side, so that nothing but the rate of the instruction limits it. Memory
// is written once, at the end.
//   flops = blocks * warps * rounds * kMmaRateSums * 2 * 16 * 8 * 16
#include "kernels/bench/arguments.hpp"
#include "kernels/ptx.cuh"

namespace moeplan {

static_assert(kMmaRateThreads == THREADS, "host and device disagree about the threads of a block");

namespace {

// Two halves of sizes from 1 to 2, either sign; others for another seed: operands of zeros would draw less
// power, and let clocks run higher than any work does.
inline unsigned some_halves(unsigned seed) {
  const unsigned bits = (seed + 1) * 0x9E3779B1u;
  return ((bits ^ bits >> 15) & 0x83FF83FFu) | 0x3C003C00u;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    mma_rate(const __grid_constant__ MmaRateArguments args) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned a[4];
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) a[i] = some_halves(6 * thread + i);
  const unsigned b0 = some_halves(6 * thread + 4), b1 = some_halves(6 * thread + 5);
  // Each from another start: equal ones could be computed once.
  float sums[kMmaRateSums][4];
#pragma unroll
  for (int i = 0; i < kMmaRateSums; ++i)
    sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = static_cast<float>(i);
  for (i64 round = 0; round < args.rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kMmaRateSums; ++i) ptx::multiply_add(sums[i], a, b0, b1);
  }
  float total = 0;
#pragma unroll
  for (int i = 0; i < kMmaRateSums; ++i) total += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
  args.out[thread] = total;
}

}  // namespace moeplan
