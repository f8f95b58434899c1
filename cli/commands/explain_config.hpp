// --explain-config: every field of a config with its value and where that came from.
#pragma once

#include "cli/commands/planned_config.hpp"
#include "planner/core/report.hpp"

namespace moeplan {

// In place of a command's own answer.
Report config_report(const PlannedConfig& planned);

}  // namespace moeplan
