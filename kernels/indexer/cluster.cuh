// The blocks that select from one row together: each reads what the others have in shared memory. Before
// sm_90 blocks cannot, and each is alone.
#pragma once

#include "kernels/indexer/instructions.cuh"
#include "planner/indexer/kernel_geometry.hpp"

namespace moeplan {

#if __CUDA_ARCH__ >= 900
constexpr bool kHasClusters = true;
#else
constexpr bool kHasClusters = false;
#endif

constexpr int kMostParts = static_cast<int>(kSelectParts);

class Cluster {
 public:
  explicit Cluster(int parts) : parts_(kHasClusters ? parts : 1) {}

  int parts() const { return parts_; }

  // Waits for all threads of all blocks, and sees what they wrote before.
  void sync() const {
    arrive();
    wait();
  }
  // The two halves of it. A block that is read by others waits for them before it ends.
  void arrive() const {
    if (parts_ > 1) ptx::cluster_arrive();
  }
  void wait() const {
    if (parts_ > 1)
      ptx::cluster_wait();
    else
      ptx::block_sync();
  }

  // The sum of a word of all blocks' shared memory, and of two that follow each other: all are asked at once.
  int sum(const int* word) const {
    int sum = 0;
#pragma unroll
    for (int part = 0; part < kMostParts; ++part)
      if (part < parts_) sum += ptx::load_cluster(of_part(word, part));
    return sum;
  }
  ptx::Pair sum_of_pair(const int* words) const {
    ptx::Pair sum{};
#pragma unroll
    for (int part = 0; part < kMostParts; ++part) {
      if (part >= parts_) continue;
      const ptx::Pair pair = ptx::load_cluster_pair(of_part(words, part));
      sum.first += pair.first;
      sum.second += pair.second;
    }
    return sum;
  }
  // A block's word, and a rank.
  int word_of(const int* word, int part) const { return ptx::load_cluster(of_part(word, part)); }
  ptx::u64 rank_of(const ptx::u64* rank, int part) const {
    const ptx::Pair pair = ptx::load_cluster_pair(of_part(rank, part));
    return ptx::u64{static_cast<ptx::u32>(pair.second)} << 32 | static_cast<ptx::u32>(pair.first);
  }

 private:
  static ptx::u32 of_part(const void* own, int part) {
    return ptx::cluster_address(ptx::address_in_shared(own), static_cast<ptx::u32>(part));
  }

  int parts_;
};

}  // namespace moeplan
