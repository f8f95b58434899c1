// moeplan size: how many bytes does each rank reserve, arena by arena, tensor by tensor?
#pragma once

#include "cli/commands/planned_config.hpp"
#include "planner/core/report.hpp"

namespace moeplan {

// Of a config without problems.
Report size_report(const PlannedConfig& planned);

}  // namespace moeplan
