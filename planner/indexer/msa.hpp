// The MSA tail: tensors that score_mode msa appends to an arena, whatever its route.
#pragma once

#include <optional>
#include <string>

#include "planner/core/result.hpp"
#include "planner/indexer/tensors.hpp"

namespace moeplan {

enum class ScoreMode { nsa, msa };

// "nsa" or "msa" in any letter case; nsa when absent.
Result<ScoreMode> parse_score_mode(const std::optional<std::string>& text);

struct MsaSizes {
  i64 heads;  // H
  i64 rows;
  i64 top_k;
  i64 tokens;
  i64 pages;  // of a paged source; 0: contiguous
};
void place_msa_tensors(ArenaLayout& arena, const MsaSizes& sizes);

}  // namespace moeplan
