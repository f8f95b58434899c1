// moeplan completions: what a shell offers behind a tab, made of the command line's own description.
#include <algorithm>
#include <iterator>

#include "cli/commands/app_shape.hpp"
#include "cli/commands/finish.hpp"
#include "cli/io/shell_word.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// fish has escapes inside its quotes.
std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::vector<std::string> flags_of(const std::vector<OptionShape>& options) {
  std::vector<std::string> flags;
  for (const OptionShape& option : options)
    flags.insert(flags.end(), option.flags.begin(), option.flags.end());
  return flags;
}

std::vector<std::string> names_of(const AppShape& app) {
  std::vector<std::string> names;
  for (const CommandShape& command : app.commands) names.push_back(command.name);
  return names;
}

// "size:-c|size:--config": a command's option as a pattern of its case statement.
std::string bash_pattern(std::string_view command, const OptionShape& option) {
  std::vector<std::string> patterns;
  for (const std::string& flag : option.flags) patterns.push_back(concat(command, ":", flag));
  return join(patterns, "|");
}

std::string bash_words(const std::vector<std::string>& words) {
  return concat("COMPREPLY=($(compgen -W ", single_quoted(join(words, " ")), " -- \"$cur\"))");
}

std::string bash_script(const AppShape& app) {
  std::string out =
      "# bash completion of moeplan; source it, or put it into bash-completion's folder.\n"
      "_moeplan() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= word\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case $word in\n";
  out += concat("      ", join(names_of(app), "|"), ") command=$word; break ;;\n");
  out +=
      "    esac\n"
      "  done\n"
      "  COMPREPLY=()\n"
      "  case $command:$prev in\n";
  for (const CommandShape& command : app.commands) {
    for (const OptionShape& option : command.options) {
      if (option.is_positional() || option.value.empty()) continue;
      const std::string answer = !option.choices.empty() ? bash_words(option.choices)
                                 : option.takes_file()   ? "COMPREPLY=($(compgen -f -- \"$cur\"))"
                                                         : ":";
      out += concat("    ", bash_pattern(command.name, option), ") ", answer, "; return ;;\n");
    }
  }
  out += "  esac\n  case $command in\n";
  const auto add_case = [&](std::string_view name, std::vector<std::string> flags,
                            const std::vector<std::string>& words, bool takes_file) {
    out += concat("    ", name, ")\n      if [[ $cur == -* ]]; then ", bash_words(flags), "\n");
    out += concat("      else ",
                  !words.empty() ? bash_words(words)
                  : takes_file   ? "COMPREPLY=($(compgen -f -- \"$cur\"))"
                                 : ":",
                  "; fi ;;\n");
  };
  add_case("''", flags_of(app.options), names_of(app), false);
  for (const CommandShape& command : app.commands) {
    std::vector<std::string> words;
    bool takes_file = false;
    for (const OptionShape& option : command.options) {
      if (!option.is_positional()) continue;
      words.insert(words.end(), option.choices.begin(), option.choices.end());
      takes_file = takes_file || option.takes_file();
    }
    add_case(command.name, flags_of(command.options), words, takes_file);
  }
  // Where nothing fits, files do.
  out += "  esac\n}\ncomplete -o default -F _moeplan moeplan\n";
  return out;
}

// A text inside one of _arguments' specifications, where brackets and colons separate.
std::string zsh_escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const OptionShape& option) {
  if (!option.choices.empty()) {
    std::vector<std::string> words;
    for (const std::string& choice : option.choices) words.push_back(zsh_escaped(choice));
    return concat("(", join(words, " "), ")");
  }
  return option.takes_file() ? "_files" : " ";
}

