// Reading a deployment config, schema moeplan.config/1.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/io/fields.hpp"
#include "planner/deployment/deployment.hpp"

namespace moeplan {

// How the command line changes what a config says.
struct ConfigOverrides {
  std::vector<std::string> sets;         // "/json/pointer=value", in order
  std::string contract;                  // replaces every contract of the config; "" keeps them
  std::vector<std::string> environment;  // names that ${NAME} may read
};

// A config as read. Its deployment counts only when there are no problems.
struct Config {
  std::string name;  // file name, or "stdin"
  std::string text;
  JsonDocument document;
  Deployment deployment;
  std::vector<Problem> problems;

  // Notes an error about the value at its pointer.
  void add(Error error);
};

// Reads `path`, or standard input for "-". The overrides must outlive the config.
std::unique_ptr<Config> read_config(const std::string& path, const ConfigOverrides& overrides);

// The same for a text at hand.
std::unique_ptr<Config> parse_config(std::string name, std::string text, const ConfigOverrides& overrides);

// The rows of a config and of its model and device sections, for the schema and the shipped files.
std::span<const Field> config_fields();
std::span<const Field> model_fields();
std::span<const Field> device_fields();

}  // namespace moeplan
