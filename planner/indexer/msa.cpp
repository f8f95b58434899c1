#include "planner/indexer/msa.hpp"

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

using Tensor = IndexerTensor<MsaSizes>;
using S = const MsaSizes&;

constexpr bool is_paged(S s) { return s.pages > 0; }
constexpr Shape blocks_shape(S s) { return shape(s.heads, s.rows, msa_blocks(s.tokens)); }
constexpr Shape selected_shape(S s) { return shape(s.heads, s.rows, s.top_k); }

constexpr Tensor selected(std::string_view name, ElementType type) {
  return {{name, type, selected_shape, "H*R*K"}, kEveryRoute};
}

constexpr Tensor kTensors[] = {
    {{"msa_page_scores", ElementType::float32,
      [](S s) { return shape(s.heads, s.rows, align_up(s.pages, 2)); }, "H*R*up(W,2)"},
     kEveryRoute,
     is_paged},
    {{"msa_block_scores", ElementType::float32, blocks_shape, "H*R*max(1,cd(T,128))"}, kEveryRoute},
    selected("msa_q2k_indices", ElementType::int32),
    {{"msa_topk_score_scratch", ElementType::float32, blocks_shape, "H*R*max(1,cd(T,128))"}, kEveryRoute},
    selected("msa_topk_values", ElementType::float32),
    selected("msa_topk_indices", ElementType::int64),
    selected("msa_sort_values", ElementType::int32),
    selected("msa_sort_indices", ElementType::int64),
    {{"msa_expanded_page_table", ElementType::int32, [](S s) { return shape(s.heads * s.rows, s.pages); },
      "H*R*W"},
     kEveryRoute,
     is_paged},
    {{"msa_expanded_seqlens", ElementType::int32, [](S s) { return shape(s.heads * s.rows); }, "H*R"},
     kEveryRoute,
     is_paged},
};

}  // namespace

Result<ScoreMode> parse_score_mode(const std::optional<std::string>& text) {
  if (!text) return ScoreMode::nsa;
  std::string word = *text;
  for (char& c : word) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (word == "nsa") return ScoreMode::nsa;
  if (word == "msa") return ScoreMode::msa;
  return Error{ErrorCode::indexer_score_mode, "/caps/score_mode",
               concat("score_mode must be nsa or msa, got \"", *text, "\""), ""};
}

void place_msa_tensors(ArenaLayout& arena, const MsaSizes& sizes) {
  place_indexer_tensors<MsaSizes>(arena, kTensors, sizes, {});
}

}  // namespace moeplan
