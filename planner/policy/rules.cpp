#include "planner/policy/rules.hpp"

#include <algorithm>

#include "planner/core/text.hpp"
#include "planner/policy/rule_checks.hpp"

namespace moeplan {
namespace {

constexpr std::string_view kScratchLimits[] = {"max_per_rank_bytes", "max_indexer_bytes"};
constexpr std::string_view kGrowthLimits[] = {"max_increase", "max_increase_pct"};
constexpr std::string_view kStaleLimits[] = {"slack"};
constexpr std::string_view kLateLimits[] = {"max_late_bytes"};
constexpr std::string_view kCoverageLimits[] = {"min_coverage"};
constexpr std::string_view kColdLimits[] = {"max_new_cold_keys"};
constexpr std::string_view kTokenLimits[] = {"min_kv_tokens"};
constexpr std::string_view kLostLimits[] = {"max_lost_kv_tokens"};

struct RuleRow {
  PolicyRule rule;
  void (*check)(const RuleCase&);
};

using enum RuleLevel;
constexpr RuleRow kRows[] = {
    {{"MP001", "scratch stays below the limit",
      "MoE scratch or indexer arenas of a rank pass a limit of the policy",
      "lower max_num_batched_tokens or the prefill capacity, or raise the limit", error, kScratchLimits},
     check_scratch_limit},
    {{"MP002", "scratch does not outgrow the baseline",
      "MoE scratch, staging, indexer arenas or late allocations grew by more than max_increase or "
      "max_increase_pct of the baseline; "
      "without "
      "either, at all",
      "", error, kGrowthLimits},
     check_growth},
    {{"MP003",
      "sizes are those of the model",
      "a plan pads intermediate_size to whole tiles",
      "nothing to do: the padded extent is what is reserved",
      note,
      {}},
     check_padding},
    {{"MP004", "the baseline is up to date", "scratch shrank by more than slack (0), or the contract differs",
      "moeplan baseline update --reason \"…\" and commit the file", warning, kStaleLimits},
     check_baseline},
    {{"MP005",
      "the router counts the weights' experts",
      "route_experts differs from the weights' experts in a layout whose launches count the weights'",
      "leave route_experts out, or state the weights' experts",
      error,
      {}},
     check_route_experts},
    {{"MP006",
      "the baseline knows every config",
      "a baseline is given and has no entry of the config's path",
      "moeplan baseline update --reason \"…\" adds it",
      error,
      {}},
     check_known},
    {{"MP010",
      "block sizes are pinned",
      "a packed or native W4A16 plan has no pinned block size",
      "",
      error,
      {}},
     check_unpinned},
    {{"MP011",
      "pins are block sizes that launches would select",
      "a pinned block size is one that no launch up to the capacity selects",
      "",
      warning,
      {}},
     check_pin_reach},
    {{"MP012",
      "Trellis plans can be launched",
      "a Trellis plan has no pin where launch planning refuses that",
      "pin block_size_m",
      error,
      {}},
     check_trellis_pin},
    {{"MP020",
      "no arena is reserved twice",
      "two runtimes reserve arenas of one shape",
      "run a draft whose experts are not EXL3, or accept the cost with a waiver",
      warning,
      {}},
     check_duplicates},
    {{"MP021",
      "layers share an arena",
      "as many plans of one shape as there are MoE layers",
      "plan one arena for all layers",
      error,
      {}},
     check_layer_arenas},
    {{"MP022",
      "no plan is larger than the scheduler",
      "a plan reserves for more tokens than any step brings",
      "lower the plan's capacity to the scheduler's",
      warning,
      {}},
     check_floor},
    {{"MP030",
      "the reserve holds for every live token count",
      "an audit finds a live token count that needs more",
      "",
      error,
      {}},
     check_soundness},
    {{"MP031", "nothing is allocated after the profile",
      "an indexer call allocates more than max_late_bytes (0) outside every arena",
      "leave that much margin, or set max_late_bytes", note, kLateLimits},
     check_late},
    {{"MP040",
      "launches fit the device",
      "no tile fits, or its kernel needs more shared memory than a block may opt in to",
      "",
      error,
      {}},
     check_launches},
    {{"MP050",
      "settings are stated",
      "a variable that decides a plan is left to the engine's default",
      "state it, so that an engine update cannot change it",
      note,
      {}},
     check_defaults},
    {{"MP051",
      "no change leaves a setting to the engine",
      "a variable that decides a plan is stated in the baseline's config and not in this one",
      "",
      error,
      {}},
     check_dropped_settings},
    {{"MP060", "kernels are compiled before serving",
      "less than min_coverage (1.0) of a plan's live token counts have their kernel compiled before serving",
      "moeplan launches says at which token counts, and what would help", warning, kCoverageLimits},
     check_coverage},
    {{"MP061",
      "no kernel compiles inside a graph capture",
      "a captured size relies on its warm-up alone under a contract that does not guard captures",
      "keep the warm-up, or run an eager step of these sizes first",
      note,
      {}},
     check_capture},
    {{"MP062", "no change adds cold kernels",
      "more than max_new_cold_keys (0) kernels above the baseline's compile mid-serve",
      "moeplan launches says which", error, kColdLimits},
     check_new_cold_keys},
    {{"MP070", "the KV cache holds what is asked for",
      "fewer than min_kv_tokens are certain, or a request of max_model_len does not fit",
      "moeplan capacity says what other settings would buy", error, kTokenLimits},
     check_kv_tokens},
    {{"MP071", "no change loses KV tokens",
      "KV tokens, the worth of grown scratch, or a token's bytes are worse than the baseline by more than "
      "max_lost_kv_tokens (0)",
      "moeplan capacity says what other settings would buy", error, kLostLimits},
     check_lost_kv_tokens},
    {{"MP072",
      "what the baseline knows can still be judged",
      "KV tokens, bytes a token or cold kernels are in the baseline and no longer follow from the config",
      "state what they followed from",
      error,
      {}},
     check_known_figures},
    {{"MP080",
      "the engine's own rules are kept",
      "a setting that the engine refuses or mis-serves",
      "",
      error,
      {}},
     check_engine},
    {{"MP081",
      "the indexer is configured as it seems",
      "indexer reserve that is never used, or a variable without effect",
      "",
      note,
      {}},
     check_indexer},
    {{"MP090",
      "waivers are in force",
      "a waiver's last day has passed",
      "mend what it waived, or state a new day",
      error,
      {}},
     nullptr},
    {{"MP091", "waivers are needed", "a waiver matched no finding", "drop it", note, {}}, nullptr},
};

constexpr std::string_view kExpired = "MP090", kUnused = "MP091";

RuleLevel level_of(const Policy& policy, std::size_t rule) {
  return policy.rules[rule].level.value_or(kRows[rule].rule.level);
}

// A rule that passes findings on never raises them above their own level.
Finding finding_of(const PolicyRule& rule, RuleLevel level, const Breach& breach) {
  const RuleLevel own =
      breach.level ? static_cast<RuleLevel>(min_of(static_cast<i64>(*breach.level), static_cast<i64>(level)))
                   : level;
  return {std::string(rule.id),
          std::string(name_of(own)),
          breach.pointer,
          breach.message,
          breach.remedy.empty() ? std::string(rule.remedy) : breach.remedy,
          breach.bytes};
}

void waive(Finding& finding, const Policy& policy, std::string_view config, const Date& today,
           std::vector<bool>& used) {
  for (std::size_t i = 0; i < policy.waivers.size(); ++i) {
    const Waiver& waiver = policy.waivers[i];
    const auto until = parse_date(waiver.until);
    if (!until || *until < today || !matches(waiver, finding.rule, config)) continue;
    used[i] = true;
    finding.level = name_of(note);
    finding.message += concat(" (waived until ", waiver.until, ": ", waiver.reason, ")");
    return;
  }
}

}  // namespace

std::span<const PolicyRule> policy_rules() {
  static const auto rules = [] {
    std::vector<PolicyRule> all;
    for (const RuleRow& row : kRows) all.push_back(row.rule);
    return all;
  }();
  return rules;
}

int find_rule(std::string_view id) {
  const auto found = std::ranges::find(policy_rules(), id, &PolicyRule::id);
  return found == policy_rules().end() ? -1 : static_cast<int>(found - policy_rules().begin());
}

std::vector<Finding> check_policy(const CheckSubject& subject, const Policy& policy, const Date& today,
                                  std::vector<bool>& used) {
  std::vector<Finding> findings;
  used.resize(policy.waivers.size());
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    if (!kRows[i].check || level_of(policy, i) == off) continue;
    std::vector<Breach> breaches;
    kRows[i].check({subject, policy.rules[i], breaches});
    for (const Breach& breach : breaches) {
      findings.push_back(finding_of(kRows[i].rule, level_of(policy, i), breach));
      waive(findings.back(), policy, subject.now.config, today, used);
    }
  }
  return findings;
}

std::vector<Finding> waiver_findings(const Policy& policy, const Date& today, const std::vector<bool>& used) {
  std::vector<Finding> findings;
  const auto add = [&](std::string_view id, std::size_t waiver, std::string message) {
    const auto rule = static_cast<std::size_t>(find_rule(id));
    if (level_of(policy, rule) == off) return;
    findings.push_back(finding_of(kRows[rule].rule, level_of(policy, rule),
                                  {concat("/waivers/", waiver), std::move(message), ""}));
  };
  for (std::size_t i = 0; i < policy.waivers.size(); ++i) {
    const Waiver& waiver = policy.waivers[i];
    const std::string what = concat("the waiver of ", waiver.rule, " for ", waiver.config);
    if (const auto until = parse_date(waiver.until); until && *until < today)
      add(kExpired, i, concat(what, " expired on ", waiver.until, ": ", waiver.reason));
    else if (i >= used.size() || !used[i])
      add(kUnused, i, concat(what, " matches nothing"));
  }
  return findings;
}

}  // namespace moeplan
