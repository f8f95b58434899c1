// Any text as an environment variable of the indexer: it is read or refused, and read the same way again.
#include <cstdint>
#include <string>

#include "planner/core/check.hpp"
#include "planner/core/python_int.hpp"
#include "planner/indexer/environment.hpp"

using namespace moeplan;

namespace {

// Python's int() once more, by rules instead of a state: digits with single underscores inside.
bool is_python_int(std::string_view text) {
  text = strip_python_space(text);
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) text.remove_prefix(1);
  if (text.empty() || text.front() == '_' || text.back() == '_') return false;
  if (text.find("__") != std::string_view::npos) return false;
  return text.find_first_not_of("0123456789_") == std::string_view::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Environment variables;
  for (std::string_view name : kIndexerVariableNames) {
    variables.emplace_back("SPARKINFER_" + std::string(name), text);
    variables.emplace_back("B12X_" + std::string(name), "nonsense that belongs to the other planner");
  }
  const IndexerEnvironment env("SPARKINFER_", variables);
  const auto supertile = env.supertile_k();
  MOEPLAN_CHECK(!supertile || is_python_int(text), "a supertile that Python would refuse");
  MOEPLAN_CHECK(env.fused_allowed() == (text != "0"), "only exactly 0 turns the fused route off");
  const auto mode = env.fold_mode();
  MOEPLAN_CHECK(!mode || *mode != FoldMode::automatic || text.find_first_of("aA") != std::string::npos,
                "a fold mode out of nothing");
  const auto budget = env.fold_budget_bytes();
  MOEPLAN_CHECK(!budget || *budget >= 0, "a negative budget");
  MOEPLAN_CHECK(parse_python_int(text).has_value() == is_python_int(text), "two readings of one integer");
  (void)env.prefill_scorer();
  (void)env.prefill_block_k();
  (void)env.stream_scorer();
  return 0;
}
