#include "cli/commands/finish.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "cli/commands/config_key.hpp"
#include "cli/commands/explain_config.hpp"
#include "cli/commands/outputs.hpp"
#include "cli/io/text_file.hpp"
#include "cli/render/text.hpp"
#include "planner/deployment/engine_command.hpp"

namespace moeplan {

bool reaches(const Finding& finding, std::string_view threshold) {
  if (threshold == "all") return true;
  if (threshold == "never" || threshold.empty()) return false;
  return severity_of(finding.level) >= severity_of(threshold);
}

namespace {

bool answers_no(const Report& report, const ReportOptions& options) {
  return report.answered_no || std::ranges::any_of(report.findings, [&](const Finding& finding) {
           return reaches(finding, options.fail_on);
         });
}

// Takes findings below a level out, also of the checks that name them.
void hide_milder(Report& report, std::string_view level) {
  std::vector<Finding> kept;
  std::vector<std::size_t> places;  // among `kept`
  for (Finding& finding : report.findings) {
    const bool is_shown = reaches(finding, level);
    places.push_back(is_shown ? kept.size() : std::string::npos);
    if (is_shown) kept.push_back(std::move(finding));
  }
  report.findings = std::move(kept);
  for (ReportCheck& check : report.checks) {
    for (std::size_t& place : check.findings) place = places[place];
    std::erase(check.findings, std::string::npos);
  }
}

// The working folder, and the folder that paths in SARIF and annotations are relative to.
void locate_working_folder(RenderOptions& options) {
  std::error_code ignored;
  options.working_folder = std::filesystem::current_path(ignored).string();
  options.root_folder = repository_folder();
}

}  // namespace

void warn(std::string_view text) { std::fprintf(stderr, "warning: %s\n", printable(text).c_str()); }

void complain(const Error& error) {
  const Problem problem{error, {}};
  std::fputs(render_problems({&problem, 1}).c_str(), stderr);
}

ExitCode print(std::string_view text) {
  const auto written = write_out(text);
  if (written) return ExitCode::ok;
  complain(written.error());
  return ExitCode::input;
}

ExitCode finish(std::span<const Report> reports, std::span<const Problem> problems,
                const ReportOptions& options) {
  std::vector<Report> shown(reports.begin(), reports.end());
  for (Report& report : shown) hide_milder(report, options.show);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    // Formats that only errors fail have to be told of a no that milder findings stand for.
    const bool has_error =
        std::ranges::find(shown[i].findings, "error", &Finding::level) != shown[i].findings.end();
    shown[i].answered_no = answers_no(reports[i], options) && (reports[i].answered_no || !has_error);
  }
  RenderOptions render = options.render;
  locate_working_folder(render);

  // Standard output comes last: whoever reads it may stop early, and files are whole by then.
  std::vector<Output> outputs = options.outputs;
  std::ranges::stable_partition(outputs, [](const Output& output) { return !output.path.empty(); });
  bool all_written = true;
  bool problems_are_told = problems.empty();
  for (const Output& output : outputs) {
    const bool is_printed = output.path.empty();
    if (is_printed && output.format->renders_problems) problems_are_told = true;
    if (is_printed && reports.empty() && !output.format->renders_problems) continue;
    if (const auto written = write_output(output, shown, problems, render); !written) {
      complain(written.error());
      all_written = false;
    }
  }
  if (!problems_are_told) std::fputs(render_problems(problems).c_str(), stderr);
  if (!problems.empty() || !all_written) return ExitCode::input;
  const bool no = std::ranges::any_of(reports, [&](const Report& r) { return answers_no(r, options); });
  return no && !options.exit_zero ? ExitCode::no : ExitCode::ok;
}

void locate_findings(Report& report, const Config& config) {
  report.source = config.name;
  report.engine = engine_settings(config.deployment);
  for (Finding& finding : report.findings) {
    const Place place = config.document.place_in_file(finding.pointer);
    finding.line = place.line;
    finding.column = place.column;
  }
}

ExitCode answer_configs(const ConfigOptions& options,
                        const std::function<Result<Report>(const PlannedConfig&)>& report,
                        const Completion& complete) {
  std::vector<PlannedConfig> configs;  // places in problems point into them
  std::vector<Report> reports;
  std::vector<Problem> problems;
  for (const std::string& path : options.paths) {
    configs.push_back(plan_config(read_config(path, options.overrides)));
    const PlannedConfig& planned = configs.back();
    if (planned.ok()) {
      auto answer = options.explains_config ? Result<Report>(config_report(planned)) : report(planned);
      if (answer) {
        locate_findings(*answer, *planned.config);
        reports.push_back(std::move(*answer));
      } else if (answer.error().pointer.empty()) {
        problems.push_back({answer.error(), {}});  // about the command line
      } else {
        planned.config->add(answer.error());
      }
    }
    problems.insert(problems.end(), planned.config->problems.begin(), planned.config->problems.end());
  }
  if (complete && !options.explains_config) complete(reports, problems);
  return finish(reports, problems, options.report);
}

}  // namespace moeplan
