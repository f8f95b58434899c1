// A shell text cut into commands of words, without a shell: quotes, escapes, line continuations, comments,
// assignments, and variables that the text itself (or the caller) defines. Anything a shell would have to run
// is refused.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moeplan {

struct ShellWord {
  std::string text;
  std::size_t at = 0;  // byte of its source
};

struct ShellVariable {
  std::string name;
  std::string value;
  std::size_t at = 0;
  bool exported = true;  // commands see it
};

struct ShellCommand {
  std::vector<ShellWord> words;
  std::vector<ShellVariable> variables;  // set for it alone
  std::size_t variables_ahead = 0;       // how many of the text's own are set by then
};

struct ShellProblem {
  std::string message;
  std::string help;
  std::size_t at = 0;
};

struct ShellText {
  std::vector<ShellCommand> commands;
  std::vector<ShellVariable> variables;  // set on lines of their own
  std::vector<ShellVariable> expanded;   // whose values stand in words
  std::optional<ShellProblem> problem;
};

// The value of a variable the text does not set.
using ShellLookup = std::function<std::optional<std::string>(std::string_view name)>;

ShellText read_shell(std::string_view text, const ShellLookup& lookup);

// "${NAME}", "${NAME:-default}" and their kin in `text`, as shells and compose define them.
struct Expanded {
  std::string text;
  std::string error;  // "" when fine
  std::string help;
  std::size_t error_at = 0;
};
// `dollar_escape`: "$$" is a dollar sign, as in compose files.
Expanded expand_variables(std::string_view text, const ShellLookup& lookup, bool dollar_escape,
                          int depth = 0);

}  // namespace moeplan
