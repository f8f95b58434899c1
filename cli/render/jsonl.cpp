// Reports as JSON lines: the verdict, then every row of every table, findings, notes and mistakes, each an
// object that names its report and table.
#include "cli/render/json.hpp"
#include "cli/render/render.hpp"
#include "cli/render/rows.hpp"

namespace moeplan {
namespace {

// One line; `write_members` fills its object.
template <class WriteMembers>
void append_line(std::string& out, std::string_view report, std::string_view table,
                 WriteMembers write_members) {
  JsonWriter json(out);
  json.begin_object();
  json.member("report", report);
  json.member("table", table);
  write_members(json);
  json.end_object();
  out += '\n';
}

void append_report(std::string& out, const Report& report) {
  const std::string label = label_of(report);
  append_line(out, label, "report", [&](JsonWriter& json) {
    json.member("schema", report.schema);
    json.member("verdict", report.verdict);
    json.member("answered_no", report.answered_no);
    write_figures(json, report);
  });
  visit_rows(report, [&](const Table& table, const Row& row, const std::string& about) {
    append_line(out, label, table.key, [&](JsonWriter& json) {
      if (!about.empty()) json.member("about", about);
      for (std::size_t i = 0; i < table.columns.size(); ++i) {
        if (!is_for_programs(table.columns[i])) continue;
        json.text_key(table.columns[i].key);
        write_cell(json, row.cells[i]);
      }
    });
  });
  for (const Finding& finding : report.findings)
    append_line(out, label, "findings", [&](JsonWriter& json) { write_finding(json, finding); });
  for (const std::string& note : report.notes)
    append_line(out, label, "notes", [&](JsonWriter& json) { json.member("note", note); });
}

}  // namespace

std::string render_jsonl(std::span<const Report> reports, std::span<const Problem> problems,
                         const RenderOptions&) {
  std::string out;
  for (const Report& report : reports) append_report(out, report);
  for (const Problem& problem : problems)
    append_line(out, problem.place.source, "errors", [&](JsonWriter& json) { write_problem(json, problem); });
  return out;
}

}  // namespace moeplan
