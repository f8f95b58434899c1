// The command that makes a record of --evidence anew, in words that a shell takes.
#pragma once

#include <string>
#include <string_view>

#include "cli/commands/options.hpp"
#include "cli/io/shell_word.hpp"
#include "planner/core/text.hpp"

namespace moeplan {

class RecordedCommand {
 public:
  explicit RecordedCommand(std::string_view words) : text_(words) {}

  void add(std::string_view flag) { text_ += concat(" ", flag); }
  // Nothing of an empty value, which was not given.
  void add(std::string_view option, const std::string& value) {
    if (!value.empty()) text_ += concat(" ", option, " ", shell_word(value));
  }
  // What is read, and all that changes it.
  void add(const ConfigOptions& configs) {
    for (const std::string& path : configs.paths) add("-c", path);
    for (const std::string& set : configs.overrides.sets) add("--set", set);
    add("--contract", configs.overrides.contract);
    for (const std::string& name : configs.overrides.environment) add("--allow-env", name);
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace moeplan
