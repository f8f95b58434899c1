// indexer_gather: the keys of a chunk of pages that all rows share, one behind the other, with their scales
// behind each other too; and where each row's tokens begin and end in the chunk. A block a page. Pages that
// are not there are left as they are: the scorer looks at the page table too.
#include "kernels/indexer/arguments.hpp"
#include "kernels/indexer/pages.cuh"
#include "planner/indexer/kernel_geometry.hpp"

namespace moeplan {
namespace {

constexpr int kThreads = static_cast<int>(kGatherThreads);
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");

struct alignas(16) Granule {
  u32 words[4];
};

inline void copy_granules(unsigned char* to, const unsigned char* from, int granules) {
  for (int i = thread_id(); i < granules; i += kThreads)
    reinterpret_cast<Granule*>(to)[i] = reinterpret_cast<const Granule*>(from)[i];
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    indexer_gather(const __grid_constant__ IndexerGatherArguments args) {
  const Groups rows(args.source, 1);
  const int block = static_cast<int>(blockIdx.x);
  for (i64 row = block * kThreads + thread_id(); row < args.source.rows;
       row += static_cast<i64>(gridDim.x) * kThreads) {
    args.contiguous_lengths[row] = 0;
    args.runtime_lengths[row] = rows.live_tokens(static_cast<int>(row));
  }
  const i64 number = page_numbers(args.source, 0)[block];
  if (number < 0) return;
  copy_granules(args.quants + block * kPageKeyBytes, args.source.quants + number * args.source.quant_stride,
                static_cast<int>(kPageKeyBytes) / 16);
  copy_granules(args.scales + block * kPageScaleBytes, args.source.scales + number * args.source.scale_stride,
                static_cast<int>(kPageScaleBytes) / 16);
}

}  // namespace moeplan
