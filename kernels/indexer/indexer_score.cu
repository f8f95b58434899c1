// indexer_score: the logits of a chunk of tokens (kernels/indexer/score_pages.cuh), a row behind the other.
#include "kernels/indexer/score_pages.cuh"

namespace moeplan {

extern "C" __global__ void __launch_bounds__(kThreads, kScoreBlocksPerSm)
    indexer_score(const __grid_constant__ IndexerScoreArguments args) {
  ptx::release_next_launch();
  const Groups groups(args.source, kRows);
  int* words = reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.words);
  const Share share =
      find_share<kThreads>(groups, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), words);
  if (share.count == 0) return;
  score_share(args, share);
}

}  // namespace moeplan
