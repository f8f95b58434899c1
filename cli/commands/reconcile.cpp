// moeplan reconcile: do the figures an engine printed agree with the plan of its settings?
#include <algorithm>

#include "cli/commands/finish.hpp"
#include "cli/commands/import.hpp"
#include "cli/log.hpp"
#include "cli/reconcile/reconcile.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

std::string differences(std::span<const ReconciledFigure> figures) {
  std::vector<std::string> parts;
  for (const ReconciledFigure& f : figures) {
    if (f.match == false)
      parts.push_back(concat(f.name.what, " ", f.predicted, " predicted, ", f.logged, " logged"));
  }
  return join(parts, "; ");
}

std::string verdict_of(std::string_view name, std::span<const ReconciledFigure> figures, i64 matches,
                       i64 mismatches) {
  const i64 open = static_cast<i64>(figures.size()) - matches - mismatches;
  const std::string rest = open > 0 ? concat(" · ", open, " not derivable") : std::string();
  if (figures.empty()) return concat(name, ": NOTHING TO COMPARE · the log prints no figure that is known");
  if (matches + mismatches == 0) return concat(name, ": NOTHING TO COMPARE", rest);
  if (mismatches == 0) return concat(name, ": MATCHES · ", matches, " of ", matches, " figures", rest);
  return concat(name, ": DIFFERS · ", mismatches, " of ", matches + mismatches, " figures", rest, " · ",
                differences(figures));
}

Table lines_table(std::span<const ReconciledFigure> figures) {
  Table table;
  table.key = "lines";
  table.title = "PREDICTED AND LOGGED";
  table.columns = {{"what", ""},
                   {"predicted", "PREDICTED", ColumnKind::count},
                   {"logged", "LOGGED", ColumnKind::count},
                   {"unit", "UNIT"},
                   {"match", "", ColumnKind::text, Audience::programs},
                   {"answer", "ANSWER", ColumnKind::text, Audience::people},
                   {"line", "LINE", ColumnKind::count},
                   {"rule", "", ColumnKind::text, Audience::programs},
                   {"why", ""}};
  for (const ReconciledFigure& f : figures)
    table.rows.push_back({{std::string(f.name.what), f.predicted.empty() ? Cell() : Cell(f.predicted),
                           f.logged, std::string(f.name.unit), f.match ? Cell(*f.match) : Cell(),
                           std::string(!f.match   ? "not derivable"
                                       : *f.match ? "match"
                                                  : "MISMATCH"),
                           f.line, std::string(f.name.rule), f.why.empty() ? Cell() : Cell(f.why)},
                          {}});
  return table;
}

Report report_of(const EngineLog& log, const Import& import, const KnownDeployment& known) {
  const auto figures = reconcile(log, known);
  const i64 matches = std::ranges::count(figures, std::optional(true), &ReconciledFigure::match);
  const i64 mismatches = std::ranges::count(figures, std::optional(false), &ReconciledFigure::match);
  Report report;
  report.answered_no = mismatches > 0;
  report.schema = "moeplan.reconcile/1";
  report.source = log.name;
  report.verdict = verdict_of(base_name(log.name), figures, matches, mismatches);
  const ImportRow* contract = find_row(import, "/contract");
  report.facts = {{"name", std::string(base_name(log.name))},
                  {"contract", known.deployment && known.deployment->contract
                                   ? Cell(std::string(known.deployment->contract->id))
                                   : Cell()}};
  report.totals = {{"matches", matches},
                   {"mismatches", mismatches},
                   {"not_derivable", static_cast<i64>(figures.size()) - matches - mismatches}};
  report.tables.push_back(lines_table(figures));
  report.notes = import.notes;
  if (const ImportRow* device = find_row(import, "/device/sm_count");
      device && device->kind == RowKind::assumed)
    report.notes.push_back(concat("device assumed ", device->from, "; --device states another"));
  if (contract && contract->kind == RowKind::assumed) report.notes.push_back(contract->from);
  return report;
}

}  // namespace

ExitCode run_reconcile(const ReconcileOptions& options) {
  const auto fail = [&](std::span<const Problem> problems) { return finish({}, problems, options.report); };
  const auto log = read_engine_log(options.import.file);
  if (!log) {
    const Problem problem{log.error(), Place{options.import.file, 0, 0, {}, 1}};
    return fail({&problem, 1});
  }
  log_info(concat("read ", log->name, ": ", log->lines, " lines, ", log->figures.size(), " figures"));
  Import import;
  KnownDeployment known;
  std::unique_ptr<Config> config;
  // Without its beginning a log has figures that follow from each other.
  const bool has_start = log->arguments || log->config;
  if (has_start || log->figures.empty() || !log->problems.empty()) {
    import_engine_log(import, *log);
    if (import.problems.empty()) complete_import(import, options.import);
    if (!import.problems.empty()) return fail(import.problems);
    known.missing = missing_fields(import);
    config = read_back(import, write_config(import), known.missing.empty());
    if (!import.problems.empty()) return fail(import.problems);
    known.deployment = &config->deployment;
  }
  const Report report = report_of(*log, import, known);
  return finish({&report, 1}, {}, options.report);
}

}  // namespace moeplan
