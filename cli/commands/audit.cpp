// moeplan audit: does the reserve hold for every number of live tokens, and which bytes can none use?
#include <algorithm>
#include <iterator>

#include "cli/commands/engine_note.hpp"
#include "cli/commands/finish.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/plan_choice.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/deployed_audit.hpp"
#include "planner/deployment/launch_findings.hpp"
#include "planner/moe/soundness_advice.hpp"

namespace moeplan {
namespace {

constexpr std::string_view map_text(ExpertMap map) {
  return map == ExpertMap::present ? "present" : "absent";
}

// The words of the command line, which main has checked.
AuditAssumptions assumptions_of(const AuditOptions& options) {
  AuditAssumptions assumptions;
  for (std::size_t i = 0; i < std::size(kUnpinnedBlocksNames); ++i) {
    if (kUnpinnedBlocksNames[i] == options.assume_blocks) assumptions.blocks = static_cast<UnpinnedBlocks>(i);
  }
  for (i64 block : kBlockSizes) {
    if (std::to_string(block) == options.assume_blocks) assumptions.block_size = block;
  }
  for (ExpertMap map : {ExpertMap::absent, ExpertMap::present}) {
    if (map_text(map) == options.expert_map) assumptions.expert_map = map;
  }
  return assumptions;
}

std::string verdict_of(const TensorAudit& tensor) {
  if (tensor.short_at)
    return concat("short by ", grouped((tensor.short_need - tensor.planned) * tensor.item_bytes),
                  " B at m=", *tensor.short_at);
  return tensor.slack_bytes() == 0 ? "tight" : "slack";
}

Table tensor_audit_table(std::string title, const MoeLayout& layout, const MoeAudit& audit) {
  Table table;
  table.key = "tensors";
  table.title = std::move(title);
  table.columns = {{"name", "TENSOR"},
                   {"planned_bytes", "PLANNED", ColumnKind::bytes},
                   {"needed_bytes", "MOST NEEDED", ColumnKind::count},
                   {"needed_at", "AT M", ColumnKind::count},
                   {"slack_bytes", "SLACK", ColumnKind::count},
                   {"most_short_bytes", "MOST SHORT", ColumnKind::count, Audience::programs},
                   {"short_at", "SHORT AT M", ColumnKind::count, Audience::programs},
                   {"verdict", "VERDICT"},
                   {"consequence", "CONSEQUENCE"},
                   {"remark", "", ColumnKind::text, Audience::people}};
  for (const TensorAudit& t : audit.tensors) {
    table.rows.push_back({{std::string(t.name), t.planned * t.item_bytes, t.needed * t.item_bytes,
                           t.needed_at, t.short_at ? Cell() : Cell(t.slack_bytes()),
                           t.short_at ? Cell(-t.slack_bytes()) : Cell(), optional_cell(t.short_at),
                           verdict_of(t), t.short_at ? Cell(std::string(text_of(t.consequence))) : Cell(),
                           std::string(is_never_written(layout, t.name) ? "never written" : "")},
                          {}});
  }
  return table;
}

std::string blocks_text(const MoeAudit& audit) {
  std::vector<std::string> parts;
  for (const LiveBlocks& b : audit.blocks)
    parts.push_back(concat(b.block_size, ": ", range_text(b.tokens.first, b.tokens.last)));
  return join(parts, ", ");
}

i64 total_slack(const MoeAudit& audit) {
  i64 slack = 0;
  for (const TensorAudit& tensor : audit.tensors) slack += max_of(tensor.slack_bytes(), 0);
  return slack;
}

Table plans_table(std::span<const AuditedPlan> audited) {
  Table table;
  table.key = "plans";
  table.columns = {{"id", "PLAN"},
                   {"contract", "CONTRACT", ColumnKind::text, Audience::programs},
                   {"capacity", "LIVE TOKENS 1..", ColumnKind::count},
                   {"expert_map", "EXPERT MAP"},
                   {"blocks", "BLOCK: LIVE TOKENS"},
                   {"reserved_bytes", "RESERVED", ColumnKind::bytes},
                   {"slack_bytes", "SLACK", ColumnKind::count},
                   {"counter_example", "COUNTER-EXAMPLE", ColumnKind::count, Audience::programs},
                   {"exhaustive", "EXHAUSTIVE", ColumnKind::text, Audience::programs},
                   {"sound", "SOUND"}};
  for (const AuditedPlan& a : audited) {
    const std::string contract(a.reserve.contract->id);
    for (const MoeAudit& audit : a.audits) {
      const auto found = audit.counter_example();
      table.rows.push_back(
          {{a.plan->id(), contract, audit.capacity, std::string(map_text(audit.map)), blocks_text(audit),
            a.reserve.total_bytes, total_slack(audit), optional_cell(found), audit.exhaustive, !found},
           {tensor_audit_table(
               concat(a.plan->id(), ", by tensor",
                      a.audits.size() > 1 ? concat(", expert map ", map_text(audit.map)) : ""),
               a.reserve, audit)}});
    }
    if (a.audits.empty())
      table.rows.push_back({{a.plan->id(), contract, a.plan->request().capacity.tokens(), Cell(), Cell(),
                             a.reserve.total_bytes, Cell(), Cell(), Cell(), Cell()},
                            {}});
  }
  return table;
}

Table unused_table(std::span<const UnusedOfPlan> rows, const std::optional<KvCache>& kv) {
  Table table;
  table.key = "never_touched";
  table.title = "reserved, and used by no live token count";
  table.columns = {{"plan", "PLAN"},
                   {"kind", "KIND"},
                   {"tensor", "WHAT"},
                   {"bytes", "BYTES", ColumnKind::bytes},
                   {"kv_tokens", "KV TOKENS", ColumnKind::count},
                   {"why", "WHY", ColumnKind::text, Audience::programs}};
  i64 sum = 0;
  for (const auto& [plan, unused] : rows) {
    table.rows.push_back({{plan, std::string(unused.kind),
                           unused.tensor.empty() ? Cell(std::string("arena")) : Cell(unused.tensor),
                           unused.bytes, kv_tokens_cell(kv, unused.bytes), unused.why},
                          {}});
    sum += unused.bytes;
  }
  if (!rows.empty())
    table.footers.push_back(
        {{std::string("total"), Cell(), Cell(), sum, kv_tokens_cell(kv, sum), Cell()}, {}});
  return table;
}

// What rows of one plan and kind say together.
std::vector<Finding> unused_findings(std::span<const UnusedOfPlan> rows) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < rows.size();) {
    const auto& [plan, first] = rows[i];
    std::vector<std::string> tensors;
    i64 bytes = 0;
    for (; i < rows.size() && rows[i].owner == plan && rows[i].unused.kind == first.kind; ++i) {
      if (!rows[i].unused.tensor.empty()) tensors.push_back(rows[i].unused.tensor);
      bytes += rows[i].unused.bytes;
    }
    findings.push_back({"never-touched", "note", "",
                        concat(plan, ": ", mebibytes(bytes), " MiB",
                               tensors.empty() ? std::string() : concat(" of ", join(tensors, ", ", " and ")),
                               " are never touched: ", first.why),
                        "", bytes});
  }
  return findings;
}

