// What an indexer call has to come to, in doubles and as plain loops: its logits, and whether a selection is
// the best of them. Shares no text with the kernels it judges.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planner/core/integer.hpp"

namespace moeplan::oracle {

// A call as a host sees it; rows of a table that is shared are repeated.
struct IndexerCall {
  i64 heads = 0;
  i64 rows = 0;
  i64 table_width = 0;              // pages
  std::vector<std::uint8_t> q;      // [rows, heads, 128]
  std::vector<float> weights;       // [rows, heads]
  std::vector<std::uint8_t> cache;  // pages of 64 * 128 numbers and 64 scales
  i64 page_stride = 0;
  std::vector<std::int32_t> page_table;  // [rows, table_width]
  std::vector<std::int32_t> lengths;     // [rows]
};

// Of the tokens that a row's page table covers: minus infinity where the row does not see one.
struct IndexerLogits {
  std::vector<double> values;
  std::vector<double> magnitudes;  // the sum of what the heads add, each as it is large
};
IndexerLogits indexer_logits(const IndexerCall& call, i64 row);

// What is wrong with a selection by logits that are off by up to `error`; "": nothing. Indices have to rise,
// with every token that is clearly among the best and none that clearly is not, padded by -1; scores have to
// be their tokens' own. What is no number comes before every number.
std::string selection_problem(std::span<const double> logits, double error,
                              std::span<const std::int32_t> indices, std::span<const float> scores);

// The selection itself, where the logits are known exactly: of equal ones those with the lowest indices.
std::vector<std::int32_t> exact_selection(std::span<const float> logits, i64 top_k);

}  // namespace moeplan::oracle
