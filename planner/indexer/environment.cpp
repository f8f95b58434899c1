#include "planner/indexer/environment.hpp"

#include "planner/core/limits.hpp"
#include "planner/core/python_int.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

using Variable = IndexerVariable;

template <class... Words>
bool is_one_of(std::string_view text, Words... words) {
  return ((text == words) || ...);
}

}  // namespace

std::string normalised(std::string_view text) {
  std::string out(strip_python_space(text));
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

IndexerEnvironment::IndexerEnvironment(std::string_view prefix, const Environment& variables)
    : prefix_(prefix) {
  for (const auto& [name, value] : variables) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = std::string_view(name).substr(prefix.size());
    for (int i = 0; i < kIndexerVariableCount; ++i) {
      if (kIndexerVariableNames[i] == rest) texts_[i] = value;
    }
  }
}

std::string IndexerEnvironment::name(Variable variable) const {
  return concat(prefix_, kIndexerVariableNames[static_cast<int>(variable)]);
}

Error IndexerEnvironment::refuse(Variable variable, ErrorCode code, std::string_view what,
                                 std::string help) const {
  const std::string full = name(variable);
  return Error{code, concat("/env/", full), concat(full, what), std::move(help)};
}

Result<std::optional<i64>> IndexerEnvironment::supertile_k() const {
  const auto& value = text(Variable::supertile_k);
  if (!value) return std::optional<i64>{};
  if (const auto number = parse_python_int(*value)) return std::optional<i64>{*number};
  return refuse(Variable::supertile_k, ErrorCode::invalid_environment,
                concat(" must be an integer, got '", *value, "'"),
                "write decimal digits, for example 32768, or leave it unset");
}

bool IndexerEnvironment::fused_allowed() const {
  const auto& value = text(Variable::fused);
  return !value || *value != "0";
}

Result<std::optional<bool>> IndexerEnvironment::prefill_scorer() const {
  const auto& value = text(Variable::prefill_threshold);
  if (!value) return std::optional<bool>{};
  // Despite its name the number is no threshold: its sign alone turns the scorer on or off.
  if (const auto number = parse_python_int(*value)) return std::optional<bool>{*number > 0};
  return refuse(Variable::prefill_threshold, ErrorCode::invalid_environment,
                concat(" must be an integer, got '", *value, "'"),
                "write 1 for the prefill scorer, 0 against it, or leave it unset");
}

Result<BlockKChoice> IndexerEnvironment::prefill_block_k() const {
  const auto& value = text(Variable::prefill_block_k);
  const std::string word = value ? normalised(*value) : std::string();
  if (is_one_of(word, "", "auto")) return BlockKChoice::automatic;
  if (word == "256") return BlockKChoice::block_256;
  if (word == "512") return BlockKChoice::block_512;
  return refuse(Variable::prefill_block_k, ErrorCode::invalid_environment,
                concat(" must be auto, 256, or 512, got '", *value, "'"), "");
}

Result<FoldMode> IndexerEnvironment::fold_mode() const {
  const auto& value = text(Variable::fold_mode);
  const std::string word = value ? normalised(*value) : std::string("auto");
  if (word == "auto") return FoldMode::automatic;
  if (is_one_of(word, "0", "false", "off", "no")) return FoldMode::off;
  if (is_one_of(word, "1", "true", "on", "yes")) return FoldMode::on;
  return refuse(Variable::fold_mode, ErrorCode::invalid_environment,
                concat(" must be auto, 0/false/off/no, or 1/true/on/yes, got '", word, "'"),
                "an empty text is none of them: leave the variable unset instead");
}

Result<i64> IndexerEnvironment::fold_budget_bytes() const {
  constexpr i64 kDefaultMib = 256;
  const auto& value = text(Variable::fold_max_mib);
  const std::optional<i64> mib = value ? parse_python_int(*value) : kDefaultMib;
  if (!mib || *mib < 0)
    return refuse(Variable::fold_max_mib, ErrorCode::invalid_environment,
                  concat(" must be a non-negative integer, got '", *value, "'"), "");
  if (*mib > kMaxFoldBudgetMib)
    return refuse(Variable::fold_max_mib, ErrorCode::out_of_range,
                  concat(" is at most ", kMaxFoldBudgetMib, " MiB here, got '", *value, "'"), "");
  return *mib << 20;
}

bool IndexerEnvironment::stream_scorer() const {
  const auto& value = text(Variable::stream_scorer);
  return !value || is_one_of(normalised(*value), "1", "true", "on", "yes");
}

}  // namespace moeplan