std::string zsh_arguments(const std::vector<OptionShape>& options) {
  std::string out;
  for (const OptionShape& option : options) {
    const std::string value = zsh_escaped(option.value.empty() ? option.name : option.value);
    if (option.is_positional()) {
      out += concat(" \\\n        ", single_quoted(concat("*:", value, ":", zsh_action(option))));
      continue;
    }
    for (const std::string& flag : option.flags)
      out += concat(" \\\n        ",
                    single_quoted(concat(
                        "*", flag, "[", zsh_escaped(option.doc), "]",
                        option.value.empty() ? std::string() : concat(":", value, ":", zsh_action(option)))));
  }
  return out;
}

std::string zsh_script(const AppShape& app) {
  std::string out =
      "#compdef moeplan\n"
      "# zsh completion of moeplan; put it into a folder of $fpath as _moeplan.\n"
      "_moeplan() {\n"
      "  local -a commands\n"
      "  local line state\n"
      "  commands=(\n";
  for (const CommandShape& command : app.commands)
    out += concat("    ", single_quoted(concat(command.name, ":", zsh_escaped(command.question))), "\n");
  out += concat("  )\n  _arguments -C", zsh_arguments(app.options),
                " \\\n        '1:command:->command' '*::argument:->argument'\n"
                "  case $state in\n"
                "    command) _describe command commands ;;\n"
                "    argument)\n"
                "      case $line[1] in\n");
  for (const CommandShape& command : app.commands)
    out += concat("        ", command.name, ") _arguments", zsh_arguments(command.options), " ;;\n");
  // As a file of $fpath it runs as the function's first call; sourced it only defines it.
  out +=
      "      esac ;;\n  esac\n}\n"
      "if [[ $funcstack[1] == _moeplan ]]; then _moeplan \"$@\"; else compdef _moeplan moeplan; fi\n";
  return out;
}

std::string fish_option(std::string_view condition, const OptionShape& option) {
  std::string line = concat("complete -c moeplan -n ", fish_quoted(condition));
  for (const std::string& flag : option.flags) {
    if (flag.starts_with("--"))
      line += concat(" -l ", flag.substr(2));
    else
      line += concat(" -s ", flag.substr(1));
  }
  if (!option.value.empty() || option.is_positional()) {
    // -r takes a value, -F a file's name, -x only what is offered.
    if (!option.is_positional()) line += option.takes_file() ? " -r -F" : " -x";
    if (option.is_positional() && option.takes_file()) line += " -F";
    if (!option.choices.empty()) line += concat(" -a ", fish_quoted(join(option.choices, " ")));
  }
  return concat(line, " -d ", fish_quoted(option.doc), "\n");
}

std::string fish_script(const AppShape& app) {
  std::string out =
      "# fish completion of moeplan; put it into ~/.config/fish/completions/moeplan.fish.\n"
      "complete -c moeplan -f\n";
  const std::string commands = join(names_of(app), " ");
  const std::string at_start = concat("not __fish_seen_subcommand_from ", commands);
  for (const OptionShape& option : app.options) out += fish_option(at_start, option);
  for (const CommandShape& command : app.commands)
    out += concat("complete -c moeplan -n ", fish_quoted(at_start), " -a ", command.name, " -d ",
                  fish_quoted(command.question), "\n");
  for (const CommandShape& command : app.commands) {
    for (const OptionShape& option : command.options)
      out += fish_option(concat("__fish_seen_subcommand_from ", command.name), option);
  }
  return out;
}

struct Shell {
  const char* name;
  std::string (*script)(const AppShape& app);
};
constexpr Shell kShells[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};

}  // namespace

std::vector<std::string> completion_shells() {
  std::vector<std::string> names;
  for (const Shell& shell : kShells) names.emplace_back(shell.name);
  return names;
}

std::string completion_script(const AppShape& app, std::string_view shell) {
  const auto found = std::ranges::find(kShells, shell, &Shell::name);
  MOEPLAN_CHECK(found != std::end(kShells), "a shell without completions");
  return found->script(app);
}

ExitCode run_completions(const AppShape& app, const std::string& shell) {
  return print(completion_script(app, shell));
}

}  // namespace moeplan
