// moeplan explain indexer: which route, by which rule, what else there was, what the route never touches, and
// what each step costs.
#pragma once

#include "cli/commands/planned_config.hpp"
#include "planner/core/report.hpp"

namespace moeplan {

// Of a config without problems. `with_steps` adds the per-call step model.
Report explain_indexer_report(const PlannedConfig& planned, bool with_steps);

}  // namespace moeplan
