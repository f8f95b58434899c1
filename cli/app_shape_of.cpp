// The parser's commands and options as plain data, for completions and the man page.
#include <span>

#include "cli/command_line.hpp"
#include "cli/commands/topics.hpp"
#include "cli/import/shipped.hpp"

namespace moeplan {
namespace {

// Words to offer where an option takes others too.
std::vector<std::string> suggestions(const std::string& command, const std::string& option) {
  const auto stems = [](std::span<const ShippedFile> files) {
    std::vector<std::string> names;
    for (const ShippedFile& file : files) names.emplace_back(file.stem);
    return names;
  };
  if (option == "--device") return stems(shipped_devices());
  if (option == "--model" || option == "model") return stems(shipped_models());
  if (option == "--contract") return contract_ids();
  if (command == "help") return topic_names();
  if (command == "explain" && option == "topic") return {"indexer", "kv", "total", "decode", "prefill"};
  return {};
}

// "{table,json}": what a checked option may be, as its help prints it.
std::vector<std::string> choices_in(const std::string& type) {
  const auto begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

OptionShape shape_of(const std::string& command, const CLI::Option& option) {
  OptionShape shape;
  for (const std::string& name : option.get_snames()) shape.flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) shape.flags.push_back("--" + name);
  if (shape.flags.empty()) shape.name = option.get_name(true);
  shape.doc = option.get_description();
  if (option.get_expected_max() == 0) return shape;
  const std::string type = option.get_type_name();
  shape.value = type.substr(0, type.find_first_of(":{ "));
  shape.choices = choices_in(type);
  if (shape.choices.empty())
    shape.choices = suggestions(command, shape.flags.empty() ? shape.name : shape.flags.back());
  return shape;
}

}  // namespace

AppShape shape_of(const CLI::App& app) {
  AppShape shape{app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) shape.options.push_back(shape_of("", *option));
  for (const CLI::App* command : app.get_subcommands({})) {
    CommandShape& described = shape.commands.emplace_back();
    described.name = command->get_name();
    described.question = command->get_description();
    described.footer = command->get_footer();
    for (const CLI::Option* option : command->get_options())
      described.options.push_back(shape_of(described.name, *option));
  }
  return shape;
}

}  // namespace moeplan
