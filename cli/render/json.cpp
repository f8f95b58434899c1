// Reports as JSON: integers and texts only, declaration order, the same bytes for the same report.
#include "cli/render/json.hpp"

#include "cli/render/render.hpp"

namespace moeplan {

void write_cell(JsonWriter& json, const Cell& cell) {
  if (const auto* truth = std::get_if<bool>(&cell)) {
    json.value(*truth);
  } else if (const auto* number = std::get_if<i64>(&cell)) {
    json.value(*number);
  } else if (const auto* text = std::get_if<std::string>(&cell)) {
    json.value(std::string_view(*text));
  } else if (const auto* list = std::get_if<std::vector<i64>>(&cell)) {
    json.inline_array(*list);
  } else if (const auto* raw = std::get_if<RawJson>(&cell)) {
    json.raw(raw->text);
  } else {
    json.null();
  }
}

void write_finding(JsonWriter& json, const Finding& finding) {
  json.member("rule", finding.rule);
  json.member("level", finding.level);
  json.member("bytes", finding.bytes);
  json.member("pointer", finding.pointer);
  json.member("message", finding.message);
  json.member("remedy", finding.remedy);
  json.member("line", finding.line);
  json.member("column", finding.column);
}

namespace {

void write_facts(JsonWriter& json, std::span<const Fact> facts) {
  for (const auto& [key, value] : facts) {
    // Totals of plans carry the plans' names.
    json.text_key(key);
    write_cell(json, value);
  }
}

}  // namespace

void write_figures(JsonWriter& json, const Report& report) {
  write_facts(json, report.facts);
  json.key("totals").begin_object();
  write_facts(json, report.totals);
  json.end_object();
}

void write_problem(JsonWriter& json, const Problem& problem) {
  const auto& [error, place] = problem;
  json.member("code", name_of(error.code));
  json.member("pointer", error.pointer);
  json.member("file", place.source);
  json.member("line", place.line);
  json.member("column", place.column);
  json.member("message", error.message);
  json.member("help", error.help);
}

namespace {

void write_table(JsonWriter& json, const Table& table) {
  json.key(table.key).begin_array();
  for (const Row& row : table.rows) {
    json.begin_object();
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].audience == Audience::people) continue;
      json.text_key(table.columns[i].key);
      write_cell(json, row.cells[i]);
    }
    for (const Table& detail : row.details) write_table(json, detail);
    json.end_object();
  }
  json.end_array();
}

void write_report(JsonWriter& json, const Report& report) {
  json.begin_object();
  json.member("schema", report.schema);
  json.member("verdict", report.verdict);
  write_figures(json, report);
  for (const Table& table : report.tables) write_table(json, table);
  json.key("findings").begin_array();
  for (const Finding& finding : report.findings) {
    json.begin_object();
    write_finding(json, finding);
    json.end_object();
  }
  json.end_array();
  json.key("notes").begin_array();
  for (const std::string& note : report.notes) json.value(std::string_view(note));
  json.end_array();
  json.end_object();
}

}  // namespace

std::string render_json(std::span<const Report> reports, std::span<const Problem> problems,
                        const RenderOptions&) {
  std::string out;
  JsonWriter json(out, JsonWriter::Style::indented);
  if (problems.empty() && reports.size() == 1) {
    write_report(json, reports[0]);
  } else {
    json.begin_object();
    json.member("schema", problems.empty() ? "moeplan.reports/1" : "moeplan.errors/1");
    if (!problems.empty()) {
      json.key("errors").begin_array();
      for (const Problem& problem : problems) {
        json.begin_object();
        write_problem(json, problem);
        json.end_object();
      }
      json.end_array();
    }
    if (!reports.empty()) {
      json.key("reports").begin_array();
      for (const Report& report : reports) write_report(json, report);
      json.end_array();
    }
    json.end_object();
  }
  out += "\n";
  return out;
}

}  // namespace moeplan
