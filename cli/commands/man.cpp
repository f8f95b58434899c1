// moeplan man: the manual page, made of the command line's own description.
#include "cli/build_info.hpp"
#include "cli/commands/app_shape.hpp"
#include "cli/commands/finish.hpp"
#include "cli/commands/topics.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// Text that roff takes as it stands: no escapes, no requests at the start of a line, hyphens that can be
// copied.
std::string escaped(std::string_view text) {
  std::string out;
  bool at_start = true;
  for (char c : text) {
    if (at_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    at_start = c == '\n';
  }
  return out;
}

// A text whose lines are kept.
std::string block(std::string_view text) {
  if (text.empty()) return "";
  return concat(".PP\n.nf\n", escaped(text), text.ends_with('\n') ? "" : "\n", ".fi\n");
}

std::string option_entry(const OptionShape& option) {
  std::vector<std::string> names;
  for (const std::string& flag : option.flags) names.push_back(concat("\\fB", escaped(flag), "\\fR"));
  std::string head =
      option.is_positional() ? concat("\\fI", escaped(option.name), "\\fR") : join(names, ", ");
  if (!option.value.empty() && !option.is_positional())
    head += concat(" \\fI", escaped(option.value), "\\fR");
  std::string text = escaped(option.doc);
  if (!option.choices.empty()) text += concat(".\nOne of ", escaped(join(option.choices, ", ")), ".");
  return concat(".TP\n", head, "\n", text.empty() ? "\\&" : text, "\n");
}

}  // namespace

std::string man_page(const AppShape& app) {
  std::string out = concat(".TH MOEPLAN 1 \"\" \"moeplan ", escaped(kBuildInfo.version),
                           "\" \"User Commands\"\n.SH NAME\nmoeplan \\- plan the GPU scratch of MoE serving\n"
                           ".SH SYNOPSIS\n.B moeplan\n.I COMMAND\n.RI [ OPTIONS ]\n.SH DESCRIPTION\n",
                           escaped(app.about), "\n.SH OPTIONS\n");
  for (const OptionShape& option : app.options) out += option_entry(option);
  out += ".SH COMMANDS\n";
  for (const CommandShape& command : app.commands) {
    out += concat(".SS moeplan ", escaped(command.name), "\n", escaped(command.question), "\n");
    for (const OptionShape& option : command.options) out += option_entry(option);
    out += block(command.footer);
  }
  for (const Topic& topic : topics()) {
    if (topic.man_section.empty()) continue;
    out += concat(".SH ", topic.man_section, "\n", block(topic.text()));
  }
  return out;
}

ExitCode run_man(const AppShape& app) { return print(man_page(app)); }

}  // namespace moeplan
