#include "cli/render/people.hpp"

#include <algorithm>

#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {

std::string cell_text(const Cell& cell) {
  if (const auto* truth = std::get_if<bool>(&cell)) return *truth ? "yes" : "no";
  if (const auto* number = std::get_if<i64>(&cell)) return grouped(*number);
  if (const auto* text = std::get_if<std::string>(&cell)) return printable(*text);
  if (const auto* list = std::get_if<std::vector<i64>>(&cell)) return join(*list, "x");
  return "";
}

i64 bytes_of(const Cell& cell) {
  const auto* bytes = std::get_if<i64>(&cell);
  return bytes ? *bytes : 0;
}

std::vector<const Row*> rows_for_people(const Table& table) {
  std::vector<const Row*> rows;
  for (const Row& row : table.rows) rows.push_back(&row);
  if (table.people_sort_by >= 0) {
    const auto column = static_cast<std::size_t>(table.people_sort_by);
    std::ranges::stable_sort(rows, std::greater{},
                             [&](const Row* row) { return bytes_of(row->cells[column]); });
  }
  return rows;
}

}  // namespace moeplan
