// Reading an import's rows in tests.
#pragma once

#include <string>
#include <string_view>

#include "cli/import/import.hpp"

namespace moeplan::test {

// The JSON of the best row at `pointer`, or "".
inline std::string value_at(const Import& import, std::string_view pointer) {
  const ImportRow* best = nullptr;
  for (const ImportRow& row : import.rows) {
    if (row.pointer == pointer && (!best || row.rank < best->rank)) best = &row;
  }
  return best ? best->json : "";
}

inline std::string from_of(const Import& import, std::string_view pointer) {
  const ImportRow* row = find_row(import, pointer);
  return row ? row->from : "";
}

// "file:line:column: message" of the first problem, or "".
inline std::string first_problem(const Import& import) {
  if (import.problems.empty()) return "";
  const Problem& p = import.problems[0];
  return std::string(p.place.source) + ":" + std::to_string(p.place.line) + ":" +
         std::to_string(p.place.column) + ": " + p.error.message;
}

}  // namespace moeplan::test
