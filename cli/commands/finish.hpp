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

// Writes reports, and the problems that stood in the way of others, to every output. A report that answers
// no, or has a finding that options.fail_on names, exits 1; a problem exits 3. The formats change neither.
ExitCode finish(std::span<const Report> reports, std::span<const Problem> problems,
                const ReportOptions& options);

// Says on stderr what is wrong, with its remedy.
void complain(const Error& error);
// Says on stderr what is odd and stops nothing.
void warn(std::string_view text);

// Notes which config a report answers about, its engine's settings, and where its findings stand there.
void locate_findings(Report& report, const Config& config);

// Whether a finding is at or above a threshold: a level, "all" or "never"; "" is never.
bool reaches(const Finding& finding, std::string_view threshold);

using Completion = std::function<void(std::vector<Report>&, std::span<const Problem>)>;

// One report for each config, in their order; the problems of those that have none. An error of `report`
// points into its config.
// `complete`, where given, may add to the reports of all configs before they are printed beside the problems.
ExitCode answer_configs(const ConfigOptions& options,
                        const std::function<Result<Report>(const PlannedConfig&)>& report,
                        const Completion& complete = nullptr);

}  // namespace moeplan
