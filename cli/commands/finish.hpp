// How a command ends: its answer on stdout, its complaints where the format puts them.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "cli/commands/options.hpp"
#include "cli/commands/planned_config.hpp"

namespace moeplan {

// Prints a text; when it cannot be written, says so on stderr.
ExitCode print(std::string_view text);

// Prints reports, and the problems that stood in the way of others, in the chosen format. A report that
// answers no exits 1, a problem 3.
ExitCode finish(std::span<const Report> reports, std::span<const Problem> problems,
                const ReportOptions& options);

// One report for each config, in their order; the problems of those that have none. An error of `report`
// points into its config.
ExitCode answer_configs(const ConfigOptions& options,
                        const std::function<Result<Report>(const PlannedConfig&)>& report);

}  // namespace moeplan
