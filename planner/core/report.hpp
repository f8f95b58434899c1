// Report: what every command answers. A format renders any Report; a command needs no renderer of its own.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "planner/core/check.hpp"
#include "planner/core/integer.hpp"

namespace moeplan {

// A value that is JSON text already: of a structure that no table has.
struct RawJson {
  std::string text;
};

// Empty, a truth, an integer, a text, a list of integers, or raw JSON.
using Cell = std::variant<std::monostate, bool, i64, std::string, std::vector<i64>, RawJson>;

inline Cell optional_cell(const std::optional<i64>& value) { return value ? Cell(*value) : Cell(); }

enum class ColumnKind {
  text,
  count,
  bytes,  // people also see it in MiB
};

// Who sees a column: programs read everything but hints for the eye.
enum class Audience { everyone, programs, people };

struct Column {
  std::string key;    // in JSON and CSV; stable
  std::string title;  // for people
  ColumnKind kind = ColumnKind::text;
  Audience audience = Audience::everyone;
  bool draws_bar = false;  // bytes: people see each row's share of the largest as a bar
};

struct Table;

struct Row {
  std::vector<Cell> cells;     // one a column
  std::vector<Table> details;  // tables about this row
};

struct Table {
  std::string key;
  std::string title;
  std::vector<Column> columns;
  std::vector<Row> rows;     // in the order programs see
  std::vector<Row> footers;  // for people: sums, padding
  int people_sort_by = -1;   // column by which people see the rows, largest first

  // Index of the column with that key.
  std::size_t column(std::string_view column_key) const {
    std::size_t index = 0;
    while (index < columns.size() && columns[index].key != column_key) ++index;
    MOEPLAN_CHECK(index < columns.size(), "a table without that column");
    return index;
  }
};

// A named value outside any table.
struct Fact {
  std::string key;
  Cell value;
};

// Levels of a finding, mildest first.
inline constexpr std::string_view kLevels[] = {"note", "warning", "error"};

// The level's place among kLevels.
inline int severity_of(std::string_view level) {
  int severity = 0;
  while (severity < 3 && kLevels[severity] != level) ++severity;
  MOEPLAN_CHECK(severity < 3, "a finding without a level");
  return severity;
}

struct Finding {
  std::string rule;     // a stable word
  std::string level;    // one of kLevels
  std::string pointer;  // into the config
  std::string message;
  std::string remedy;
  i64 bytes = 0;  // what it costs a rank; 0 where it costs no memory
  i64 line = 0;   // where the report's source says it, from 1; 0 where no file does
  i64 column = 0;
};

// Something that was checked, for formats that list what passed as well.
struct ReportCheck {
  std::string name;
  std::vector<std::size_t> findings;  // places, among the report's, of what was found
  std::string skipped;                // why it was not made; "": it was
};

// A value for each point of a chart; none where there is no answer.
struct ChartSeries {
  std::string name;
  std::vector<std::optional<i64>> values;
};

// What pictures show beside the tables: curves over points in their order, and what the bytes of some points
// are made of.
struct Chart {
  std::string title;
  std::string axis;                 // what the points are
  std::vector<std::string> points;  // their labels
  // Where the points lie on a logarithmic axis, all above 0. Values are then nanoseconds above 0, on a
  // logarithmic scale too. Empty: points are evenly spaced, and values are bytes.
  std::vector<i64> places;
  std::vector<ChartSeries> series;  // over `points`
  std::vector<std::string> stack_points;
  std::vector<ChartSeries> stacks;  // parts, over `stack_points`
};

// A setting of the engine that a report is about, as an operator types it.
enum class EngineSettingKind { flag, variable };
struct EngineSetting {
  EngineSettingKind kind;
  std::string name;
  std::string value;
};

struct Report {
  std::string schema;        // such as "moeplan.plan/1"
  std::string verdict;       // the answer in one line
  bool answered_no = false;  // the question was answered with no: exit code 1, in every format
  std::string subject;       // what it is about, one line
  std::string source;        // the file it answers about, as its user named it; "stdin"
  std::vector<Fact> facts;   // for programs
  std::vector<Fact> totals;  // for programs
  std::vector<Table> tables;
  std::optional<Chart> chart;
  std::vector<Finding> findings;
  std::vector<ReportCheck> checks;
  std::vector<std::string> notes;
  std::vector<EngineSetting> engine;  // of its config
};

}  // namespace moeplan
