#include "cli/commands/explain_tables.hpp"

#include <algorithm>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

Table inputs_table() {
  Table table;
  table.key = "inputs";
  table.title = "from these inputs";
  table.columns = {{"symbol", ""}, {"value", "VALUE", ColumnKind::count}, {"meaning", ""}};
  return table;
}

Table formulas_table() {
  Table table;
  table.key = "formulas";
  table.title =
      "by these formulas: cd(a,b) rounds a/b up, up(x,a) to a multiple of a, P(t) to a power of two";
  table.columns = {{"symbol", ""},
                   {"expression", "FORMULA"},
                   {"substituted", "WITH VALUES"},
                   {"value", "", ColumnKind::count, Audience::programs},
                   {"unit_bytes", "", ColumnKind::count, Audience::programs},
                   {"bytes", "", ColumnKind::count, Audience::programs},
                   {"decided_by", "DECIDED BY"},
                   {"meaning", "", ColumnKind::text, Audience::programs}};
  return table;
}

std::string with_bytes(const Evaluated& number, const Explained& explained) {
  std::string text = number.substituted;
  if (explained.unit.empty()) return concat(text, " B");
  return concat(text, " ", explained.unit, " x ", grouped(explained.unit_bytes),
                " B = ", grouped(explained.bytes), " B");
}

// The symbols that any of the numbers needs, in their order.
Symbols needed_by(const Symbols& symbols, const std::vector<Explained>& numbers) {
  std::vector<std::string> names;
  for (const Explained& number : numbers) {
    for (const Symbol& symbol : needed_symbols(number.expression, symbols)) names.push_back(symbol.name);
  }
  Symbols needed;
  for (const Symbol& symbol : symbols) {
    if (std::ranges::find(names, symbol.name) != names.end()) needed.push_back(symbol);
  }
  return needed;
}

}  // namespace

std::vector<Table> formula_tables(const Symbols& symbols, const std::vector<Explained>& numbers) {
  Table inputs = inputs_table();
  Table formulas = formulas_table();
  for (const Symbol& symbol : needed_by(symbols, numbers)) {
    if (symbol.expression.empty()) {
      inputs.rows.push_back({{symbol.name, symbol.value, symbol.meaning}, {}});
      continue;
    }
    const Evaluated number = evaluate(symbol.expression, symbols);
    formulas.rows.push_back({{symbol.name, symbol.expression, number.substituted, number.value, Cell(),
                              Cell(), number.decided_by, symbol.meaning},
                             {}});
  }
  for (const Explained& explained : numbers) {
    const Evaluated number = evaluate(explained.expression, symbols);
    MOEPLAN_CHECK(number.value * explained.unit_bytes == explained.bytes,
                  "a formula disagrees with the plan it explains");
    formulas.rows.push_back(
        {{explained.name, explained.expression, with_bytes(number, explained), number.value,
          explained.unit_bytes, explained.bytes, number.decided_by, std::string()},
         {}});
  }
  std::vector<Table> tables;
  if (!inputs.rows.empty()) tables.push_back(std::move(inputs));
  tables.push_back(std::move(formulas));
  return tables;
}

Table neighbour_table(std::string_view name, i64 bytes, bool has_arena, const std::vector<Moved>& moved) {
  Table table;
  table.key = "neighbours";
  table.title = concat("what moves ", name);
  table.columns = {
      {"change", "CHANGE"},
      {"bytes", "BYTES", ColumnKind::bytes},
      {"difference_bytes", "DIFFERENCE", ColumnKind::count},
      {"arena_bytes", "ARENA BYTES", ColumnKind::count, has_arena ? Audience::everyone : Audience::programs},
      {"knob", "SET BY"},
      {"reason", ""}};
  const auto cell = [](std::optional<i64> value) { return value ? Cell(*value) : Cell(); };
  for (const Moved& m : moved)
    table.rows.push_back({{m.change, cell(m.bytes), m.bytes ? Cell(*m.bytes - bytes) : Cell(),
                           cell(m.arena_bytes), m.knob, m.reason.empty() ? m.reason : "skipped: " + m.reason},
                          {}});
  return table;
}

}  // namespace moeplan
