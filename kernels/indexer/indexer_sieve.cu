// indexer_sieve: of the middles of rows, the tokens that can still be among the best. What was selected from
// a row's ends says how good they have to be. They go to the row's survivors in the order in which warps come
// by; the directory says where those of every step lie.
#include "kernels/indexer/scorer.cuh"
#include "kernels/indexer/survivors.cuh"

namespace moeplan {
namespace {

// A lane's token becomes that of the lane's number. Lanes without one receive another's.
inline float in_order(float logit) {
  return ptx::shuffle(logit, lane_id() % 8 * 4 + lane_id() / 8 % 2 + lane_id() / 16 * 2);
}

// What its tokens have to be, to be kept: a word of shared memory each, where no sums are any longer.
struct Limits {
  float floor[kMostTileRows];  // logits are greater
  int end[kMostTileRows];      // tokens, from the middle's first, come before it
};
static_assert(sizeof(Limits) <= 4 * (kWordShare - kWordSums));
inline Limits& limits() {
  return *reinterpret_cast<Limits*>(ptx::dynamic_shared() + kShared.words + kWordSums * 4);
}

// To be told where to put what is kept takes long. So it is put there a step later, where there are registers
// for it.
constexpr bool kPutsLate = kWarps < 8;

// What a warp keeps.
class Keep {
 public:
  explicit Keep(const IndexerSieveArguments& args) : args_(args) {}

  void start(int first_row, int rows) {
    const int i = thread_id(), begin = static_cast<int>(args_.source.begin);
    if (i < rows) {
      // Of equal logits, one of the middle comes before those of the tail, and behind those of the head.
      const u64 least = args_.least_ranks[first_row + i];
      limits().floor[i] = floor_behind(least, ~static_cast<u32>(least) >= static_cast<u32>(begin));
      limits().end[i] = args_.source.lengths[first_row + i] - begin;
    }
    ptx::block_sync();
  }

  void operator()(int row, int step, u32, float logit) {
    if constexpr (kPutsLate) put();
    row_ = row;
    step_ = step;
    lanes_ = 0;
    // Mostly none of a step passes, in whatever order.
    const float floor = limits().floor[row];
    if (ptx::ballot(!(logit <= floor)) != 0) {
      logit_ = in_order(logit);
      const bool is_there = lane_id() < kStepTokens && step * kStepTokens + lane_id() < limits().end[row];
      lanes_ = ptx::ballot(is_there && !(logit_ <= floor));
      if (lanes_ != 0 && lane_id() == 0)
        first_ = ptx::claim(args_.survivor_counts + count_at(list_of(row_of_call(), step)),
                            ptx::population(lanes_));
    }
    if constexpr (!kPutsLate) finish();
  }

  void finish() {
    put();
    step_ = -1;
  }

 private:
  int row_of_call() const { return shared_walk(false).row + row_; }

  // What was kept last.
  void put() const {
    if (step_ < 0) return;
    const int row = row_of_call();
    if (lane_id() == 0)
      args_.directory[offset_of(row, args_.directory_stride) + step_] =
          survivors_at(first_, ptx::population(lanes_));
    if (lanes_ == 0) return;
    const int place = ptx::shuffle(first_, 0) + ptx::population(lanes_ & lanes_below());
    if ((lanes_ >> lane_id() & 1) && place < args_.capacity)
      args_.survivors[offset_of(list_of(row, step_), args_.capacity) + place] = {
          logit_, static_cast<int>(args_.source.begin) + step_ * kStepTokens + lane_id()};
  }

  const IndexerSieveArguments& args_;
  int row_ = 0;  // of the group
  int step_ = -1;
  u32 lanes_ = 0;  // that keep what they have
  float logit_ = 0;
  int first_ = 0;  // of lane 0: the first of them
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, score_blocks_per_sm(kTile))
    indexer_sieve(const __grid_constant__ IndexerSieveArguments args) {
  ptx::release_next_launch();
  // Leaves registers for what is known of a row.
  constexpr int kTilePairs = kMostTilePairs < 2 ? kMostTilePairs : 2;
  Keep keep(args);
  score<kTilePairs>(args, keep);
}

}  // namespace moeplan
