// Policy: which rules a deployment has to keep, at what level and with which limits, and what is waived until
// when. Plain values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"

namespace moeplan {

enum class RuleLevel { off, note, warning, error };
inline constexpr std::string_view kRuleLevelNames[] = {"off", "note", "warning", "error"};
constexpr std::string_view name_of(RuleLevel level) { return kRuleLevelNames[static_cast<int>(level)]; }

// Limits of any rule; a rule takes those that its row names.
struct RuleSettings {
  std::optional<RuleLevel> level;
  std::optional<i64> max_per_rank_bytes;  // MoE scratch
  std::optional<i64> max_indexer_bytes;   // indexer arenas
  std::optional<i64> max_late_bytes;      // allocated after the profile
  std::optional<i64> max_increase;        // bytes above the baseline
  std::optional<i64> max_increase_pct;    // per cent of the baseline
  std::optional<i64> slack;               // bytes below the baseline that it may lag behind
  std::optional<i64> min_coverage;        // of live token counts, in parts per million
  std::optional<i64> max_new_cold_keys;   // above the baseline's
  std::optional<i64> min_kv_tokens;
  std::optional<i64> max_lost_kv_tokens;  // below the baseline's
  bool operator==(const RuleSettings&) const = default;
};

// A date without time: days are counted as UTC has them.
struct Date {
  int year = 0, month = 0, day = 0;
  auto operator<=>(const Date&) const = default;
};
// "2026-12-31"; none for anything else and for days that no month has.
std::optional<Date> parse_date(std::string_view text);
std::string text_of(const Date& date);

// Findings of `rule` in configs that `config` names are notes until the end of a day.
struct Waiver {
  std::string rule;
  std::string config;  // a path, its last part, or "*"
  std::string until;   // the last day, "2026-12-31"
  std::string reason;
};
bool matches(const Waiver& waiver, std::string_view rule, std::string_view config);

struct Policy {
  // By rule, in the order of policy_rules(); what is given replaces the rule's own.
  std::vector<RuleSettings> rules;
  std::vector<Waiver> waivers;
};

// Every rule with its own level and limits.
Policy default_policy();

}  // namespace moeplan
