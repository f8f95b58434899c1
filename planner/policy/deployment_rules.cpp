// Rules about the engine around the plans: its settings, late allocations and the KV cache.
#include <algorithm>
#include <tuple>

#include "planner/core/text.hpp"
#include "planner/deployment/exl3_reach.hpp"
#include "planner/deployment/exl3_rules.hpp"
#include "planner/deployment/exl3_runtime.hpp"
#include "planner/deployment/fit.hpp"
#include "planner/deployment/ignored_pins.hpp"
#include "planner/deployment/indexer_budget.hpp"
#include "planner/policy/rule_checks.hpp"

namespace moeplan {

void check_late(const RuleCase& c) {
  for (const DeployedIndexer& plan : c.subject.indexer_plans) {
    if (plan.late.bytes <= c.limits.max_late_bytes.value_or(0)) continue;
    c.out.push_back({"/deployment/max_model_len",
                     concat(plan.request->id, ": a call allocates up to ", grouped(plan.late.bytes), " B (",
                            mib(plan.late.bytes), ") after the profile, at ", grouped(plan.late.rows),
                            " rows and a context of ", grouped(plan.late.tokens), " tokens"),
                     "", plan.late.bytes});
  }
}

void check_defaults(const RuleCase& c) {
  if (!c.is_exl3_deployment()) return;
  std::vector<std::string> defaults;
  for (const Exl3Variable& variable : exl3_variables()) {
    if (variable.kind != VariableKind::positive || variable.default_text.empty()) continue;
    if (is_ignored_variable(c.subject.deployment, variable.name)) continue;
    const std::string* text = find_variable(c.subject.deployment.engine->env, variable.name);
    if (!text) defaults.push_back(concat(variable.name, "=", variable.default_text));
  }
  if (defaults.empty()) return;
  c.out.push_back({"/deployment/env",
                   concat("the engine's defaults decide: ", join(defaults, ", "),
                          "; another engine build may have others"),
                   ""});
}

// Variables that the baseline's config stated, and this one leaves to the engine.
void check_dropped_settings(const RuleCase& c) {
  if (!c.subject.difference || !c.is_exl3_deployment()) return;
  for (const Exl3Variable& variable : exl3_variables()) {
    if (variable.kind != VariableKind::positive) continue;
    if (is_ignored_variable(c.subject.deployment, variable.name)) continue;
    for (const SettingChange& change : c.subject.difference->settings) {
      if (change.pointer != environment_pointer(variable.name) || change.value.after) continue;
      c.out.push_back(
          {"/deployment/env",
           concat(variable.name, " was ", change.value.before.value_or(""),
                  " in the baseline and is left to the engine now, whose default is ", variable.default_text),
           concat("state ", variable.name)});
    }
  }
}

void check_kv_tokens(const RuleCase& c) {
  const Deployment& d = c.subject.deployment;
  const auto tokens = c.subject.now.kv_tokens;
  if (c.limits.min_kv_tokens && tokens && *tokens < *c.limits.min_kv_tokens)
    c.out.push_back({"/deployment",
                     concat("the KV cache holds ", grouped(*tokens), " tokens, below the ",
                            grouped(*c.limits.min_kv_tokens), " that are asked for"),
                     ""});
  if (c.limits.min_kv_tokens && !tokens)
    c.out.push_back({"/measured",
                     "how many tokens the KV cache holds is not known: min_kv_tokens cannot be judged",
                     "state measured.available_kv, or budget"});
  if (!check_described(d)) return;
  const auto budgets = memory_budgets(d, indexer_budget_extras(d));
  if (!budgets) return;
  for (const MemoryBudget& budget : *budgets) {
    for (const FitCheck& check : fit_checks(d, budget)) {
      if (check.answer == Fit::does_not_fit)
        c.out.push_back(
            {"/deployment/max_model_len",
             concat(budget.rank.empty() ? "" : concat(budget.rank, ": "), "does not fit: ", check.question),
             ""});
    }
  }
}

void check_lost_kv_tokens(const RuleCase& c) {
  const Difference* difference = c.subject.difference;
  if (!difference) return;
  const i64 limit = c.limits.max_lost_kv_tokens.value_or(0);
  const std::string field = changed_field(*difference, "/deployment");
  const Change<i64>& tokens = difference->kv_tokens;
  const i64 lost = tokens.before && tokens.after ? -growth_of(tokens) : 0;
  if (lost > limit)
    c.out.push_back({field,
                     concat("the KV cache holds ", grouped(lost), " tokens fewer than in the baseline (",
                            grouped(*tokens.before), " -> ", grouped(*tokens.after),
                            "); changed: ", changes_text(*difference)),
                     ""});
  // What an engine printed before the change does not shrink with it: growth costs tokens all the same.
  const i64 of_growth = difference->kv_tokens_of_growth.value_or(0);
  if (lost <= limit && of_growth > limit)
    c.out.push_back({field,
                     concat("the growth of scratch is worth ", grouped(of_growth),
                            " KV tokens; changed: ", changes_text(*difference)),
                     ""});
  const auto& bytes = difference->kv_bytes_per_token;
  const auto& ranks = difference->kv_dcp;
  if (bytes.before && bytes.after && ranks.before && ranks.after &&
      Wide{*bytes.after} * *ranks.before > Wide{*bytes.before} * *ranks.after)
    c.out.push_back({field,
                     concat("a token takes more of each rank's KV cache than in the baseline: ",
                            *bytes.before, " B over ", *ranks.before, " ranks -> ", *bytes.after, " B over ",
                            *ranks.after, "; changed: ", changes_text(*difference)),
                     ""});
}

// Figures that the baseline has and this config's statements no longer lead to.
void check_known_figures(const RuleCase& c) {
  const Difference* difference = c.subject.difference;
  if (!difference) return;
  // No engine launches lean plans, so nothing that is stated makes their kernels known.
  const auto is_lean = [](const DeployedPlan& plan) { return plan.request().contract->lean_executor; };
  const bool all_lean = !c.subject.plans.empty() && std::ranges::all_of(c.subject.plans, is_lean);
  const std::tuple<std::string_view, const Change<i64>*, std::string_view> figures[] = {
      {"KV tokens", &difference->kv_tokens, "/measured"},
      {"KV bytes a token", &difference->kv_bytes_per_token, "/deployment"},
      {"cold kernels", &difference->cold_keys, "/device"}};
  for (const auto& [what, change, pointer] : figures) {
    if (change == &difference->cold_keys && all_lean) continue;
    if (change->before && !change->after)
      c.out.push_back(
          {std::string(pointer),
           concat(what, ": known in the baseline (", grouped(*change->before),
                  "), and no longer follow from this config; changed: ", changes_text(*difference)),
           ""});
  }
}
namespace {

RuleLevel level_of(const Finding& finding) {
  return finding.level == "error"     ? RuleLevel::error
         : finding.level == "warning" ? RuleLevel::warning
                                      : RuleLevel::note;
}

void pass_on(const RuleCase& c, std::vector<Finding> findings) {
  for (Finding& finding : findings)
    c.out.push_back({std::move(finding.pointer), concat(finding.rule, ": ", finding.message),
                     std::move(finding.remedy), finding.bytes, level_of(finding)});
}

}  // namespace

void check_engine(const RuleCase& c) {
  if (c.is_exl3_deployment()) pass_on(c, exl3_findings(c.subject.deployment));
  pass_on(c, ignored_pins(c.subject.deployment));
}

void check_indexer(const RuleCase& c) {
  auto findings = indexer_findings(
      c.subject.deployment,
      std::vector<DeployedIndexer>(c.subject.indexer_plans.begin(), c.subject.indexer_plans.end()));
  // MP031 says that already.
  std::erase_if(findings, [](const Finding& finding) { return finding.rule == "indexer-late-allocation"; });
  pass_on(c, std::move(findings));
}

}  // namespace moeplan
