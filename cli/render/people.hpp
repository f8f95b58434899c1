// A table as people read it: which columns, in which order, as which texts. Formats for people lay them out.
#pragma once

#include <string>
#include <vector>

#include "cli/render/render.hpp"
#include "planner/core/report.hpp"

namespace moeplan {

// One printed column; a bytes column prints as two, and its bars as a third.
struct PeopleColumn {
  enum class Kind { left, right, bar };
  std::string title;
  Kind kind;
  std::vector<std::string> texts;  // a row each, footers last
};

// Whether people see anything of the table.
bool is_for_people(const Table& table);

// The columns of `table`, rows sorted as people see them.
std::vector<PeopleColumn> people_columns(const Table& table, const RenderOptions& options);

}  // namespace moeplan
