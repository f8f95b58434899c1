// Command lines inside other files: compose services and containers hold one each.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/import/import.hpp"
#include "cli/import/shell.hpp"

namespace moeplan {

// One command: its words, the environment it gets, and where both stand.
struct CommandText {
  std::string_view name;             // of the source
  std::string_view text;             // what `at` of words and variables counts in; "" when they have no place
  std::optional<Place> fixed_place;  // stands for all words without a text
  std::vector<ShellWord> words;
  std::vector<ShellVariable> variables;
  bool is_engine = false;  // the words are the engine's own arguments, whatever they start with
  std::size_t first_flag = 0;
};

Place command_place(const CommandText& command, const ShellWord& word);

// Rows of a command that starts an engine. False when it starts none.
bool import_command(Import& import, CommandText command, int depth = 0);

// The same for a shell text with the variables around it. `fixed_place` stands for every word of it.
bool import_shell(Import& import, std::string_view name, std::string_view text,
                  std::vector<ShellVariable> outer, std::optional<Place> fixed_place, int depth = 0);

}  // namespace moeplan
