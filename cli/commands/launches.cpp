// moeplan launches: which compiled kernels can a deployment probe, which are compiled before it serves, and
// at what batch size does another one compile mid-serve?
#include <algorithm>

#include "cli/commands/finish.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/plan_choice.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/launch_choices.hpp"

namespace moeplan {
namespace {

std::string range_text(i64 first, i64 last) {
  return first == last ? grouped(first) : concat(grouped(first), "..", grouped(last));
}

std::string ranges_text(const std::vector<LiveRange>& ranges) {
  std::vector<std::string> parts;
  for (const LiveRange& range : ranges) parts.push_back(range_text(range.first, range.last));
  return join(parts, ", ");
}

std::vector<i64> tiles_of(const LaunchKey& key) {
  return {key.fc1.tile.k, key.fc1.tile.n, key.fc2.tile.k, key.fc2.tile.n};
}

std::string warmth_text(const Warmth& warmth) {
  std::vector<std::string_view> by;
  if (warmth.prewarmed) by.push_back("with the plan");
  if (warmth.profiled) by.push_back("by the profile run");
  if (warmth.captured) by.push_back("before capture");
  return by.empty() ? "at first use, mid-serve" : join(by, ", ");
}

Table runs_table(const PlanLaunches& launches) {
  Table table;
  table.key = "keys";
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
          run.warmth.profiled, run.warmth.captured, run.warmth.cold(), warmth_text(run.warmth)},
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
    const bool modelled = launches.failure->code != ErrorCode::launch_not_modelled;
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

class Findings {
 public:
  explicit Findings(const Deployment& deployment) : deployment_(deployment) {}

  void look_at(const DeployedPlan& plan, const PlanLaunches& launches) {
    if (launches.failure) return add_failure(plan, *launches.failure);
    const Coverage coverage = coverage_of(launches.runs);
    if (coverage.cold_keys > 0)
      add("launch-cold", "warning", plan, "/capacity/max_tokens",
          concat("plan ", plan.id(), ": ", coverage.cold_keys, " of ", coverage.keys,
                 " kernels compile at first use, mid-serve: at ", cold_tokens(launches.runs), " live tokens"),
          cold_remedy(plan, launches));
    if (coverage.prewarmed_tokens == 0 && !launches.plan->contract->launch_takes_pin)
      add("launch-prewarm-dead", "note", plan, "/weights/trellis_tile_config",
          concat("plan ", plan.id(), ": what is compiled with it is never launched: launches differ in ",
                 join(key_differences(launches.runs.back().key, launches.prewarmed.back()), "; ")),
          "");
    add_capture(plan, launches);
  }

  std::vector<Finding> take() { return std::move(findings_); }

 private:
  void add(std::string_view rule, std::string_view level, const DeployedPlan& plan,
           std::string_view request_pointer, std::string message, std::string remedy) {
    findings_.push_back({std::string(rule), std::string(level), plan.origin.config_pointer(request_pointer),
                         std::move(message), std::move(remedy)});
  }

  void add_failure(const DeployedPlan& plan, const Error& failure) {
    const bool modelled = failure.code != ErrorCode::launch_not_modelled;
    add(modelled ? "launch-fails" : "launch-not-modelled", modelled ? "error" : "note", plan, failure.pointer,
        concat("plan ", plan.id(), ": ", failure.message), failure.help);
  }

  static std::string cold_tokens(const std::vector<KeyRun>& runs) {
    std::vector<LiveRange> cold;
    for (const KeyRun& run : runs) {
      if (run.warmth.cold()) cold.push_back(run.tokens);
    }
    return ranges_text(united(cold));
  }

  std::string cold_remedy(const DeployedPlan& plan, const PlanLaunches& launches) const {
    const i64 capacity = plan.request().capacity.tokens(), bucket = pow2_ceil(capacity);
    if (bucket != capacity && !bucket_fits(*launches.plan, capacity))
      return concat("the bucket of ", grouped(bucket), " tokens does not fit ", grouped(capacity), ": ",
                    plan.engine_made() ? "max_num_batched_tokens" : "a capacity", " of ", grouped(bucket / 2),
                    " or ", grouped(bucket), ", unsliced, leaves one kernel a power of two");
    if (plan.steps.captured.empty() && plan.engine_made() && !deployment_.engine->cudagraph_capture_sizes)
      return "state cudagraph_capture_sizes: the warm-up of each graph compiles its kernel";
    return "run one eager step of each bucket before serving";
  }

  void add_capture(const DeployedPlan& plan, const PlanLaunches& launches) {
    if (launches.warmed_by_capture_alone.empty()) return;
    const CaptureMiss miss = launches.plan->contract->capture_miss;
    const std::string what =
        concat("plan ", plan.id(), ": graphs of ", join(launches.warmed_by_capture_alone, ", "),
               " rows rely on the warm-up before their capture");
    if (miss == CaptureMiss::compiles)
      add("launch-capture-compile", "warning", plan, "/capacity/max_tokens",
          concat(what, ": without it their kernels would compile inside the capture, which nothing guards"),
          "keep the eager warm-up of every captured size");
    else
      add("launch-capture-compile", "note", plan, "/capacity/max_tokens",
          concat(what, miss == CaptureMiss::raises
                           ? ": without it the capture raises"
                           : ": whether this revision compiles inside a capture or raises is not known"),
          "");
  }