// Every tensor that is too small, each at the smallest live count that meets it.
void add_shortages(const AuditedPlan& audited, const MoeAudit& audit, std::vector<Finding>& findings) {
  if (!audit.counter_example()) return;
  const MoeRequest& request = audited.plan->request();
  const bool own_is_sound = !audit_moe(request, audited.plan->layout, audit.map).counter_example();
  std::string remedy = own_is_sound ? "what the contract reserves is sound; the assumed block sizes are not"
                                    : join(sound_alternatives(request, audit.map), "; ");
  if (remedy.empty()) remedy = "no pin, layout or other contract is sound for this plan";
  for (const TensorAudit& t : audit.tensors) {
    if (!t.short_at) continue;
    const i64 missing = (t.short_need - t.planned) * t.item_bytes;
    findings.push_back({"unsound", "error", audited.plan->origin.config_pointer("/capacity/max_tokens"),
                        concat(plan_name(audited.plan->id()), ": ", t.name, " is short by ", grouped(missing),
                               " B at m=", *t.short_at, " (", grouped(t.short_need * t.item_bytes),
                               " B needed, ", grouped(t.planned * t.item_bytes), " B planned)",
                               audit.map == ExpertMap::present ? " when an expert map is passed" : "", ": ",
                               text_of(t.consequence)),
                        remedy});
  }
}

std::vector<Finding> findings_of(std::span<const AuditedPlan> audited) {
  std::vector<Finding> findings;
  for (const AuditedPlan& a : audited) {
    for (const MoeAudit& audit : a.audits) add_shortages(a, audit, findings);
    for (const SizeSurprise& surprise : size_surprises(a.plan->request(), a.plan->layout))
      findings.push_back({std::string(surprise.rule), "note", a.plan->origin.config_pointer(surprise.pointer),
                          concat(plan_name(a.plan->id()), ": ", surprise.message), "", surprise.bytes});
  }
  return findings;
}

// Plans that hold what is needed and yet cannot be launched: no answer of an audit, so a warning.
std::vector<Finding> failure_warnings(const Deployment& deployment, const std::vector<DeployedPlan>& plans,
                                      const std::string& choice) {
  if (!deployment.device || !deployment.device->shared_memory_per_block_optin) return {};
  std::vector<DeployedPlan> chosen;
  std::ranges::copy_if(plans, std::back_inserter(chosen),
                       [&](const DeployedPlan& plan) { return is_chosen(plan.id(), choice); });
  auto failures = launch_failures(chosen, *deployment.device->shared_memory_per_block_optin);
  for (Finding& failure : failures) failure.level = "warning";
  return failures;
}

