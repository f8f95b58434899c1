// Pieces of a report as JSON, for every format that is JSON.
#pragma once

#include <span>

#include "cli/io/fields.hpp"
#include "cli/io/json_writer.hpp"
#include "planner/core/report.hpp"

namespace moeplan {

void write_cell(JsonWriter& json, const Cell& cell);

// Facts and totals of a report, as members of an object that is open.
void write_figures(JsonWriter& json, const Report& report);
void write_finding(JsonWriter& json, const Finding& finding);
void write_problem(JsonWriter& json, const Problem& problem);

}  // namespace moeplan
