// A barrier over all blocks of a grid. They all have to be resident: launched cooperatively.
#pragma once

#include "kernels/ptx.cuh"

namespace moeplan {

// Two words of global memory, zero before the first barrier of a launch.
struct GridBarrier {
  int* count;  // blocks that have arrived
  int* sense;  // changes when the last one has
};

// The barrier number `Index` of a launch that has `Barriers` of them. The last one leaves both words at zero
// again, so that the next launch needs no reset.
template <int Index, int Barriers>
inline void grid_sync(GridBarrier barrier) {
  static_assert(Barriers >= 2, "the sense has to differ from one barrier to the next");
  constexpr int kSense = (Index + 1) % Barriers;
  // One thread speaks for its block: the block's writes are ordered before its arrival, and what others wrote
  // before theirs is seen by the whole block behind.
  ptx::block_sync();
  if (threadIdx.x == 0) {
    if (ptx::fetch_add(barrier.count, 1) == static_cast<int>(gridDim.x) - 1) {
      *barrier.count = 0;
      ptx::store_release(barrier.sense, kSense);
    } else {
      while (ptx::load_acquire(barrier.sense) != kSense) {
      }
    }
  }
  ptx::block_sync();
}

}  // namespace moeplan
