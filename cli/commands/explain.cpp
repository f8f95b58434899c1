// moeplan explain: the indexer's routes, or the formula behind a number.
#include "cli/commands/explain_indexer.hpp"
#include "cli/commands/explain_number.hpp"
#include "cli/commands/finish.hpp"
#include "cli/commands/options.hpp"

namespace moeplan {

ExitCode run_explain(const ExplainOptions& options) {
  bool is_unknown = false;
  const ExitCode code = answer_configs(options.configs, [&](const PlannedConfig& planned) -> Result<Report> {
    if (options.topic == "indexer") return explain_indexer_report(planned, options.with_steps);
    auto report = explain_number(planned, options.topic);
    is_unknown = is_unknown || (!report && report.error().code == ErrorCode::unknown_value);
    return report;
  });
  // The configs are fine: it is the command line that asks for what they do not have.
  return is_unknown && code == ExitCode::input ? ExitCode::usage : code;
}

}  // namespace moeplan
