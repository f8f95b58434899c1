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

  // Waits for all threads of all blocks, and sees what they wrote to their own shared memory before.
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

  // What a block has at an address of the own shared memory.
  int word_of(const int* word, int part) const { return ptx::load_cluster(of_part(word, part)); }
  ptx::Four four_of(const int* words, int part) const { return ptx::load_cluster_four(of_part(words, part)); }
  ptx::Pair pair_of(const void* words, int part) const {
    return ptx::load_cluster_pair(of_part(words, part));
  }

 private:
  static ptx::u32 of_part(const void* own, int part) {
    return ptx::cluster_address(ptx::address_in_shared(own), static_cast<ptx::u32>(part));
  }

  int parts_;
};

}  // namespace moeplan
