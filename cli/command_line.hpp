// The command line: what a parse fills in, and the commands there are.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli/commands/app_shape.hpp"
#include "cli/commands/options.hpp"

namespace moeplan {

struct CommandLine {
  const CLI::App* app = nullptr;  // the parser itself, for what is made of its commands and options
  ConfigOptions configs;
  BatchOptions batch;
  ImportOptions import;
  std::vector<std::string> outputs;
  std::string format;
  std::string units;
  bool no_color = false;
  SweepOptions sweep;
  std::string plot;
  std::string explain_topic;
  bool with_steps = false;
  AuditOptions audit;
  CheckOptions check;
  BaselineOptions baseline;
  DiffOptions diff;
  LaunchOptions launches;
  CompileOptions compile;
  ValidateOptions validate;
  BenchOptions bench;
  CacheOptions cache;
  bool probe = false;
  bool list_buffers = false;
  InitOptions init;
  std::string shell;
  std::string help_topic;
  std::string schema_name = "config";
  int verbosity = 0;
  std::string log_format = "text";
  bool version = false;
};

// A command: one row, one add_ function in command_line.cpp, one file in commands/.
struct Command {
  const char* name;
  const char* question;  // what it answers
  void (*add)(CLI::App& command, CommandLine& line);
  ExitCode (*run)(CommandLine& line);
};

// In the order of the help.
std::span<const Command> commands();

// -v and --log-format, which every command that logs takes and the bare program too.
void add_verbosity(CLI::App& command, CommandLine& line);

// What the options of every report come to. Returns what is wrong with them, "" where nothing is.
std::string settle_report_options(CommandLine& line);

std::vector<std::string> command_names(const CLI::App& app);
std::vector<std::string> contract_ids();

// The parser's commands and options as plain data.
AppShape shape_of(const CLI::App& app);

}  // namespace moeplan
