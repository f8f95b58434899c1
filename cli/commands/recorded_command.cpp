#include "cli/commands/recorded_command.hpp"

#include "cli/io/shell_word.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

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

}  // namespace

std::string evidence_command(const ValidateOptions& options) {
  RecordedCommand command("moeplan validate");
  command.add(options.configs);
  command.add("--plan", options.plan);
  if (options.emulate) command.add("--emulate");
  command.add("--shrink", options.shrink);
  command.add("--weights", options.weights);
  if (!options.weights.empty()) command.add("--layer", std::to_string(options.layer));
  command.add("--evidence", options.evidence);
  return command.text();
}

std::string evidence_command(const BenchOptions& options) {
  RecordedCommand command(concat("moeplan bench ", options.what));
  command.add(options.configs);
  command.add("--plan", options.plan);
  command.add("--executor", options.executors.value_or(""));
  command.add("--tokens", options.tokens.value_or(""));
  command.add("--capacity", options.capacities.value_or(""));
  command.add("--heads", options.heads.value_or(""));
  command.add("--rows", options.rows.value_or(""));
  command.add("--context", options.context.value_or(""));
  command.add("--group", options.group.value_or(""));
  command.add("--top-k", options.top_k.value_or(""));
  if (options.is_prefill) command.add("--prefill");
  command.add("--bandwidth-gb-s", options.bandwidth_gb_s.value_or(""));
  command.add("--decode-rate", options.decode_rate.value_or(""));
  command.add("--flop-rate", options.flop_rate.value_or(""));
  command.add("--evidence", options.evidence);
  return command.text();
}

}  // namespace moeplan
