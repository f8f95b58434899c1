// moeplan explain total: the sum of what size reports, and which settings of the deployment move it.
#pragma once

#include "cli/commands/planned_config.hpp"
#include "planner/core/report.hpp"

namespace moeplan {

Result<Report> explain_total(const PlannedConfig& planned);

}  // namespace moeplan
