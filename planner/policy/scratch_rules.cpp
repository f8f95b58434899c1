// Rules about how much is reserved, and how that compares with the baseline.
#include <cstdlib>
#include <tuple>

#include "planner/core/text.hpp"
#include "planner/deployment/exl3_rules.hpp"
#include "planner/deployment/exl3_runtime.hpp"
#include "planner/policy/rule_checks.hpp"

namespace moeplan {

void check_scratch_limit(const RuleCase& c) {
  const Snapshot& now = c.subject.now;
  const std::tuple<std::string_view, i64, std::optional<i64>> limits[] = {
      {"MoE scratch", now.moe_bytes, c.limits.max_per_rank_bytes},
      {"indexer arenas", now.indexer_bytes, c.limits.max_indexer_bytes}};
  for (const auto& [what, bytes, limit] : limits) {
    if (!limit || bytes <= *limit) continue;
    c.out.push_back(
        {scratch_field(c),
         concat(what, " of ", grouped(bytes), " B (", mib(bytes), ") a rank is above the limit of ",
                mib(*limit), " by ", mib(bytes - *limit), worth(now, bytes - *limit)),
         "", bytes - *limit});
  }
}
namespace {

// What would keep the scratch of the baseline under the new scheduler.
std::string capacity_remedy(const RuleCase& c) {
  for (const SettingChange& change : c.subject.difference->settings) {
    if (change.pointer != "/deployment/max_num_batched_tokens" || !change.value.before || !change.value.after)
      continue;
    const auto settings = parse_exl3_settings(*c.subject.deployment.engine);
    if (!settings || settings->capacity_set) return "";
    const i64 before = std::atoll(change.value.before->c_str());
    const i64 scheduled = c.subject.deployment.engine->max_num_batched_tokens;
    if (before <= settings->decode_tokens || before >= scheduled) return "";
    return concat("VLLM_EXL3_PREFILL_CAPACITY=", before, " keeps ", grouped(scheduled),
                  "-token scheduling at ", prefill_slices(scheduled, before).launches, " launches a layer; ");
  }
  return "";
}

}  // namespace

void check_growth(const RuleCase& c) {
  const Difference* difference = c.subject.difference;
  if (!difference) return;
  // Staging grows without any arena, and a rank that differs on its own.
  const bool runtime_grew_more =
      growth_of(difference->runtime_bytes) > max_of(growth_of(difference->moe_bytes), 0) &&
      difference->runtime_bytes.before;
  static constexpr Change<i64> kSame{0, 0};
  const std::pair<std::string_view, const Change<i64>*> totals[] = {
      {"MoE scratch", &difference->moe_bytes},
      {"MoE scratch with staging of the largest rank",
       runtime_grew_more ? &difference->runtime_bytes : &kSame},
      {"indexer arenas", &difference->indexer_bytes},
      {"what calls allocate after the profile", &difference->late_bytes}};
  for (const auto& [what, change] : totals) {
    const i64 growth = growth_of(*change), before = change->before.value_or(0);
    if (growth <= 0) continue;
    // A policy that states neither limit allows no growth.
    const auto pct = c.limits.max_increase_pct;
    const auto bytes = pct ? c.limits.max_increase : std::optional(c.limits.max_increase.value_or(0));
    const bool too_much = bytes && growth > *bytes;
    const bool too_much_of = pct && Wide{growth} * 100 > Wide{*pct} * before;
    if (!too_much && !too_much_of) continue;
    std::vector<std::string> limits;
    if (bytes) limits.push_back(concat("+", mib(*bytes)));
    if (pct) limits.push_back(concat("+", *pct, "%"));
    const std::string remedy = what == "MoE scratch" && c.is_exl3_deployment() ? capacity_remedy(c) : "";
    c.out.push_back({changed_field(*difference, scratch_field(c)),
                     concat(what, " grew ", mib(growth), " a rank (", per_cent(growth, before),
                            ") against the baseline", worth(c.subject.now, growth), "; the limit is ",
                            join(limits, " and "), "; changed: ", changes_text(*difference)),
                     concat(remedy, "intended? moeplan baseline update --reason \"…\" and commit the file"),
                     growth});
  }
}

void check_baseline(const RuleCase& c) {
  const Snapshot* baseline = c.subject.baseline;
  if (!baseline) return;
  if (baseline->contract != c.subject.now.contract)
    c.out.push_back({"/contract",
                     concat("the baseline was written under ", baseline->contract,
                            ", this config plans under ", c.subject.now.contract),
                     ""});
  const i64 shrunk = -c.subject.difference->growth();
  if (shrunk > c.limits.slack.value_or(0))
    c.out.push_back(
        {"",
         concat("scratch shrank by ", mib(shrunk), " a rank: the baseline would let it grow back unnoticed"),
         "", shrunk});
}

void check_known(const RuleCase& c) {
  if (c.subject.baseline_lacks_config)
    c.out.push_back({"", "the baseline does not know this config: nothing bounds its growth", ""});
}

}  // namespace moeplan
