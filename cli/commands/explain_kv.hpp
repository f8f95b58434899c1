// moeplan explain kv: the bytes a token takes, the tokens the cache holds, and what moves them.
#pragma once

#include "cli/commands/planned_config.hpp"
#include "planner/core/report.hpp"

namespace moeplan {

// Errors point into the config.
Result<Report> explain_kv(const PlannedConfig& planned);

}  // namespace moeplan
