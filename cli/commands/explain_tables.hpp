// The tables every explanation is made of.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/formula.hpp"
#include "planner/core/report.hpp"

namespace moeplan {

// A number that follows from a formula: a tensor's elements, for example.
struct Explained {
  std::string name;
  std::string expression;
  std::string unit;    // "elements"
  i64 unit_bytes = 1;  // of one of them
  i64 bytes = 0;       // as planned
};

// The inputs that the numbers need, and the formulas that lead to them, written out. A formula that does not
// give the planned bytes is a bug.
std::vector<Table> formula_tables(const Symbols& symbols, const std::vector<Explained>& numbers);

// The same number after one change.
struct Moved {
  std::string change;
  std::string knob;
  std::optional<i64> bytes;        // none: cannot be planned
  std::optional<i64> arena_bytes;  // of the arena around it
  std::string reason;              // why not
};
// `bytes`: as configured.
Table neighbour_table(std::string_view name, i64 bytes, bool has_arena, const std::vector<Moved>& moved);

}  // namespace moeplan
