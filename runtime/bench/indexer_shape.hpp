// The calls of an indexer that are timed: shapes, the plans that they run in, and what has to be moved for
// them.
#pragma once

#include <string>

#include "planner/core/result.hpp"
#include "planner/indexer/layout.hpp"
#include "planner/indexer/request.hpp"
#include "runtime/indexer/indexer_kernels.hpp"

namespace moeplan {

inline constexpr i64 kDefaultTopK = 2048;

struct IndexerShape {
  i64 heads = 0;
  i64 rows = 0;
  i64 rows_per_request = 1;  // that share their request's pages; all of a prefill's
  i64 context = 0;           // tokens, whole pages; every row sees all of them
  i64 top_k = kDefaultTopK;
  bool is_prefill = false;
  bool operator==(const IndexerShape&) const = default;

  i64 requests() const { return rows / rows_per_request; }
};

// "128k", "64"
std::string tokens_text(i64 tokens);
// "32 heads 48x128k groups of 4"
std::string name_of(const IndexerShape& shape);

// Bytes that a scorer and a selector with logits in between move: of each request's tokens keys and scales
// once, and of each row's tokens logits once out and once back. Queries, weights, page tables and results are
// left out. One kernel that keeps its logits to itself could do with less.
inline constexpr i64 kFloorRequestBytes = kKeyElements + kKeyScaleBytes;
inline constexpr i64 kFloorRowBytes = 2 * 4;
i64 floor_bytes(const IndexerShape& shape);

// Bytes of a call's queries and of their heads' weights.
constexpr i64 query_bytes(const IndexerShape& shape) {
  return shape.rows * shape.heads * (kKeyElements + static_cast<i64>(sizeof(float)));
}

// Calls that replays go through in turn: keys, queries and weights of all of them are several times what the
// L2 cache holds, but where so many calls would be a great many.
i64 calls_of(const IndexerShape& shape, i64 l2_bytes);

// A shape with the plan that it runs in.
struct IndexerCase {
  IndexerShape shape;
  std::string plan_id;
  IndexerLayout layout;
  IndexerPlan plan;
};

// What a plan of just this shape is asked for, of the device that the contract's engine runs on.
IndexerRequest request_of(const IndexerShape& shape, const Contract& contract);

// In the plan of a request that has room for the shape, made for so many multiprocessors. Error: the planner
// refuses it, or `no_kernels`.
Result<IndexerCase> indexer_case(const IndexerShape& shape, std::string plan_id, IndexerRequest request,
                                 i64 multiprocessors);

}  // namespace moeplan
