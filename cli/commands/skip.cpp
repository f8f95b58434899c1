#include "cli/commands/skip.hpp"

#include "cli/render/marks.hpp"
#include "planner/core/text.hpp"

namespace moeplan {

std::string skip_reason(const Error& why) { return first_line(why.message); }

void add_skip(Report& report, const Error& why) {
  const std::string reason = skip_reason(why);
  Table table;
  table.key = "skips";
  table.columns = {{"reason", "", ColumnKind::text, Audience::programs}};
  table.rows = {{{reason}, {}}};
  report.tables.push_back(std::move(table));
  report.checks.push_back(
      {.name = std::string(kVerdictRule), .findings = {report.findings.size()}, .skipped = reason});
  report.findings.push_back({"skipped", "note", "", concat("nothing was run: ", reason), why.help});
  report.facts.push_back({"skipped", reason});
}

}  // namespace moeplan
