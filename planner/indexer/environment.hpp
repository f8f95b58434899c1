// The environment variables of the indexer: their names and the exact grammar of each. A planned process's
// environment is an input like any other; the planner's own is never consulted.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/core/environment.hpp"
#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"

namespace moeplan {

// Names follow the contract's prefix.
enum class IndexerVariable {
  supertile_k,
  fused,
  prefill_threshold,
  prefill_block_k,
  fold_mode,
  fold_max_mib,
  stream_scorer,
};
constexpr int kIndexerVariableCount = 7;
inline constexpr std::string_view kIndexerVariableNames[kIndexerVariableCount] = {
    "PAGED_INDEX_SUPERTILE_K",        "FUSED_INDEXER",          "NSA_CONTIGUOUS_PREFILL_THRESHOLD",
    "NSA_CONTIGUOUS_PREFILL_BLOCK_K", "INDEXER_TWO_LEVEL_FOLD", "INDEXER_TWO_LEVEL_FOLD_MAX_MIB",
    "INDEXER_STREAM_SCORER",
};

// text.strip().lower(), as far as it is ASCII: how the engine reads its words.
std::string normalised(std::string_view text);

enum class FoldMode { automatic, off, on };
enum class BlockKChoice { automatic, block_256, block_512 };

// The variables as one process was started with. Texts are only judged where a plan reads them: a variable
// that a route never reads must not be able to refuse it.
class IndexerEnvironment {
 public:
  // Variables without `prefix` belong to another planner and are ignored.
  IndexerEnvironment(std::string_view prefix, const Environment& variables);

  std::string name(IndexerVariable variable) const;  // with prefix

  Result<std::optional<i64>> supertile_k() const;      // none: unset
  bool fused_allowed() const;                          // off only for exactly "0"
  Result<std::optional<bool>> prefill_scorer() const;  // none: unset, rows decide
  Result<BlockKChoice> prefill_block_k() const;
  Result<FoldMode> fold_mode() const;
  Result<i64> fold_budget_bytes() const;
  bool stream_scorer() const;  // every word but 1, true, on, yes turns it off

  // An error about the text of `variable`.
  Error refuse(IndexerVariable variable, ErrorCode code, std::string_view what, std::string help) const;

 private:
  const std::optional<std::string>& text(IndexerVariable variable) const {
    return texts_[static_cast<int>(variable)];
  }

  std::string_view prefix_;
  std::optional<std::string> texts_[kIndexerVariableCount];
};

}  // namespace moeplan
