// moeplan check: does a config obey the policy, and does it stay near its baseline?
#include <algorithm>

#include "cli/commands/config_key.hpp"
#include "cli/commands/engine_note.hpp"
#include "cli/commands/finish.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/snapshot_of.hpp"
#include "cli/commands/today.hpp"
#include "cli/io/baseline_file.hpp"
#include "cli/io/policy_file.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"
#include "planner/policy/rules.hpp"

namespace moeplan {
namespace {

// How many findings a report has of each level.
struct Counts {
  i64 errors = 0, warnings = 0, notes = 0;
};

Counts count(std::span<const Finding> findings) {
  Counts counts;
  for (const Finding& finding : findings) {
    counts.errors += finding.level == "error" ? 1 : 0;
    counts.warnings += finding.level == "warning" ? 1 : 0;
    counts.notes += finding.level == "note" ? 1 : 0;
  }
  return counts;
}

std::string counted(i64 number, std::string_view what) {
  return concat(number, " ", what, number == 1 ? "" : "s");
}

std::string counts_text(const Counts& counts) {
  std::vector<std::string> parts;
  if (counts.errors > 0) parts.push_back(counted(counts.errors, "error"));
  if (counts.warnings > 0) parts.push_back(counted(counts.warnings, "warning"));
  if (counts.notes > 0) parts.push_back(counted(counts.notes, "note"));
  return parts.empty() ? "nothing to say" : join(parts, ", ");
}

// What the checks of all configs share.
struct Gate {
  const PolicyFile& policy;
  const BaselineFile* baseline;  // null: none
  Date today;
  std::string_view fail_on;
  std::vector<bool> used_waivers = {};
};

bool fails(const Report& report, const Gate& gate) {
  return std::ranges::any_of(report.findings,
                             [&](const Finding& finding) { return reaches(finding, gate.fail_on); });
}

Result<Report> check_report(const PlannedConfig& planned, Gate& gate) {
  const Deployment& deployment = planned.config->deployment;
  const auto plans = deployed_plans(deployment);
  if (!plans) return plans.error();
  std::vector<PlanLaunches> launches;
  if (deployment.device && deployment.device->shared_memory_per_block_optin)
    launches = launches_of(stepped(*plans), *deployment.device->shared_memory_per_block_optin);
  const Snapshot now = snapshot_of(planned, config_key(planned.config->name));
  const Snapshot* baseline = gate.baseline ? gate.baseline->baseline.find(now.config) : nullptr;
  std::optional<Difference> difference;
  if (baseline) difference = difference_of(*baseline, now);
  const CheckSubject subject{.deployment = deployment,
                             .plans = *plans,
                             .launches = launches,
                             .indexer_plans = planned.indexer_plans,
                             .now = now,
                             .baseline = baseline,
                             .difference = difference ? &*difference : nullptr,
                             .baseline_lacks_config = gate.baseline && !baseline};

  Report report;
  report.schema = "moeplan.check/1";
  report.findings = check_policy(subject, gate.policy.policy, gate.today, gate.used_waivers);
  const Counts counts = count(report.findings);
  const bool failed = fails(report, gate);
  report.verdict = concat(planned.config->name, ": ", failed ? "FAIL" : "PASS", " · ", counts_text(counts),
                          " · ", mebibytes(now.moe_bytes), " MiB of MoE scratch per rank");
  if (difference) {
    const i64 growth = growth_of(difference->moe_bytes);
    report.verdict += concat(" (", growth < 0 ? "" : "+", mebibytes(growth), " against baseline ",
                             short_digest(gate.baseline->text), ")");
  }
  report.verdict += concat(" · contract ", now.contract);
  report.subject = subject_of(deployment);
  report.facts = {{"name", deployment.name ? Cell(*deployment.name) : Cell()},
                  {"contract", now.contract},
                  {"policy", gate.policy.name},
                  {"baseline", gate.baseline ? Cell(short_digest(gate.baseline->text)) : Cell()},
                  {"passes", !failed}};
  report.totals = {
      {"errors", counts.errors},
      {"warnings", counts.warnings},
      {"notes", counts.notes},
      {"per_rank_bytes", now.moe_bytes},
      {"indexer_per_rank_bytes", now.indexer_bytes},
      {"kv_tokens", optional_cell(now.kv_tokens)},
      {"cold_keys", optional_cell(now.cold_keys)},
      {"growth_bytes", difference ? Cell(difference->growth()) : Cell()},
      {"growth_kv_tokens", difference ? optional_cell(difference->kv_tokens_of_growth) : Cell()}};
  if (difference && (difference->differs() || !difference->settings.empty())) {
    for (Table& table : difference_tables(*difference, false)) report.tables.push_back(std::move(table));
  }
  add_engine_note(report, subject.deployment);
  report.notes.push_back("moeplan help MP010 explains a rule, moeplan help rules lists them");
  return report;
}

// The verdict over all configs, and what is wrong with the policy's waivers. `unread`: configs that could not
// be checked.
Report summary_of(std::span<const Report> reports, i64 unread, const Gate& gate) {
  Report summary;
  summary.schema = "moeplan.checks/1";
  summary.findings = waiver_findings(gate.policy.policy, gate.today, gate.used_waivers);
  summary.source = gate.policy.name;
  for (Finding& finding : summary.findings) {
    const Place place = gate.policy.document.place_in_file(finding.pointer);
    finding.line = place.line;
    finding.column = place.column;
  }
  Counts all = count(summary.findings);
  Table table;
  table.key = "checks";
  table.columns = {{"config", "CONFIG"},
                   {"per_rank_bytes", "MOE SCRATCH", ColumnKind::bytes},
                   {"errors", "ERRORS", ColumnKind::count},
                   {"warnings", "WARNINGS", ColumnKind::count},
                   {"passes", "PASSES"}};
  i64 failed = 0;
  for (const Report& report : reports) {
    const Counts counts = count(report.findings);
    all.errors += counts.errors;
    all.warnings += counts.warnings;
    all.notes += counts.notes;
    failed += fails(report, gate) ? 1 : 0;
    const auto bytes = std::ranges::find(report.totals, "per_rank_bytes", &Fact::key);
    table.rows.push_back(
        {{report.source, bytes->value, counts.errors, counts.warnings, !fails(report, gate)}, {}});
  }
  const i64 configs = static_cast<i64>(reports.size()) + unread;
  std::vector<std::string> reasons;
  if (unread > 0) reasons.push_back(concat(unread, " of ", counted(configs, "config"), " not checked"));
  if (failed > 0) reasons.push_back(concat(failed, " of ", counted(configs, "config"), " failed"));
  if (fails(summary, gate)) reasons.push_back("waivers");
  summary.verdict = concat(reasons.empty() ? concat("PASS · ", counted(configs, "config"))
                                           : concat("FAIL · ", join(reasons, ", ")),
                           " · ", counts_text(all));
  summary.totals = {{"configs", configs},   {"not_checked", unread},    {"failed", failed},
                    {"errors", all.errors}, {"warnings", all.warnings}, {"notes", all.notes}};
  summary.tables.push_back(std::move(table));
  return summary;
}

}  // namespace

ExitCode run_check(CheckOptions options) {
  ReportOptions& output = options.configs.report;
  if (output.fail_on.empty()) output.fail_on = "error";
  const auto policy = read_policy(options.policy);
  if (!policy->problems.empty()) return finish({}, policy->problems, output);
  std::unique_ptr<BaselineFile> baseline;
  if (!options.baseline.empty()) {
    baseline = read_baseline(options.baseline);
    if (!baseline->problems.empty()) return finish({}, baseline->problems, output);
  }
  Gate gate{*policy, baseline.get(), date_or_today(options.today), output.fail_on};
  return answer_configs(
      options.configs, [&](const PlannedConfig& planned) { return check_report(planned, gate); },
      [&](std::vector<Report>& reports, std::span<const Problem>) {
        const i64 unread = static_cast<i64>(options.configs.paths.size() - reports.size());
        Report summary = summary_of(reports, unread, gate);
        // One config says all there is, unless the waivers have something to say.
        if (reports.size() + static_cast<std::size_t>(unread) > 1 || !summary.findings.empty())
          reports.insert(reports.begin(), std::move(summary));
      });
}

}  // namespace moeplan