  const Deployment& deployment_;
  std::vector<Finding> findings_;
};

// What has to be known of the device.
Result<i64> shared_memory_of(const Deployment& deployment) {
  if (deployment.device && deployment.device->shared_memory_per_block_optin)
    return *deployment.device->shared_memory_per_block_optin;
  return Error{ErrorCode::missing_field, "/device/shared_memory_per_block_optin",
               "shared_memory_per_block_optin is missing: which tile a launch selects depends on it",
               "configs/devices/ has it for known devices; 101376 on sm_120"};
}

std::string headline(const LaunchTotals& totals, std::span<const PlanLaunches> launches,
                     std::optional<i64> max_cold) {
  for (const PlanLaunches& plan : launches) {
    if (plan.failure && plan.failure->code != ErrorCode::launch_not_modelled)
      return concat("FAILS · plan ", plan.id, ": ", plan.failure->message);
  }
  const std::string bar = max_cold ? concat(" (at most ", *max_cold, " allowed)") : std::string();
  if (totals.cold_keys == 0)
    return concat("WARM · all ", totals.keys, " launch keys are compiled before serving", bar);
  return concat("COLD · ", totals.cold_keys, " of ", totals.keys, " launch keys compile mid-serve", bar);
}

Result<Report> launches_report(const PlannedConfig& planned, const std::vector<DeployedPlan>& plans,
                               const LaunchOptions& options) {
  const Deployment& deployment = planned.config->deployment;
  const auto shared_memory = shared_memory_of(deployment);
  if (!shared_memory) return shared_memory.error();
  const auto all = launches_of(stepped(plans), *shared_memory);
  Table table = plans_table();
  std::vector<PlanLaunches> chosen;
  Findings findings(deployment);
  std::vector<std::string> covered;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (!is_chosen(plans[i].id(), options.plan)) continue;
    chosen.push_back(all[i]);
    table.rows.push_back(plan_row(plans[i], all[i]));
    findings.look_at(plans[i], all[i]);
    if (all[i].failure) continue;
    const Coverage coverage = coverage_of(all[i].runs);
    covered.push_back(
        concat(plans[i].id(), " ", grouped(coverage.prewarmed_tokens), "/", grouped(coverage.tokens)));
  }
  if (options.plan.empty()) add_mixed_rows(planned, table);
  const LaunchTotals totals = totals_of(chosen);
  const bool failed = std::ranges::any_of(chosen, [](const PlanLaunches& plan) {
    return plan.failure && plan.failure->code != ErrorCode::launch_not_modelled;
  });

  Report report;
  report.schema = "moeplan.launches/1";
  report.answered_no = failed || (options.max_cold && totals.cold_keys > *options.max_cold);
  report.verdict = concat(deployment.name ? concat(*deployment.name, ": ") : std::string(),
                          headline(totals, chosen, options.max_cold));
  if (!covered.empty()) report.verdict += concat(" · token counts prewarmed: ", join(covered, ", "));
  report.verdict += concat(" · contract ", planned.contract_names());
  report.subject = subject_of(deployment);
  report.facts = {{"name", deployment.name ? Cell(*deployment.name) : Cell()},
                  {"contract", planned.contract_names()},
                  {"shared_memory_per_block_optin", *shared_memory}};
  report.totals = {{"keys", totals.keys}, {"cold_keys", totals.cold_keys}};
  report.tables.push_back(std::move(table));
  if (options.plan.empty() && deployment.engine && is_exl3(deployment)) {
    const auto kv = stated_kv_cache(deployment);
    const auto capacities = capacity_choices(deployment, *shared_memory);
    if (!capacities) return capacities.error();
    const auto schedulers = scheduler_choices(deployment, *shared_memory);
    if (!schedulers) return schedulers.error();
    const auto configured = std::ranges::find(*capacities, true, &LaunchChoice::configured);
    const i64 bytes = configured == capacities->end() ? 0 : configured->scratch_bytes;
    if (capacities->size() > 1)
      report.tables.push_back(choices_table("capacities",
                                            "VLLM_EXL3_PREFILL_CAPACITY: cold keys, launches and bytes",
                                            *capacities, kv, bytes, true));
    if (!schedulers->empty())
      report.tables.push_back(choices_table("schedulers", "max_num_batched_tokens a power of two, unsliced",
                                            *schedulers, kv, bytes, false));
  }
  report.findings = findings.take();
  if (deployment.engine && !deployment.engine->cudagraph_capture_sizes)
    report.notes.push_back(
        "cudagraph_capture_sizes is not stated: no key counts as compiled before a capture");
  report.notes.push_back(
      "a key is one compiled kernel; beside them the plan compiles top-k sums for int32 and int64 ids and "
      "route "
      "packers for int32 ids, both mapped and unmapped, at capacity alone");
  return report;
}

const PlanLaunches* only_plan(const std::vector<PlanLaunches>& all, const std::string& choice) {
  const PlanLaunches* found = nullptr;
  for (const PlanLaunches& launches : all) {
    if (!is_chosen(launches.id, choice)) continue;
    if (found) return nullptr;
    found = &launches;
  }
  return found;
}

Table elements_table(const LaunchKey& key, const LaunchKey& prewarmed) {
  Table table;
  table.key = "elements";
  table.title = "elements, beside those of the kernel compiled with the plan";
  table.columns = {{"index", "I"}, {"name", "ELEMENT"}, {"value", "VALUE"}, {"prewarmed", "PREWARMED"}};
  const auto add = [&](std::string_view prefix, const KeyElements& elements, const KeyElements& others) {
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (std::holds_alternative<KeyElements>(elements[i].value)) continue;
      const std::string value = key_text({elements[i]}), other = key_text({others[i]});
      // Without the brackets of a list of one.
      table.rows.push_back(
          {{concat(prefix, i), concat(prefix, elements[i].name), value.substr(1, value.size() - 2),
            value == other ? std::string("=") : other.substr(1, other.size() - 2)},
           {}});
    }
  };
  const KeyElements elements = elements_of(key), others = elements_of(prewarmed);
  add("", elements, others);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (const auto* nested = std::get_if<KeyElements>(&elements[i].value))
      add(concat(elements[i].name, "."), *nested, std::get<KeyElements>(others[i].value));
  }
  return table;
}

