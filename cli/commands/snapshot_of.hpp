// A planned config as a snapshot: what baselines keep and differences compare.
#pragma once

#include "cli/commands/planned_config.hpp"
#include "planner/policy/difference.hpp"
#include "planner/policy/snapshot.hpp"

namespace moeplan {

// Of a config without problems, known by `path`.
Snapshot snapshot_of(const PlannedConfig& planned, std::string path);

// A difference as tables: totals, arenas with their tensors, settings. `all`: unchanged rows too.
std::vector<Table> difference_tables(const Difference& difference, bool all);

}  // namespace moeplan
