// moeplan help: what an error word means.
#include "cli/commands/finish.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/error_code.hpp"
#include "planner/core/text.hpp"

namespace moeplan {

ExitCode run_help(const std::string& topic) {
  std::vector<std::string_view> words;
  std::string all;
  for (const ErrorCodeRow& row : kErrorCodes) {
    if (row.word == topic) return print(concat(row.word, ": ", row.meaning, "\n"));
    words.push_back(row.word);
    all += concat("  ", row.word, ": ", row.meaning, "\n");
  }
  if (topic == "errors") return print(all);
  const auto near = did_you_mean(topic, words);
  const Problem problem{
      Error{ErrorCode::unknown_value, "", concat("no help on \"", topic, "\""),
            near ? concat("did you mean \"", *near, "\"?") : "moeplan help errors lists every error word"},
      {}};
  std::fputs(render_problems({&problem, 1}).c_str(), stderr);
  return ExitCode::usage;
}

}  // namespace moeplan