// One launch: its key, and whether the plan compiled it.
Result<Report> key_report(const PlannedConfig& planned, const std::vector<DeployedPlan>& plans,
                          const LaunchOptions& options) {
  const i64 tokens = *options.live_tokens;
  const auto shared_memory = shared_memory_of(planned.config->deployment);
  if (!shared_memory) return shared_memory.error();
  const auto all = launches_of(stepped(plans), *shared_memory);
  const PlanLaunches* launches = only_plan(all, options.plan);
  if (!launches)
    return Error{ErrorCode::unknown_value, "",
                 "--live-tokens needs --plan where there are several plans or none",
                 "name the plan whose launch is meant"};
  if (launches->failure) return *launches->failure;
  const LaunchPlan& plan = *launches->plan;
  if (tokens > plan.capacity)
    return Error{
        ErrorCode::out_of_range, "",
        concat("--live-tokens ", tokens, " is more than plan ", launches->id, " holds: ", plan.capacity),
        "a larger step is sliced: ask for one slice"};
  if (!plan.contract->launch_key_known)
    return Error{ErrorCode::launch_not_modelled, "/contract",
                 concat("the elements of launch keys under ", plan.contract->id, " are not known"),
                 "without --live-tokens its kernels are counted all the same"};
  const auto key = launch_key(plan, tokens);
  if (!key) return key.error();
  const bool prewarmed = std::ranges::find(launches->prewarmed, *key) != launches->prewarmed.end();

  Report report;
  report.schema = "moeplan.launch_key/1";
  report.verdict = concat("plan ", launches->id, ", m=", tokens, ": max_m_blocks ", key->max_m_blocks(),
                          ", tiles ", join(tiles_of(*key), "x"), ", ",
                          prewarmed ? "compiled with the plan" : "not compiled with the plan");
  report.facts = {{"plan", launches->id},
                  {"capacity", plan.capacity},
                  {"block_size_m", plan.tiles.block},
                  {"live_tokens", tokens},
                  {"key", RawJson{key_text(elements_of(*key))}},
                  {"max_m_blocks", key->max_m_blocks()},
                  {"tiles", tiles_of(*key)},
                  {"blocks_per_sm", key->blocks_per_sm},
                  {"shared_words", key->shared_words},
                  {"prewarmed", prewarmed}};
  report.tables.push_back(elements_table(*key, launches->prewarmed.back()));
  return report;
}

}  // namespace

ExitCode run_launches(const LaunchOptions& options) {
  bool wrong_choice = false;
  const ExitCode code = answer_configs(options.configs, [&](const PlannedConfig& planned) -> Result<Report> {
    const auto plans = deployed_plans(planned.config->deployment);
    if (!plans) return plans.error();
    if (auto s = check_choice(*plans, options.plan); !s) {
      wrong_choice = true;
      return s.error();
    }
    if (!options.live_tokens) return launches_report(planned, *plans, options);
    auto answer = key_report(planned, *plans, options);
    // An error without a place is about the command line.
    wrong_choice = !answer && answer.error().pointer.empty();
    return answer;
  });
  return wrong_choice ? ExitCode::usage : code;
}

}  // namespace moeplan
