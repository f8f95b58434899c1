#include "cli/render/rows.hpp"

#include <algorithm>

#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

std::string text_of(const Cell& cell) {
  if (const auto* truth = std::get_if<bool>(&cell)) return *truth ? "true" : "false";
  if (const auto* number = std::get_if<i64>(&cell)) return std::to_string(*number);
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* list = std::get_if<std::vector<i64>>(&cell)) return join(*list, "x");
  if (const auto* raw = std::get_if<RawJson>(&cell)) return raw->text;
  return "";
}

void visit_table(const Table& table, const std::string& about, const RowVisitor& visit) {
  for (const Row& row : table.rows) {
    visit(table, row, about);
    for (const Table& detail : row.details) visit_table(detail, text_of(row.cells[0]), visit);
  }
}

// Spreadsheets run a cell that starts like a formula. An apostrophe in front makes it a text for them;
// numbers of ours are no texts and stay bare.
std::string without_formula(std::string text) {
  constexpr std::string_view kStarts[] = {"=", "+", "-", "@", "＝", "＋", "－", "＠"};
  const bool is_formula =
      std::ranges::any_of(kStarts, [&](std::string_view start) { return text.starts_with(start); });
  return is_formula ? "'" + text : text;
}

}  // namespace

std::string sheet_text(const Cell& cell) {
  return std::holds_alternative<std::string>(cell) ? without_formula(printable(std::get<std::string>(cell)))
                                                   : text_of(cell);
}

std::string csv_quoted(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

std::string label_of(const Report& report) {
  if (!report.source.empty()) return report.source;
  for (const Fact& fact : report.facts) {
    if (const auto* name = std::get_if<std::string>(&fact.value); name && fact.key == "name") return *name;
  }
  return "";
}

void visit_rows(const Report& report, const RowVisitor& visit) {
  for (const Table& table : report.tables) visit_table(table, "", visit);
}

std::string one_sheet(std::span<const Report> reports, char separator, std::string_view line_end,
                      std::string (*quote)(std::string_view text)) {
  std::vector<std::string> header = {"report", "table", "about"};
  const auto place_of = [&](const std::string& key) {
    // A table's own "table" is another column than the first ones.
    const auto found = std::find(header.begin() + 3, header.end(), key);
    if (found == header.end()) header.push_back(key);
    return static_cast<std::size_t>(std::find(header.begin() + 3, header.end(), key) - header.begin());
  };
  std::vector<std::vector<std::string>> lines;
  for (const Report& report : reports) {
    visit_rows(report, [&](const Table& table, const Row& row, const std::string& about) {
      std::vector<std::string> line = {sheet_text(label_of(report)), table.key, sheet_text(about)};
      for (std::size_t i = 0; i < table.columns.size(); ++i) {
        if (!is_for_programs(table.columns[i])) continue;
        const std::size_t at = place_of(table.columns[i].key);
        line.resize(std::max(line.size(), at + 1));
        line[at] = sheet_text(row.cells[i]);
      }
      lines.push_back(std::move(line));
    });
  }
  lines.insert(lines.begin(), header);
  std::string out;
  for (std::vector<std::string>& line : lines) {
    line.resize(header.size());
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (i > 0) out += separator;
      out += quote(line[i]);
    }
    out += line_end;
  }
  return out;
}

}  // namespace moeplan