std::string verdict_line(const PlannedConfig& planned, std::span<const AuditedPlan> audited, i64 unused) {
  const auto& name = planned.config->deployment.name;
  std::vector<std::string> sound, open;
  std::string unsound;
  for (const AuditedPlan& a : audited) {
    if (a.audits.empty()) {
      open.push_back(a.plan->id());
    } else if (const auto m = a.counter_example()) {
      for (const MoeAudit& audit : a.audits) {
        for (const TensorAudit& t : audit.tensors) {
          if (unsound.empty() && t.short_at == m)
            unsound = concat(plan_name(a.plan->id()), " is too small at m=", *m, ": ", t.name, " is ",
                             verdict_of(t), ", ", text_of(t.consequence));
        }
      }
    } else {
      sound.push_back(concat(a.plan->id(), " 1..", grouped(a.audits.front().capacity)));
    }
  }
  std::string line = name ? concat(*name, ": ") : std::string();
  if (!unsound.empty())
    line += concat("UNSOUND · ", unsound);
  else if (!sound.empty())
    line += concat("SOUND · every live token count fits, tensor by tensor: ", join(sound, ", "));
  else
    line += "NOT AUDITED · no W4A16 plan in this config";
  if (!open.empty() && (!sound.empty() || !unsound.empty()))
    line += concat(" · not audited: ", join(open, ", "));
  if (unused > 0) line += concat(" · ", mebibytes(unused), " MiB never touched");
  return line + concat(" · contract ", planned.contract_names());
}

Result<Report> audit_report(const PlannedConfig& planned, const std::vector<DeployedPlan>& plans,
                            const AuditOptions& options) {
  const Deployment& deployment = planned.config->deployment;
  std::vector<AuditedPlan> audited;
  i64 counts_left = kExhaustiveTokens;
  for (const DeployedPlan& plan : plans) {
    if (!is_chosen(plan.id(), options.plan)) continue;
    // Many counts in all are looked at where their needs peak.
    const i64 counts = plan.request().capacity.tokens();
    AuditAssumptions assumptions = assumptions_of(options);
    if (counts > counts_left) assumptions.search = AuditSearch::peaks;
    counts_left = max_of(counts_left - counts, 0);
    auto answer = audit_plan(plan, assumptions);
    if (!answer) return answer.error();
    audited.push_back(std::move(*answer));
  }
  auto unused = unused_of(deployment, audited);
  if (!options.plan.empty())
    std::erase_if(unused, [&](const UnusedOfPlan& row) { return row.owner != options.plan; });
  const auto kv = stated_kv_cache(deployment);
  i64 unused_sum = 0;
  for (const UnusedOfPlan& row : unused) unused_sum += row.unused.bytes;

  Report report;
  report.schema = "moeplan.audit/1";
  report.answered_no =
      std::ranges::any_of(audited, [](const AuditedPlan& a) { return a.counter_example().has_value(); });
  report.verdict = verdict_line(planned, audited, unused_sum);
  report.subject = subject_of(deployment);
  const bool any_audited =
      std::ranges::any_of(audited, [](const AuditedPlan& a) { return !a.audits.empty(); });
  report.facts = {{"name", deployment.name ? Cell(*deployment.name) : Cell()},
                  {"contract", planned.contract_names()},
                  {"sound", any_audited ? Cell(!report.answered_no) : Cell()},
                  {"assume_blocks", options.assume_blocks.empty() ? Cell() : Cell(options.assume_blocks)}};
  report.totals = {{"never_touched_bytes", unused_sum},
                   {"never_touched_kv_tokens", kv_tokens_cell(kv, unused_sum)}};
  report.tables.push_back(plans_table(audited));
  report.tables.push_back(unused_table(unused, kv));
  report.findings = findings_of(audited);
  for (auto& more : {unused_findings(unused), failure_warnings(deployment, plans, options.plan)})
    report.findings.insert(report.findings.end(), more.begin(), more.end());
  const bool any_lean =
      std::ranges::any_of(audited, [](const AuditedPlan& a) { return a.reserve.contract->lean_executor; });
  if (!options.assume_blocks.empty())
    report.notes.push_back(concat(
        "the reserve is that of a planner that sizes unpinned plans for blocks: ", options.assume_blocks,
        "; launches are the contract's own, and pinned plans are as they are",
        any_lean ? ", as are those of the lean executor, which has blocks of its own" : ""));
  add_engine_note(report, deployment);
  if (!planned.mixed_parts.empty())
    report.notes.push_back(
        "the one-grid kernels of mixed bit widths are compiled for their capacity: fewer live tokens change "
        "nothing in their buffers");
  if (!planned.indexer_plans.empty())
    report.notes.push_back("indexer arenas are checked when a call is bound, not here");
  if (std::ranges::any_of(audited, [](const AuditedPlan& a) { return a.audits.empty(); }))
    report.notes.push_back("how micro and dynamic launches size themselves is not modelled: not audited");
  if (!kv && unused_sum > 0) report.notes.push_back("KV tokens need a deployment whose KV cache is stated");
  return report;
}

}  // namespace

ExitCode run_audit(const AuditOptions& options) {
  return answer_plans(options.configs, options.plan, PlanScope::moe,
                      [&](const PlannedConfig& planned, const std::vector<DeployedPlan>& plans) {
                        return audit_report(planned, plans, options);
                      });
}

}  // namespace moeplan
