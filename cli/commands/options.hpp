// What the command line can say, as plain values: the parser fills them, commands read them.
#pragma once

#include <string>
#include <vector>

#include "cli/exit_code.hpp"
#include "cli/io/config.hpp"
#include "cli/render/render.hpp"

namespace moeplan {

// Options of every command that answers with reports.
struct ReportOptions {
  const Format* format = nullptr;
  RenderOptions render;
};

// Options of every command that reads configs.
struct ConfigOptions {
  std::vector<std::string> paths;  // at least one; "-" is standard input
  ConfigOverrides overrides;
  ReportOptions report;
};

struct ExplainOptions {
  ConfigOptions configs;
  bool with_steps = false;
};

struct BatchOptions {
  std::string input = "-";
  bool fail_on_error = false;
};

struct ImportOptions {
  std::string source;                     // hf, safetensors, vllm, compose, k8s, env or log
  std::string file;                       // what it reads; "-" is standard input
  std::vector<std::string> words;         // behind "--": the engine's command line
  std::string service;                    // compose: the service; k8s: the object
  std::string hf, safetensors, env, log;  // further sources
  std::string model, device, contract, name;
  std::vector<std::string> sets;         // "/json/pointer=value"
  std::vector<std::string> environment;  // names that ${NAME} may read
  bool quiet = false;
};

struct ReconcileOptions {
  ImportOptions import;  // its file is the log
  ReportOptions report;
};

struct CapacityOptions {
  ConfigOptions configs;
  bool probe = false;         // compare with this machine's GPUs
  bool list_buffers = false;  // parity staging, mixed-bitrate buffers and runtime keys in full
};

struct SweepOptions {
  ConfigOptions configs;
  std::string format;             // as given: csv and jsonl are written row by row
  std::vector<std::string> axes;  // "capacity=512,1024"
  std::string arena;              // "" for all
  std::string columns;            // "bytes,launches"; "" for the usual ones
  std::string sort;               // "bytes:desc"
  std::string pareto;             // "bytes,launches"
  i64 top = 0;                    // 0: all
  i64 max_points = 10'000'000;
  i64 threads = 0;  // 0: as many as the machine has
  bool no_progress = false;
};

// The commands. Each prints its answer and returns how it ended.
ExitCode run_size(const ConfigOptions& options);
ExitCode run_explain(const ExplainOptions& options);
ExitCode run_capacity(const CapacityOptions& options);
ExitCode run_batch(const BatchOptions& options);
ExitCode run_sweep(const SweepOptions& options);
ExitCode run_import(ImportOptions options);
ExitCode run_reconcile(const ReconcileOptions& options);
std::vector<std::string> import_source_names();
ExitCode run_schema();
ExitCode run_version(bool verbose);
ExitCode run_help(const std::string& topic);

}  // namespace moeplan
