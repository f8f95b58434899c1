// The command line described as plain data: app_shape_of.cpp makes it of the parser's own
// commands and options, so what is made of it, completions and the man page, cannot go stale.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/exit_code.hpp"

namespace moeplan {

struct OptionShape {
  std::vector<std::string> flags;    // "-c", "--config"; empty: a positional argument
  std::string name;                  // of a positional argument
  std::string value;                 // what it takes: "FILE"; "" for a flag
  std::vector<std::string> choices;  // words to offer; others may be taken too
  std::string doc;

  bool is_positional() const { return flags.empty(); }
  // Completed with names of files.
  bool takes_file() const { return value == "FILE" || value == "PATH" || value == "LOG"; }
};

struct CommandShape {
  std::string name;
  std::string question;
  std::string footer;
  std::vector<OptionShape> options;
};

struct AppShape {
  std::string about;
  std::vector<OptionShape> options;  // in front of any command
  std::vector<CommandShape> commands;
};

std::vector<std::string> completion_shells();
std::string completion_script(const AppShape& app, std::string_view shell);
std::string man_page(const AppShape& app);

ExitCode run_completions(const AppShape& app, const std::string& shell);
ExitCode run_man(const AppShape& app);

}  // namespace moeplan
