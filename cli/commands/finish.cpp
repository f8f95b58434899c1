#include "cli/commands/finish.hpp"

#include <algorithm>
#include <cstdio>

#include "cli/io/text_file.hpp"

namespace moeplan {

ExitCode print(std::string_view text) {
  const auto written = write_out(text);
  if (written) return ExitCode::ok;
  const Problem problem{written.error(), {}};
  std::fputs(render_problems({&problem, 1}).c_str(), stderr);
  return ExitCode::input;
}

ExitCode finish(std::span<const Report> reports, std::span<const Problem> problems,
                const ReportOptions& options) {
  const Format& format = *options.format;
  if (!reports.empty() || format.renders_problems) {
    if (const ExitCode code = print(format.render(reports, problems, options.render)); code != ExitCode::ok)
      return code;
  }
  if (!problems.empty() && !format.renders_problems) std::fputs(render_problems(problems).c_str(), stderr);
  if (!problems.empty()) return ExitCode::input;
  return std::ranges::any_of(reports, &Report::answered_no) ? ExitCode::no : ExitCode::ok;
}

ExitCode answer_configs(const ConfigOptions& options,
                        const std::function<Result<Report>(const PlannedConfig&)>& report) {
  std::vector<PlannedConfig> configs;  // places in problems point into them
  std::vector<Report> reports;
  std::vector<Problem> problems;
  for (const std::string& path : options.paths) {
    configs.push_back(plan_config(read_config(path, options.overrides)));
    const PlannedConfig& planned = configs.back();
    if (planned.ok()) {
      auto answer = report(planned);
      if (answer)
        reports.push_back(std::move(*answer));
      else if (answer.error().pointer.empty())
        problems.push_back({answer.error(), {}});  // about the command line
      else
        planned.config->add(answer.error());
    }
    problems.insert(problems.end(), planned.config->problems.begin(), planned.config->problems.end());
  }
  return finish(reports, problems, options.report);
}

}  // namespace moeplan
