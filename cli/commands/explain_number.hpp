// moeplan explain ARENA[/TENSOR], kv, total: the formula behind a number, with its values put in, and what
// moves it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/planned_config.hpp"
#include "planner/core/report.hpp"

namespace moeplan {

// What can be explained of a config: kv and total, its arenas, each with its tensors.
std::vector<std::string> explained_names(const PlannedConfig& planned);

// The explanation of one name. An unknown one is an Error unknown_value that lists the names.
Result<Report> explain_number(const PlannedConfig& planned, std::string_view name);

}  // namespace moeplan
