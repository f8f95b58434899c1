// Buffers of the one-grid kernel for mixed bit widths: one state a capacity, individual tensors.
// Source: docs/memory.md section 4.
#pragma once

#include "planner/deployment/buffers.hpp"

namespace moeplan {

struct MixedShape {
  i64 hidden;        // H
  i64 intermediate;  // I, of this rank
  i64 experts;       // E, of all tiers together
  i64 top_k;
  i64 multiprocessors;
};

// The state for up to `capacity` tokens. Its route block is 8 in every engine seen.
std::vector<Buffer> mixed_state(const MixedShape& shape, i64 capacity);

}  // namespace moeplan
