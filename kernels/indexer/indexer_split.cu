// indexer_split: the ends of rows, head and tail, and what lies between them. A block a request, whose rows
// have their ends at the same pages: those of the longest.
#include "kernels/indexer/arguments.hpp"
#include "kernels/indexer/pages.cuh"
#include "kernels/indexer/survivors.cuh"

namespace moeplan {
namespace {

constexpr int kThreads = static_cast<int>(kSplitThreads);
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");
constexpr int kPageTokens = static_cast<int>(kKernelPageSize);

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    indexer_split(const __grid_constant__ IndexerSplitArguments args) {
  ptx::wait_for_last_launch();
  ptx::release_next_launch();
  const Groups rows(args.source, 1);
  const int per_request = static_cast<int>(args.source.rows_per_request);
  const int first_row = static_cast<int>(blockIdx.x) * per_request;
  const int head = static_cast<int>(args.head_pages), ends = static_cast<int>(args.ends_pages);
  int pages = 0;
#pragma unroll 1
  for (int row = first_row; row < first_row + per_request; ++row) pages = max(pages, rows.pages(row));
  const int skipped = max(pages - ends, 0), head_tokens = head * kPageTokens;
  for (int row = first_row + thread_id(); row < first_row + per_request; row += kThreads) {
    const int length = rows.live_tokens(row), behind = (head + skipped) * kPageTokens;
    args.ends_lengths[row] = min(length, head_tokens) + max(length - behind, 0);
    args.middle_lengths[row] = min(length, behind);
    args.skipped_pages[row] = skipped;
    for (int list = 0; list < kLists; ++list) args.survivor_counts[count_at(list_of(row, list))] = 0;
  }
  const int* numbers = page_numbers(args.source, first_row);
  int* to = args.ends_table + offset_of(first_row, args.ends_pages);
#pragma unroll 4
  for (int page = thread_id(); page < min(pages, ends); page += kThreads)
    to[page] = numbers[page < head ? page : page + skipped];
}

}  // namespace moeplan
