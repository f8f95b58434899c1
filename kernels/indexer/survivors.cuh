// Where survivors of a step lie, as a word of the directory: the first of them and how many there are. A step
// has 32 tokens at most. And which list of a row they are in.
#pragma once

#include "kernels/indexer/arguments.hpp"
#include "planner/indexer/kernel_geometry.hpp"

namespace moeplan {

constexpr unsigned kCountBits = 6;

inline unsigned survivors_at(int first, int count) {
  return static_cast<unsigned>(first) << kCountBits | static_cast<unsigned>(count);
}
inline int first_survivor(unsigned word) { return static_cast<int>(word >> kCountBits); }

constexpr int kLists = static_cast<int>(kSurvivorLists);

inline int list_of(int row, int step) { return row * kLists + step % kLists; }
// Where a list's count is.
inline int count_at(int list) { return list * static_cast<int>(kCountWords); }
inline int count_of(unsigned word) { return static_cast<int>(word & ((1u << kCountBits) - 1)); }

}  // namespace moeplan
