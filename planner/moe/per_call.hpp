// Per-call buffers: what the runtime allocates for one launch of exactly m tokens without a plan. Also the
// only sizing there is for nf3_2p1 kernels. Source: docs/contracts.md section 8.
#pragma once

#include <optional>

#include "planner/core/contract.hpp"

namespace moeplan {

struct PerCallShape {
  i64 tokens;  // m
  i64 top_k;
  i64 experts;       // E
  i64 hidden;        // k
  i64 intermediate;  // n
  i64 multiprocessors;
  bool gated;
  bool full_rotation;
  std::optional<i64> route_experts;  // rE; zero is taken literally
  std::optional<i64> block_size;     // pin
};

// Element counts, but for block_size.
struct PerCallBuffers {
  i64 routed_rows;
  i64 fc1_columns;
  i64 block_size;
  i64 route_slots;
  i64 route_blocks;
  i64 fc1_scratch;
  i64 fc2_scratch;
  i64 intermediate_cache13;
  i64 intermediate_cache2;
  i64 rotation_a;
};

// `shape` values are positive and within limits.hpp; block_size, if given, is one of kBlockSizes.
PerCallBuffers size_per_call(const Contract& contract, const PerCallShape& shape);

}  // namespace moeplan
