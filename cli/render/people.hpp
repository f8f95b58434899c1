// How every format for people words cells and orders rows.
#pragma once

#include <string>
#include <vector>

#include "planner/core/report.hpp"

namespace moeplan {

// "1,234", "yes", "a x b"; control bytes escaped.
std::string cell_text(const Cell& cell);

// An integer cell's value, else 0.
i64 bytes_of(const Cell& cell);

// The table's rows, the largest first where people see them so; footers are not among them.
std::vector<const Row*> rows_for_people(const Table& table);

}  // namespace moeplan
