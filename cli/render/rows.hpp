// A report as one list of rows, for formats without nesting.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "planner/core/report.hpp"

namespace moeplan {

// What tells a report from its neighbours: the file it answers about, else its name.
std::string label_of(const Report& report);

// Calls `visit` for each row of each table, a row's details behind it. `about` is the first cell of the row
// that a detail is about, "" for others.
using RowVisitor = std::function<void(const Table& table, const Row& row, const std::string& about)>;
void visit_rows(const Report& report, const RowVisitor& visit);

// Whether programs see the column.
inline bool is_for_programs(const Column& column) { return column.audience != Audience::people; }

// A cell of a sheet: control bytes escaped, and no formula.
std::string sheet_text(const Cell& cell);

// A field as RFC 4180 has it.
std::string csv_quoted(std::string_view text);

// Every row under one header, cells between `separator`s: "report", "table", "about", then each table's own
// columns, a key once. `quote` makes a text a cell.
std::string one_sheet(std::span<const Report> reports, char separator, std::string_view line_end,
                      std::string (*quote)(std::string_view text));

}  // namespace moeplan
