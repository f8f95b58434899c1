// How a command ends: its answer on stdout, its complaints where the format puts them.
#include <cstdio>

#include "cli/commands/options.hpp"
#include "cli/io/text_file.hpp"

namespace moeplan {

ExitCode finish(std::span<const Report> reports, std::span<const Problem> problems,
                const ReportOptions& options) {
  const Format& format = *options.format;
  if (!reports.empty() || format.renders_problems) {
    if (auto s = write_out(format.render(reports, problems, options.render)); !s) {
      std::fprintf(stderr, "error[unreadable]: %s\n", s.error().message.c_str());
      return ExitCode::input;
    }
  }
  if (!problems.empty() && !format.renders_problems) std::fputs(render_problems(problems).c_str(), stderr);
  return problems.empty() ? ExitCode::ok : ExitCode::input;
}

}  // namespace moeplan
