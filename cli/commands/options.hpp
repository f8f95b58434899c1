// What the command line can say, as plain values: the parser fills them, commands read them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/exit_code.hpp"
#include "cli/io/config.hpp"
#include "cli/render/render.hpp"

namespace moeplan {

// One place an answer goes to, in one format.
struct Output {
  const Format* format = nullptr;
  std::string path;      // "" is standard output
  bool appends = false;  // to what the file holds
};

// Options of every command that answers with reports.
struct ReportOptions {
  std::vector<Output> outputs;  // at least one
  RenderOptions render;
  std::string show = "all";  // the mildest level of findings that is shown, or all
  std::string fail_on;       // the mildest level that answers no, or never; "" is the command's own default
  bool exit_zero = false;    // an answer of no exits 0
};

// Options of every command that reads configs.
struct ConfigOptions {
  std::vector<std::string> paths;  // at least one; "-" is standard input
  ConfigOverrides overrides;
  bool explains_config = false;  // where each field came from, in place of the answer
  ReportOptions report;
};

struct ExplainOptions {
  ConfigOptions configs;
  std::string topic;  // indexer, kv, total, ARENA or ARENA/TENSOR
  bool with_steps = false;
};

struct AuditOptions {
  ConfigOptions configs;
  std::string plan;           // this one alone; "" is all
  std::string assume_blocks;  // "all", "reachable", "last" or a block size; "" is the contract's rule
  std::string expert_map;     // "absent" or "present"; "" is whatever the plan may have
};

struct CheckOptions {
  ConfigOptions configs;
  std::string policy;    // "" is the default policy
  std::string baseline;  // "": none
  std::string today;     // "": the system's day
};

struct BaselineOptions {
  ConfigOptions configs;
  std::string action;  // write, update or show
  std::string baseline;
  std::string reason;
  std::string today;
  bool force = false;
};

struct DiffOptions {
  ConfigOptions configs;               // one path, or two
  std::vector<std::string> contracts;  // two, or none
  std::vector<std::string> plans;      // likewise
  std::string baseline;
  bool all = false;        // unchanged tensors too
  bool exit_code = false;  // 1 where they differ
};

struct LaunchOptions {
  ConfigOptions configs;
  std::string plan;
  std::optional<i64> live_tokens;  // print the key of a launch of so many
  std::optional<i64> max_cold;     // more cold keys than this answer no
};

struct CompileOptions {
  ConfigOptions configs;
  std::vector<std::string> architectures;  // "sm_120"; empty: the config's device's own
  std::string plan;                        // this one alone; "" is all
  i64 threads = 0;                         // 0: as many as the machine has
  bool no_cache = false;
  bool no_progress = false;
};

struct ValidateOptions {
  ConfigOptions configs;
  std::string plan;           // this one alone; "" is all
  bool emulate = false;       // the config's multiprocessors and shared memory in place of the GPU's
  std::string shrink;         // take an element of this tensor of the plans; "": of each of small plans
  bool if_available = false;  // nothing to run on is no failure
  std::string evidence;       // file of the record; "": none
  std::string sanitizer;      // tool of compute-sanitizer to run under; "": none
  std::string weights;        // file or index of a checkpoint whose layer is run; "": layers are made up
  i64 layer = 0;              // of the checkpoint
  bool no_progress = false;
};

struct BenchOptions {
  ConfigOptions configs;  // none: shapes of the indexer are stated by the lists alone
  std::string what;       // moe or indexer
  std::string plan;       // this one of the configs alone; "" is all of the subject's
  std::optional<std::string> executors, tokens, capacities;  // of moe, lists
  std::optional<std::string> decode_rate, flop_rate;         // of moe, decimals
  std::optional<std::string> heads, rows, context;           // of the indexer, lists: "1,4", "8k,32k"
  std::optional<std::string> group, top_k;                   // of the indexer, numbers
  bool is_prefill = false;                                   // of the indexer
  std::optional<std::string> bandwidth_gb_s;                 // none: measured
  bool if_available = false;                                 // nothing to run on is no failure
  std::string evidence;                                      // file of the record; "": none
  bool no_progress = false;
};

struct CacheOptions {
  std::string action;  // info, verify or clear
  ReportOptions report;
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

struct InitOptions {
  std::string model;              // a shipped model, or a file of that form
  std::string device;             // likewise; "": a starter
  std::string quant = "exl3";     // how the experts are stored
  std::string contract, name;     // "": assumed
  i64 tp = 0, bits = 0;           // 0: a starter
  std::vector<std::string> sets;  // "/json/pointer=value"
  std::string out;                // file to write; "": standard output
  bool force = false;             // overwrite it
};

struct DevicesOptions {
  bool probe = false;  // ask the driver for this machine's GPUs
  ReportOptions report;
};

struct SweepOptions {
  ConfigOptions configs;
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
ExitCode run_audit(const AuditOptions& options);
ExitCode run_launches(const LaunchOptions& options);
ExitCode run_compile(const CompileOptions& options);
ExitCode run_validate(const ValidateOptions& options);
ExitCode run_bench(const BenchOptions& options);
ExitCode run_bench_moe(const BenchOptions& options);
ExitCode run_bench_indexer(const BenchOptions& options);
ExitCode run_cache(const CacheOptions& options);
ExitCode run_check(CheckOptions options);
ExitCode run_baseline(const BaselineOptions& options);
ExitCode run_diff(const DiffOptions& options);
ExitCode run_batch(const BatchOptions& options);
ExitCode run_sweep(const SweepOptions& options);
ExitCode run_import(ImportOptions options);
ExitCode run_reconcile(const ReconcileOptions& options);
std::vector<std::string> import_source_names();
ExitCode run_schema(const std::string& name);
ExitCode run_version(bool verbose);
// `commands`: names that have a help of their own.
ExitCode run_help(const std::string& topic, const std::vector<std::string>& commands);
ExitCode run_init(const InitOptions& options);
ExitCode run_devices(const DevicesOptions& options);

}  // namespace moeplan
