#include "planner/policy/rules.hpp"

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "planner/core/text.hpp"
#include "planner/deployment/exl3_reach.hpp"
#include "planner/deployment/exl3_rules.hpp"
#include "planner/deployment/exl3_runtime.hpp"
#include "planner/deployment/fit.hpp"
#include "planner/deployment/indexer_budget.hpp"
#include "planner/deployment/launch_findings.hpp"
#include "planner/moe/plan_moe.hpp"
#include "planner/moe/reach.hpp"
#include "planner/moe/soundness_advice.hpp"

namespace moeplan {
namespace {

__extension__ using Wide = __int128;

// One firing of a rule. `level`: where the rule passes on a finding that has its own.
struct Breach {
  std::string pointer;
  std::string message;
  std::string remedy;  // "" is the rule's own
  i64 bytes = 0;
  std::optional<RuleLevel> level = {};
};

struct RuleCase {
  const CheckSubject& subject;
  const RuleSettings& limits;
  std::vector<Breach>& out;

  bool is_exl3_deployment() const { return subject.deployment.engine && is_exl3(subject.deployment); }
};

// "1,600.16 MiB", for messages: two decimals, half up.
std::string mib(i64 bytes) {
  const i64 magnitude = bytes < 0 ? -bytes : bytes;
  const auto hundredths = static_cast<i64>((Wide{magnitude} * 100 + (i64{1} << 19)) >> 20);
  std::string cents = std::to_string(hundredths % 100);
  if (cents.size() < 2) cents.insert(0, 1, '0');
  return concat(bytes < 0 ? "-" : "", grouped(hundredths / 100), ".", cents, " MiB");
}

// "+145.8%" of `before`.
std::string per_cent(i64 growth, i64 before) {
  if (before <= 0) return "from nothing";
  const auto thousandths = static_cast<i64>((Wide{growth} * 1000 + before / 2) / before);  // rounded half up
  return concat("+", grouped(thousandths / 10), ".", thousandths % 10, "%");
}

std::string worth(const Snapshot& snapshot, i64 bytes) {
  const auto tokens = tokens_worth(snapshot, bytes);
  return tokens ? concat(", worth ", grouped(*tokens), " KV tokens a rank") : std::string();
}

// The field that changed and that scratch most likely follows from; the engine's settings come first.
std::string changed_field(const Difference& difference, std::string_view fallback) {
  for (std::string_view section :
       {"/deployment/", "/plans/", "/quant/", "/parallel/", "/model/", "/device/", "/contract"}) {
    for (const SettingChange& change : difference.settings) {
      if (change.pointer.starts_with(section)) return change.pointer;
    }
  }
  return std::string(fallback);
}

std::string changes_text(const Difference& difference) {
  std::vector<std::string> parts;
  for (const SettingChange& change : difference.settings) {
    if (parts.size() == 3) {
      parts.push_back("…");
      break;
    }
    parts.push_back(concat(change.pointer, " ", change.value.before.value_or("not set"), " -> ",
                           change.value.after.value_or("not set")));
  }
  return join(parts, ", ");
}

std::string scratch_field(const RuleCase& c) {
  return c.subject.deployment.engine ? "/deployment/max_num_batched_tokens" : "/plans";
}

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

void check_padding(const RuleCase& c) {
  for (const DeployedPlan& plan : c.subject.plans) {
    const MoeWeights& weights = plan.request().weights;
    const i64 extent = align_up(weights.intermediate_size, 128);
    if (weights.quant_mode != QuantMode::w4a8_mx || extent == weights.intermediate_size) continue;
    c.out.push_back({plan.origin.config_pointer("/weights/intermediate_size"),
                     concat(plan_name(plan.id()), ": intermediate_size ", weights.intermediate_size,
                            " is padded to ", extent, "; its sizes follow the padded extent"),
                     ""});
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

void check_route_experts(const RuleCase& c) {
  for (const DeployedPlan& plan : c.subject.plans) {
    const i64 router = plan.request().capacity.route_experts.value_or(0);
    const i64 experts = plan.request().weights.experts;
    if (router <= 0 || router == experts || plan.layout.implementation != Implementation::w4a16 ||
        plan.layout.weight_layout == WeightLayout::trellis)
      continue;
    c.out.push_back({plan.origin.config_pointer("/capacity/route_experts"),
                     concat(plan_name(plan.id()), ": route_experts ", router, " is not the weights' ",
                            experts, " experts, which launches of this layout count"),
                     ""});
  }
}

bool is_unpinned(const DeployedPlan& plan) {
  return plan.layout.implementation == Implementation::w4a16 && !plan.request().capacity.block_size_m &&
         plan.request().kind == MoeKind::tensor_parallel;
}

i64 unselected_bytes(const DeployedPlan& plan) {
  const MoeAudit audits[] = {audit_moe(plan.request(), plan.layout, ExpertMap::absent, AuditSearch::peaks)};
  i64 bytes = 0;
  for (const UnusedBytes& unused : unused_bytes(plan.request(), plan.layout, audits, false))
    bytes += unused.kind == "unselected_blocks" ? unused.bytes : 0;
  return bytes;
}

void check_unpinned(const RuleCase& c) {
  for (const DeployedPlan& plan : c.subject.plans) {
    if (!is_unpinned(plan) || plan.layout.weight_layout == WeightLayout::trellis) continue;
    const i64 wasted = unselected_bytes(plan);
    const i64 tokens = plan.request().capacity.tokens();
    const BlockRange range =
        reachable_blocks(tokens, plan.request().capacity.routes_per_token(), plan.layout.route_experts);
    c.out.push_back(
        {plan.origin.config_pointer("/capacity/block_size_m"),
         concat(plan_name(plan.id()), ": the block size is not pinned, which reserves ", grouped(wasted),
                " B (", mib(wasted), ") for launches that cannot happen", worth(c.subject.now, wasted)),
         concat("pin block_size_m; up to ", tokens, " tokens select ", kBlockSizes[range.first],
                range.first == range.last ? "" : concat(" to ", kBlockSizes[range.last])),
         wasted});
  }
}

void check_pin_reach(const RuleCase& c) {
  for (const DeployedPlan& plan : c.subject.plans) {
    const auto pin = plan.request().capacity.block_size_m;
    if (!pin || plan.layout.implementation != Implementation::w4a16) continue;
    const i64 tokens = plan.request().capacity.tokens();
    const BlockRange range =
        reachable_blocks(tokens, plan.request().capacity.routes_per_token(), plan.layout.route_experts);
    const int index = block_size_index(*pin);
    if (index >= range.first && index <= range.last) continue;
    MoeRequest selected = plan.request();
    selected.capacity.block_size_m = kBlockSizes[range.last];
    const auto other = plan_moe(selected);
    const i64 wasted = other ? max_of(plan.layout.total_bytes - other->total_bytes, 0) : 0;
    c.out.push_back(
        {plan.origin.config_pointer("/capacity/block_size_m"),
         concat(plan_name(plan.id()), ": block ", *pin, " is pinned, and no launch of up to ", tokens,
                " tokens would select it: ", mib(wasted), " more than block ", kBlockSizes[range.last]),
         concat("pin ", kBlockSizes[range.last]), wasted});
  }
}

void check_trellis_pin(const RuleCase& c) {
  for (const DeployedPlan& plan : c.subject.plans) {
    if (!is_unpinned(plan) || plan.layout.weight_layout != WeightLayout::trellis ||
        !plan.request().contract->trellis_launch_needs_pin)
      continue;
    c.out.push_back(
        {plan.origin.config_pointer("/capacity/block_size_m"),
         concat(plan_name(plan.id()), ": launch planning refuses a Trellis plan without a pinned block"),
         ""});
  }
}

// Plans that reserve the same shape, each with its own arena.
void check_duplicates(const RuleCase& c) {
  const auto& plans = c.subject.plans;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::vector<std::string> twins;
    for (std::size_t j = i + 1; j < plans.size(); ++j) {
      const bool same = plans[i].arena != plans[j].arena && plans[i].engine_made() &&
                        plans[j].engine_made() &&
                        plans[i].layout.total_bytes == plans[j].layout.total_bytes &&
                        plans[i].request().capacity.tokens() == plans[j].request().capacity.tokens();
      if (same) twins.push_back(plans[j].id());
    }
    if (twins.empty()) continue;
    const i64 bytes = static_cast<i64>(twins.size()) * plans[i].layout.total_bytes;
    c.out.push_back({"/deployment/draft_is_exl3",
                     concat("plans ", plans[i].id(), " and ", join(twins, ", "),
                            " reserve the same shape twice: sharing one arena would save ", mib(bytes),
                            worth(c.subject.now, bytes)),
                     "", bytes});
  }
}

// As many equal stated plans as the model has MoE layers: one arena a layer.
void check_layer_arenas(const RuleCase& c) {
  const auto& plans = c.subject.plans;
  const auto& model = c.subject.deployment.model;
  // Without a model, more equal plans than anybody has roles for.
  constexpr i64 kManyPlans = 16;
  const i64 layers = model && model->num_hidden_layers
                         ? *model->num_hidden_layers - model->first_k_dense_replace.value_or(0)
                         : kManyPlans;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const auto same = [&](const DeployedPlan& other) {
      return !other.engine_made() && other.layout.total_bytes == plans[i].layout.total_bytes &&
             other.request().capacity.tokens() == plans[i].request().capacity.tokens();
    };
    const bool is_first = std::none_of(plans.begin(), plans.begin() + static_cast<std::ptrdiff_t>(i), same);
    const i64 count = std::ranges::count_if(plans, same);
    if (plans[i].engine_made() || !is_first || count < max_of(layers, 2)) continue;
    const i64 bytes = (count - 1) * plans[i].layout.total_bytes;
    c.out.push_back({plans[i].origin.config_pointer(""),
                     concat(count, " plans reserve the shape of ", plan_name(plans[i].id()),
                            ": an arena a layer costs ", mib(bytes), " more than one that the layers share"),
                     "", bytes});
  }
}

void check_floor(const RuleCase& c) {
  for (const DeployedPlan& plan : c.subject.plans) {
    for (const UnusedBytes& unused : unscheduled_bytes(plan, {}))
      c.out.push_back(
          {plan.origin.config_pointer("/capacity/max_tokens"),
           concat(plan_name(plan.id()), ": ", unused.why, ": ", mib(unused.bytes), " for nothing"), "",
           unused.bytes});
  }
}

void check_soundness(const RuleCase& c) {
  for (const DeployedPlan& plan : c.subject.plans) {
    if (plan.layout.implementation != Implementation::w4a16) continue;
    for (ExpertMap map : {ExpertMap::absent, ExpertMap::present}) {
      if (!plan.may_have(map)) continue;
      const MoeAudit audit = audit_moe(plan.request(), plan.layout, map);
      for (const TensorAudit& tensor : audit.tensors) {
        if (!tensor.short_at) continue;
        c.out.push_back({plan.origin.config_pointer("/capacity/max_tokens"),
                         concat(plan_name(plan.id()), ": ", tensor.name, " is short by ",
                                grouped((tensor.short_need - tensor.planned) * tensor.item_bytes), " B at m=",
                                *tensor.short_at, map == ExpertMap::present ? " with an expert map" : "",
                                ": ", text_of(tensor.consequence)),
                         join(sound_alternatives(plan.request(), map), "; ")});
      }
    }
  }
}

void check_late(const RuleCase& c) {
  for (const IndexerPlan& plan : c.subject.indexer_plans) {
    if (plan.late.bytes <= c.limits.max_late_bytes.value_or(0)) continue;
    c.out.push_back({"/deployment/max_model_len",
                     concat(plan.request->id, ": a call allocates up to ", grouped(plan.late.bytes), " B (",
                            mib(plan.late.bytes), ") after the profile, at ", grouped(plan.late.rows),
                            " rows and a context of ", grouped(plan.late.tokens), " tokens"),
                     "", plan.late.bytes});
  }
}

const DeployedPlan& plan_of(const RuleCase& c, const PlanLaunches& launches) {
  return c.subject.plans[static_cast<std::size_t>(&launches - c.subject.launches.data())];
}

void check_launches(const RuleCase& c) {
  for (const PlanLaunches& launches : c.subject.launches) {
    if (!launches.failure || launches.failure->code != ErrorCode::launch_tiles) continue;
    c.out.push_back({plan_of(c, launches).origin.config_pointer(launches.failure->pointer),
                     concat(plan_name(launches.id), ": ", launches.failure->message),
                     launches.failure->help});
  }
}

void check_defaults(const RuleCase& c) {
  if (!c.is_exl3_deployment()) return;
  std::vector<std::string> defaults;
  for (const Exl3Variable& variable : exl3_variables()) {
    if (variable.kind != VariableKind::positive || variable.default_text.empty()) continue;
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

void check_coverage(const RuleCase& c) {
  for (const PlanLaunches& launches : c.subject.launches) {
    if (launches.failure) continue;
    const Coverage coverage = coverage_of(launches.runs);
    const i64 warm = coverage.tokens - coverage.cold_tokens;
    if (warm * 1'000'000 >= c.limits.min_coverage.value_or(1'000'000) * coverage.tokens) continue;
    c.out.push_back({plan_of(c, launches).origin.config_pointer("/capacity/max_tokens"),
                     concat(plan_name(launches.id), ": ", grouped(warm), " of ", grouped(coverage.tokens),
                            " live token counts have their kernel compiled before serving; ",
                            coverage.cold_keys, " of ", coverage.keys, " kernels compile at first use"),
                     ""});
  }
}

void check_capture(const RuleCase& c) {
  for (const PlanLaunches& launches : c.subject.launches) {
    if (launches.warmed_by_capture_alone.empty() ||
        launches.plan->contract->capture_miss == CaptureMiss::raises)
      continue;
    c.out.push_back(
        {"/deployment/cudagraph_capture_sizes",
         concat(plan_name(launches.id), ": graphs of ", join(launches.warmed_by_capture_alone, ", "),
                " rows would compile inside their capture without the warm-up before it"),
         ""});
  }
}

void check_new_cold_keys(const RuleCase& c) {
  const Difference* difference = c.subject.difference;
  if (!difference) return;
  // Plan by plan: kernels that one plan loses do not pay for those that another one adds.
  std::vector<std::string> grown;
  i64 more = max_of(growth_of(difference->cold_keys), 0);
  if (!difference->cold_keys.before || !difference->cold_keys.after) return;
  for (const ArenaChange& arena : difference->arenas) {
    const i64 added = growth_of(arena.cold_keys);
    if (added <= 0 || !arena.cold_keys.after) continue;
    grown.push_back(
        concat(plan_name(arena.id), " ", arena.cold_keys.before.value_or(0), " -> ", *arena.cold_keys.after));
    more = max_of(more, added);
  }
  if (more <= c.limits.max_new_cold_keys.value_or(0)) return;
  c.out.push_back({changed_field(*difference, scratch_field(c)),
                   concat(more, " more kernels compile mid-serve than in the baseline (", join(grown, ", "),
                          "; all ", *difference->cold_keys.before, " -> ", *difference->cold_keys.after,
                          "); changed: ", changes_text(*difference)),
                   ""});
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
  const std::tuple<std::string_view, const Change<i64>*, std::string_view> figures[] = {
      {"KV tokens", &difference->kv_tokens, "/measured"},
      {"KV bytes a token", &difference->kv_bytes_per_token, "/deployment"},
      {"cold kernels", &difference->cold_keys, "/device"}};
  for (const auto& [what, change, pointer] : figures) {
    if (change->before && !change->after)
      c.out.push_back(
          {std::string(pointer),
           concat(what, ": known in the baseline (", grouped(*change->before),
                  "), and no longer follow from this config; changed: ", changes_text(*difference)),
           ""});
  }
}

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

void check_engine(const RuleCase& c) {
  if (c.is_exl3_deployment()) pass_on(c, exl3_findings(c.subject.deployment));
}

void check_indexer(const RuleCase& c) {
  auto findings = indexer_findings(
      c.subject.deployment,
      std::vector<IndexerPlan>(c.subject.indexer_plans.begin(), c.subject.indexer_plans.end()));
  // MP031 says that already.
  std::erase_if(findings, [](const Finding& finding) { return finding.rule == "indexer-late-allocation"; });
  pass_on(c, std::move(findings));
}

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
