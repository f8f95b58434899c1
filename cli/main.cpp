// The program: parses the command line, runs one command, tells what went wrong. Answers go to stdout,
// everything else to stderr.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include "cli/command_line.hpp"
#include "cli/log.hpp"
#include "cli/render/text.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// Columns of the terminal, else 100.
i64 terminal_width() {
  const char* columns = std::getenv("COLUMNS");
  const long width = columns ? std::strtol(columns, nullptr, 10) : 0;
  return width >= 20 && width <= 10'000 ? width : 100;
}

// What was probably meant by a word that the parser did not take; "" where it took all.
std::string unknown_word(const CLI::App& app, const CLI::App& command) {
  for (const std::string& word : app.remaining(true)) {
    const bool is_option = word.starts_with('-');
    if (!is_option && &command != &app) continue;
    std::vector<std::string> known = command_names(app);
    if (is_option) {
      known.clear();
      for (const CLI::Option* option : command.get_options()) {
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
      }
    }
    const std::string name = word.substr(0, word.find('='));
    const std::vector<std::string_view> words(known.begin(), known.end());
    const auto near = did_you_mean(name, words);
    const std::string owner = &command == &app ? "moeplan" : "moeplan " + command.get_name();
    return concat(owner, " has no ", is_option ? "option " : "command ", printable(name), "\n  help: ",
                  near ? concat("did you mean ", *near, "?") : concat(owner, " --help lists them"));
  }
  return "";
}

// An option that is given nothing behind its "=", as "--evidence=$UNSET" is: the parser would take the next
// word. "": there is none.
std::string valueless_option(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") break;  // another program's
    if (word.starts_with("--") && word.find('=') == word.size() - 1)
      return concat(printable(word), " has no value\n  help: give one behind the =, or leave ",
                    printable(word.substr(0, word.size() - 1)), " out");
  }
  return "";
}

// The parser's complaint with a remedy. A misspelt option is told ahead of the required one that is missing
// because of it.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = app.get_subcommands().empty() ? app : *app.get_subcommands().front();
  if (std::string unknown = unknown_word(app, command); !unknown.empty()) return unknown;
  const std::string what = printable(error.what());
  if (what.find("--config") != std::string::npos && what.find("required") != std::string::npos)
    return concat(what, "\n  help: for example moeplan ", command.get_name(),
                  " -c configs/glm52.json; moeplan init MODEL writes a config");
  const std::string owner = &command == &app ? "moeplan" : concat("moeplan ", command.get_name());
  constexpr std::string_view kRequires = " requires ";
  if (const auto at = what.find(std::string(kRequires) + "--"); at != std::string::npos) {
    const std::string other = what.substr(at + kRequires.size());
    const CLI::Option* option = command.get_option_no_throw(other);
    return concat(owner, ": ", what, "\n  help: add ", other,
                  option ? concat(" ", option->get_type_name()) : "");
  }
  return concat(what, "\n  help: ", owner, " --help");
}

int run(int argc, char** argv) {
  CommandLine line;
  // An engine's command line is its own; it is not parsed as ours.
  if (argc > 2 && std::string_view(argv[1]) == "import") {
    char** mark = std::find(argv + 2, argv + argc, std::string_view("--"));
    if (mark != argv + argc) {
      line.import.words.assign(mark + 1, argv + argc);
      argc = static_cast<int>(mark - argv);
    }
  }
  line.configs.report.render.width = terminal_width();
  CLI::App app("moeplan: exact GPU scratch planning for fused MoE serving", "moeplan");
  app.footer(
      "Exit codes: 0 answered, 1 answered no, 2 wrong command line, 3 bad input, 4 no usable GPU, driver or "
      "NVRTC, "
      "5 refused: a limit, 70 a bug.");
  app.add_flag("-V,--version", line.version, "Print the version; with -v what the build is made of");
  add_verbosity(app, line);
  for (const Command& command : commands())
    command.add(*app.add_subcommand(command.name, command.question), line);
  app.get_subcommand("check")->alias("gate");
  app.require_subcommand(0, 1);
  line.app = &app;

  if (const std::string mistake = valueless_option(argc, argv); !mistake.empty()) {
    std::fprintf(stderr, "error[usage]: %s\n", mistake.c_str());
    return static_cast<int>(ExitCode::usage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Its own exit codes start at 100; asking for help is no error.
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "error[usage]: %s\n", usage_message(app, error).c_str());
    return static_cast<int>(ExitCode::usage);
  }
  if (std::ranges::count(line.configs.paths, "-") > 1) {
    std::fputs("error[usage]: standard input can be read once\n  help: give -c - once\n", stderr);
    return static_cast<int>(ExitCode::usage);
  }
  if (const std::string mistake = settle_report_options(line); !mistake.empty()) {
    std::fprintf(stderr, "error[usage]: %s\n  help: moeplan COMMAND --help\n", printable(mistake).c_str());
    return static_cast<int>(ExitCode::usage);
  }
  set_verbosity(line.verbosity);
  set_log_as_json(line.log_format == "json");

  if (line.version) return static_cast<int>(run_version(line.verbosity > 0));
  for (const Command& command : commands()) {
    if (app.got_subcommand(command.name)) return static_cast<int>(command.run(line));
  }
  std::fputs(app.help().c_str(), stderr);
  return static_cast<int>(ExitCode::usage);
}

// A failed check aborts; its exit code is the one of every bug.
extern "C" void exit_after_abort(int) { _exit(static_cast<int>(ExitCode::internal)); }

}  // namespace
}  // namespace moeplan

int main(int argc, char** argv) {
  // A file that may grow no further is an error of its writer, not an end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGABRT, moeplan::exit_after_abort);
  try {
    return moeplan::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("error[too_large]: out of memory\n  help: give the process more memory, or split the input\n",
               stderr);
    return static_cast<int>(moeplan::ExitCode::input);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "internal error: %s\n  this is a bug in moeplan; please report it\n", error.what());
    return static_cast<int>(moeplan::ExitCode::internal);
  }
}
