// indexer_score: the logits of a chunk of tokens, a row behind the other.
#include "kernels/indexer/scorer.cuh"

namespace moeplan {
namespace {

// Stores all logits.
struct Store {
  const IndexerScoreArguments& args;
  int first_row = 0;

  void start(int row, int) { first_row = row; }
  void finish() const {}
  void operator()(int row, int step, u32 token, float logit) const {
    const u32 of_row = static_cast<u32>(step * kStepTokens) + token;
    if (has_token())
      ptx::store_kept(args.logits + (offset_of(first_row + row, args.logits_stride) + of_row), logit);
  }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, score_blocks_per_sm(kTile))
    indexer_score(const __grid_constant__ IndexerScoreArguments args) {
  // The next launch takes that before this one to have ended with it.
  if (!args.follows_selection) ptx::wait_for_last_launch();
  ptx::release_next_launch();
  Store store{args};
  score(args, store);
}

}  // namespace moeplan
