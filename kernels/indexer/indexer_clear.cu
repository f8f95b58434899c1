// indexer_clear: zeroes memory that the blocks of the launch behind it share.
#include "kernels/indexer/arguments.hpp"
#include "kernels/indexer/selection.cuh"

namespace moeplan {

extern "C" __global__ void __launch_bounds__(kClearThreads)
    indexer_clear(const __grid_constant__ IndexerClearArguments args) {
  ptx::wait_for_last_launch();
  ptx::release_next_launch();
  const i64 step = static_cast<i64>(gridDim.x) * kClearThreads * 16;
  for (i64 at = (static_cast<i64>(blockIdx.x) * kClearThreads + thread_id()) * 16; at < args.bytes;
       at += step)
    *reinterpret_cast<ptx::Words*>(args.memory + at) = {};
}

}  // namespace moeplan
