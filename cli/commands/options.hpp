// What the command line can say, as plain values: the parser fills them, commands read them.
#pragma once

#include <string>
#include <vector>

#include "cli/exit_code.hpp"
#include "cli/io/config.hpp"
#include "cli/render/render.hpp"

namespace moeplan {

// Options of every command that answers with a report.
struct ReportOptions {
  const Format* format = nullptr;
  RenderOptions render;
};

struct SizeOptions {
  std::vector<std::string> configs;  // at least one; "-" is standard input
  ConfigOverrides overrides;
  ReportOptions report;
};

struct BatchOptions {
  std::string input = "-";
  bool fail_on_error = false;
};

struct CapacityOptions {
  std::vector<std::string> configs;  // at least one; "-" is standard input
  ConfigOverrides overrides;
  bool probe = false;         // compare with this machine's GPUs
  bool list_buffers = false;  // parity staging, mixed-bitrate buffers and runtime keys in full
  ReportOptions report;
};

ExitCode run_capacity(const CapacityOptions& options);
ExitCode run_size(const SizeOptions& options);
ExitCode run_batch(const BatchOptions& options);
ExitCode run_schema();
ExitCode run_version(bool verbose);

// Prints reports, or the problems that stood in their way, in the chosen format.
ExitCode finish(std::span<const Report> reports, std::span<const Problem> problems,
                const ReportOptions& options);

}  // namespace moeplan
