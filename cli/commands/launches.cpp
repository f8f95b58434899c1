// moeplan launches: which compiled kernels can a deployment probe, which are compiled before it serves, and
// at what batch size does another one compile mid-serve?
#include <algorithm>

#include "cli/commands/launch_key.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/plan_choice.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/exl3_rules.hpp"
#include "planner/deployment/launch_choices.hpp"
#include "planner/deployment/launch_findings.hpp"

namespace moeplan {
namespace {

Table runs_table(const PlanLaunches& launches) {
  Table table;
  table.key = "runs";
  table.title = concat(launches.id, ", by live tokens");
  table.columns = {{"first_tokens", "", ColumnKind::count, Audience::programs},
                   {"last_tokens", "", ColumnKind::count, Audience::programs},
                   {"tokens", "LIVE TOKENS", ColumnKind::count, Audience::people},
                   {"keys", "KEYS", ColumnKind::count},
                   {"first_max_m_blocks", "", ColumnKind::count, Audience::programs},
                   {"last_max_m_blocks", "", ColumnKind::count, Audience::programs},
                   {"max_m_blocks", "MAX_M_BLOCKS", ColumnKind::count, Audience::people},
                   {"tiles", "TILES"},
                   {"blocks_per_sm", "BLOCKS/SM", ColumnKind::count},
                   {"single_token", "SINGLE TOKEN", ColumnKind::text, Audience::programs},
                   {"prewarmed", "PREWARMED", ColumnKind::text, Audience::programs},
                   {"profiled", "PROFILED", ColumnKind::text, Audience::programs},
                   {"captured", "CAPTURED", ColumnKind::text, Audience::programs},
                   {"cold", "COLD", ColumnKind::text, Audience::programs},
                   {"compiled", "COMPILED", ColumnKind::text, Audience::people}};
  for (const KeyRun& run : launches.runs) {
    table.rows.push_back(
        {{run.tokens.first, run.tokens.last, range_text(run.tokens.first, run.tokens.last), run.keys,
          run.key.max_m_blocks(), run.last_m_blocks, range_text(run.key.max_m_blocks(), run.last_m_blocks),
          tiles_of(run.key), run.key.blocks_per_sm, run.key.fc1.single_token, run.warmth.prewarmed,
          run.warmth.profiled, run.warmth.captured, run.warmth.cold(), compiled_text(run.warmth)},
         {}});
  }
  return table;
}

Table plans_table() {
  Table table;
  table.key = "plans";
  table.columns = {{"id", "PLAN"},
                   {"capacity", "CAPACITY", ColumnKind::count},
                   {"block_m", "BLOCK", ColumnKind::count},
                   {"pin", "PINNED TILES"},
                   {"live", "LIVE TOKENS"},
                   {"live_tokens", "COUNTS", ColumnKind::count},
                   {"prewarmed_tokens", "PREWARMED", ColumnKind::count},
                   {"keys", "KEYS", ColumnKind::count},
                   {"cold_keys", "COLD", ColumnKind::count},
                   {"compiled_with_plan", "COMPILED WITH PLAN", ColumnKind::count},
                   {"failure", "", ColumnKind::text}};
  return table;
}

Row plan_row(const DeployedPlan& plan, const PlanLaunches& launches) {
  const i64 capacity = plan.request().capacity.tokens();
  const Cell block = launches.plan                    ? Cell(launches.plan->tiles.block)
                     : plan.layout.route_block_size_m ? Cell(*plan.layout.route_block_size_m)
                                                      : Cell();
  if (launches.failure) {
    const bool modelled = launches.is_modelled();
    return {{launches.id, capacity, block, Cell(), ranges_text(plan.steps.live), count_of(plan.steps.live),
             Cell(), Cell(), Cell(), Cell(), std::string(modelled ? "cannot be launched" : "not modelled")},
            {}};
  }
  const Coverage coverage = coverage_of(launches.runs);
  return {
      {launches.id, capacity, block, std::vector<i64>(launches.plan->pin.begin(), launches.plan->pin.end()),
       ranges_text(plan.steps.live), coverage.tokens, coverage.prewarmed_tokens, coverage.keys,
       coverage.cold_keys, static_cast<i64>(launches.prewarmed.size()), Cell()},
      {runs_table(launches)}};
}

// Kernels of the one-grid form: compiled for their capacity, one whatever the live tokens.
void add_mixed_rows(const PlannedConfig& planned, Table& table) {
  for (const RuntimePart& part : planned.mixed_parts) {
    if (part.kind != PartKind::mixed_state) continue;
    const LiveRange live{1, part.tokens};
    table.rows.push_back({{part.name, part.tokens, part.block, Cell(), range_text(live.first, live.last),
                           part.tokens, part.tokens, i64{1}, i64{0}, i64{1}, Cell()},
                          {}});
  }
}

Table choices_table(std::string key, std::string title, std::span<const LaunchChoice> choices,
                    const std::optional<KvCache>& kv, i64 configured_bytes, bool with_front) {
  Table table;
  table.key = std::move(key);
  table.title = std::move(title);
  table.columns = {{"max_num_batched_tokens", "BATCHED TOKENS", ColumnKind::count},
                   {"capacity", "PREFILL CAPACITY", ColumnKind::count},
                   {"cold_keys", "COLD KEYS", ColumnKind::count},
                   {"keys", "KEYS", ColumnKind::count},
                   {"launches", "LAUNCHES/LAYER", ColumnKind::count},
                   {"scratch_bytes", "BYTES", ColumnKind::bytes},
                   {"gained_kv_tokens", "KV TOKENS GAINED", ColumnKind::count}};
  if (with_front) {
    table.columns.push_back({"on_front", "ON FRONT"});
    table.columns.push_back({"configured", "CONFIGURED"});
  }
  for (const LaunchChoice& c : choices) {
    Row row{{c.scheduled, c.capacity, c.totals.fails ? Cell() : Cell(c.totals.cold_keys),
             c.totals.fails ? Cell() : Cell(c.totals.keys), c.launches, c.scratch_bytes,
             kv_tokens_cell(kv, configured_bytes - c.scratch_bytes)},
            {}};
    if (with_front) {
      row.cells.push_back(c.on_front);
      row.cells.push_back(c.configured);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string headline(const LaunchTotals& totals, const std::vector<PlanLaunches>& launches,
                     std::optional<i64> max_cold) {
  for (const PlanLaunches& plan : launches) {
    if (plan.failure && plan.is_modelled())
      return concat("FAILS · ", plan_name(plan.id), ": ", plan.failure->message);
  }
  if (totals.keys == 0) return "NOT MODELLED · no plan whose launch keys are known";
  const std::string bar = max_cold ? concat(" (at most ", *max_cold, " allowed)") : std::string();
  if (totals.cold_keys == 0)
    return concat("WARM · all ", totals.keys, " launch keys are compiled before serving", bar);
  return concat("COLD · ", totals.cold_keys, " of ", totals.keys, " launch keys compile mid-serve", bar);
}

// Kernels of the one-grid form are one a state, and compiled for it.
i64 mixed_kernels(const PlannedConfig& planned) {
  return std::ranges::count(planned.mixed_parts, PartKind::mixed_state, &RuntimePart::kind);
}

std::vector<Table> choice_tables(const Deployment& deployment, std::span<const LaunchChoice> capacities,
                                 std::span<const LaunchChoice> schedulers) {
  std::vector<Table> tables;
  const auto kv = stated_kv_cache(deployment);
  const auto configured = std::ranges::find(capacities, true, &LaunchChoice::configured);
  const i64 bytes = configured == capacities.end() ? 0 : configured->scratch_bytes;
  if (capacities.size() > 1)
    tables.push_back(
        choices_table("capacities",
                      "VLLM_EXL3_PREFILL_CAPACITY: cold keys, launches, and bytes with the parity "
                      "staging",
                      capacities, kv, bytes, true));
  if (!schedulers.empty())
    tables.push_back(choices_table("schedulers", "max_num_batched_tokens a power of two, unsliced",
                                   schedulers, kv, bytes, false));
  return tables;
}

// What the launches say, and capture sizes that no plan serves.
std::vector<Finding> findings_of(const Deployment& deployment, std::span<const DeployedPlan* const> plans,
                                 std::span<const PlanLaunches* const> launches) {
  auto findings = launch_findings(deployment, plans, launches);
  if (!deployment.engine || !is_exl3(deployment)) return findings;
  for (Finding& finding : exl3_findings(deployment)) {
    if (finding.rule == "exl3-capture-sizes") findings.push_back(std::move(finding));
  }
  return findings;
}

Result<Report> launches_report(const PlannedConfig& planned, const std::vector<DeployedPlan>& plans,
                               const LaunchOptions& options) {
  const Deployment& deployment = planned.config->deployment;
  const auto shared_memory = shared_memory_of(deployment);
  if (!shared_memory) return shared_memory.error();
  const auto all = launches_of(stepped(plans), *shared_memory);
  Table table = plans_table();
  std::vector<PlanLaunches> chosen;
  std::vector<const DeployedPlan*> chosen_plans;
  std::vector<const PlanLaunches*> chosen_launches;
  std::vector<std::string> covered, not_modelled;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (!is_chosen(plans[i].id(), options.plan)) continue;
    chosen.push_back(all[i]);
    chosen_plans.push_back(&plans[i]);
    chosen_launches.push_back(&all[i]);
    table.rows.push_back(plan_row(plans[i], all[i]));
    if (!all[i].is_modelled()) not_modelled.push_back(plans[i].id());
    if (all[i].failure) continue;
    const Coverage coverage = coverage_of(all[i].runs);
    covered.push_back(
        concat(plans[i].id(), " ", grouped(coverage.prewarmed_tokens), "/", grouped(coverage.tokens)));
  }
  LaunchTotals totals = totals_of(chosen);
  const bool any_modelled = not_modelled.size() < chosen.size();
  if (options.plan.empty()) {
    add_mixed_rows(planned, table);
    totals.keys += mixed_kernels(planned);
  }

  Report report;
  report.schema = "moeplan.launches/1";
  // A gate does not pass on what is not known.
  report.answered_no =
      totals.fails || (options.max_cold && (totals.cold_keys > *options.max_cold || totals.keys == 0));
  report.verdict = concat(deployment.name ? concat(*deployment.name, ": ") : std::string(),
                          headline(totals, chosen, options.max_cold));
  if (!covered.empty()) report.verdict += concat(" · token counts prewarmed: ", join(covered, ", "));
  if (!not_modelled.empty()) report.verdict += concat(" · not modelled: ", join(not_modelled, ", "));
  report.verdict += concat(" · contract ", planned.contract_names());
  report.subject = subject_of(deployment);
  report.facts = {{"name", deployment.name ? Cell(*deployment.name) : Cell()},
                  {"contract", planned.contract_names()},
                  {"shared_memory_per_block_optin", *shared_memory}};
  report.totals = {{"keys", totals.keys},
                   {"cold_keys", totals.cold_keys},
                   {"plans_not_modelled", totals.plans_not_modelled}};
  report.tables.push_back(std::move(table));
  if (options.plan.empty() && deployment.engine && is_exl3(deployment) && any_modelled) {
    const auto capacities = launch_capacity_choices(deployment, *shared_memory);
    if (!capacities) return capacities.error();
    const auto schedulers = launch_scheduler_choices(deployment, *shared_memory);
    if (!schedulers) return schedulers.error();
    for (Table& choices : choice_tables(deployment, *capacities, *schedulers))
      report.tables.push_back(std::move(choices));
  }
  report.findings = findings_of(deployment, chosen_plans, chosen_launches);
  if (!any_modelled) return report;
  if (deployment.engine && !deployment.engine->cudagraph_capture_sizes)
    report.notes.push_back(
        "cudagraph_capture_sizes is not stated: no key counts as compiled before a capture, though the "
        "engine's "
        "own default sizes would be");
  report.notes.push_back(
      "PREWARMED counts what the plan compiles, COLD what neither it, nor the profile run, nor a graph's "
      "warm-up "
      "does");
  report.notes.push_back(
      "a key is one compiled kernel; beside them the plan compiles top-k sums for int32 and int64 ids and "
      "route "
      "packers for int32 ids, both mapped and unmapped, at capacity alone");
  return report;
}

}  // namespace

ExitCode run_launches(const LaunchOptions& options) {
  return answer_plans(options.configs, options.plan, PlanScope::moe,
                      [&](const PlannedConfig& planned, const std::vector<DeployedPlan>& plans) {
                        return options.live_tokens ? launch_key_report(planned, plans, options)
                                                   : launches_report(planned, plans, options);
                      });
}

}  // namespace moeplan
