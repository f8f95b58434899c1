// moeplan help: a topic, or what an error's or a finding's word means. Without one: the topics.
#include <cstdio>

#include "cli/commands/finish.hpp"
#include "cli/commands/topics.hpp"
#include "cli/word_meanings.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

std::string list_of_topics() {
  std::string text = "moeplan help TOPIC, COMMAND or WORD, of an error or a finding\n\n";
  for (const Topic& topic : topics()) {
    std::string name(topic.name);
    name.resize(12, ' ');
    text += concat("  ", name, topic.question, "\n");
  }
  return text;
}

std::string rule_text(const PolicyRule& rule) {
  std::string text = concat(rule.id, ": ", rule.title, "\n\nfires when  ", rule.fires, "\nlevel       ",
                            name_of(rule.level), ", unless a policy says otherwise\n");
  if (!rule.limits.empty()) text += concat("limits      ", join(rule.limits, ", "), "\n");
  if (!rule.remedy.empty()) text += concat("remedy      ", rule.remedy, "\n");
  return text;
}

}  // namespace

ExitCode run_help(const std::string& topic, const std::vector<std::string>& commands) {
  if (topic.empty()) return print(list_of_topics());
  std::vector<std::string_view> words(commands.begin(), commands.end());
  for (const Topic& row : topics()) {
    if (row.name == topic) return print(row.text());
    words.push_back(row.name);
  }
  if (const WordMeaning* row = meaning_of_word(topic))
    return print(row->rule ? rule_text(*row->rule) : concat(row->word, ": ", row->meaning, "\n"));
  for (const WordMeaning& row : word_meanings()) words.push_back(row.word);
  const auto near = did_you_mean(topic, words);
  const Problem problem{Error{ErrorCode::unknown_value, "", concat("no help on \"", topic, "\""),
                              near ? concat("did you mean \"", *near, "\"?")
                                   : concat("there are ", join(topic_names(), ", "),
                                            ", every command, rule, and word of an error or a finding")},
                        {}};
  std::fputs(render_problems({&problem, 1}).c_str(), stderr);
  return ExitCode::usage;
}

}  // namespace moeplan
