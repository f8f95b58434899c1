#include "cli/command_line.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <tuple>

#include "cli/commands/config_key.hpp"
#include "cli/commands/moe_executors.hpp"
#include "cli/commands/outputs.hpp"
#include "cli/commands/topics.hpp"
#include "cli/io/schema.hpp"
#include "cli/render/color.hpp"
#include "cli/sweep/columns.hpp"
#include "planner/core/contract.hpp"
#include "planner/core/text.hpp"
#include "planner/policy/policy.hpp"
#include "runtime/bench/indexer_shape.hpp"
#include "runtime/jit/architecture.hpp"
#include "runtime/validate/routings.hpp"

namespace moeplan {

std::vector<std::string> contract_ids() {
  std::vector<std::string> ids;
  for (const Contract& contract : contracts()) ids.emplace_back(contract.id);
  return ids;
}

void add_verbosity(CLI::App& command, CommandLine& line) {
  command.add_flag("-v", line.verbosity, "Say on stderr what is done; -vv for details");
  command.add_option("--log-format", line.log_format, "How -v says it")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

namespace {

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Format& format : formats()) names.emplace_back(format.name);
  return names;
}

std::vector<std::string> weight_format_names() {
  return {std::begin(kWeightFormatNames), std::end(kWeightFormatNames)};
}

// Refused before any config is read: nothing a config says could mend it.
std::string check_set(const std::string& set) {
  const bool fine = set.starts_with('/') && set.find('=') != std::string::npos;
  return fine ? "" : "write --set /json/pointer=value, for example /deployment/max_num_batched_tokens=8192";
}

// An unset variable of a script must not switch a gate off.
std::string check_file_name(const std::string& text) {
  return text.empty() ? "write the name of a file" : "";
}

std::string check_date(const std::string& text) {
  return parse_date(text) ? "" : "write a day as 2026-12-31";
}

// A number of tokens or keys. Longer ones would be clamped on their way.
std::string check_count(const std::string& text) {
  const bool fine =
      !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == std::string::npos;
  return fine ? "" : "write a whole number from 0 to 999999999";
}

// A leading zero would be read as octal.
std::string check_layer(const std::string& text) {
  const bool fine = check_count(text).empty() && (text == "0" || text.front() != '0');
  return fine ? "" : "write a whole number from 0 to 999999999";
}

std::string check_output(const std::string& text) {
  const auto output = parse_output(text);
  const auto* mistake = std::get_if<std::string>(&output);
  return mistake ? *mistake : "";
}

constexpr std::pair<const char*, Units> kUnits[] = {
    {"bytes", Units::bytes}, {"MiB", Units::mib}, {"GiB", Units::gib}, {"auto", Units::automatic}};

std::vector<std::string> unit_names() {
  std::vector<std::string> names;
  for (const auto& [name, units] : kUnits) names.emplace_back(name);
  return names;
}

// How a command prints its reports.
void add_report_options(CLI::App& command, CommandLine& line) {
  ReportOptions& report = line.configs.report;
  command
      .add_option(
          "-o,--output", line.outputs,
          "How and where to print: FMT, FMT=FILE, or FMT+=FILE to append; repeatable (default: table)")
      ->check(check_output)
      ->allow_extra_args(false)
      ->take_all()
      ->type_name("FMT[=FILE]");
  command.add_option("--format", line.format, "Short for -o FMT")->check(CLI::IsMember(format_names()));
  command.add_option("--units", line.units, "How tables show bytes (default: bytes, and MiB beside them)")
      ->check(CLI::IsMember(unit_names()));
  command.add_option("--show", report.show, "The mildest findings to show")
      ->check(CLI::IsMember({"all", "note", "warning", "error"}))
      ->capture_default_str();
  command
      .add_option("--fail-on", report.fail_on,
                  "The mildest finding that exits 1 (default: never; of check: error)")
      ->check(CLI::IsMember({"error", "warning", "note", "never"}));
  command.add_flag("--exit-zero", report.exit_zero, "Exit 0 where the answer is no, too");
  command.add_flag("--no-color", line.no_color, "No colour, whatever the terminal and environment say");
  command
      .add_option("--width", report.render.width,
                  "Columns of the terminal: bars that do not fit are left out (default: COLUMNS, else 100)")
      ->check(CLI::Range(20, 10'000));
  command.add_flag("--ascii", report.render.ascii, "No glyphs beyond ASCII");
  command.add_flag("-q,--quiet", report.render.quiet, "The verdict line alone");
  add_verbosity(command, line);
}

// What planning commands change about a config.
void add_override_options(CLI::App& command, CommandLine& line) {
  ConfigOptions& options = line.configs;
  command.add_option("--set", options.overrides.sets, "Override one field: /json/pointer=value; repeatable")
      ->take_all()
      ->check(check_set)
      ->type_name("PTR=VALUE");
  command.add_option("--contract", options.overrides.contract, "Plan under this contract, not the config's")
      ->check(CLI::IsMember(contract_ids()));
  command
      .add_option("--allow-env", options.overrides.environment,
                  "Let ${NAME} in a config read the environment")
      ->take_all()
      ->type_name("NAME");
}

// What every command that reads configs and prints reports takes.
void add_config_options(CLI::App& command, CommandLine& line) {
  ConfigOptions& options = line.configs;
  command
      .add_option("-c,--config", options.paths, "Deployment config; - is standard input; repeat for several")
      ->required()
      ->take_all()
      ->type_name("FILE");
  command.add_flag("--explain-config", options.explains_config,
                   "Every field with its value and where it came from, in place of the answer");
  add_override_options(command, line);
  add_report_options(command, line);
}

void add_size(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan size --config configs/glm52.json\n"
      "  moeplan size -c glm52.json --set /deployment/max_num_batched_tokens=8192 --format json");
  add_config_options(command, line);
}

void add_explain(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan explain prefill/fc1_c_tmp --config configs/glm52.json\n"
      "  moeplan explain kv -c configs/glm52.json\n"
      "  moeplan explain indexer --config configs/glm52.json --step\n"
      "An arena may be written with - for its blanks: indexer-decode.");
  command
      .add_option("topic", line.explain_topic,
                  "What to explain: indexer, kv, total, an arena, or one tensor of it")
      ->required()
      ->type_name("indexer|kv|total|ARENA[/TENSOR]");
  command.add_flag("--step", line.with_steps, "Launches, allocations and environment reads of a call");
  add_config_options(command, line);
}

void add_capacity(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan capacity --config configs/glm52.json\n"
      "  moeplan capacity -c glm52.json --set '/measured/available_kv=9.15 GiB'\n"
      "Exits 1 when the deployment does not fit; an undecided answer exits 0.");
  add_config_options(command, line);
  command.add_flag("--probe", line.probe, "Compare with the free memory of this machine's GPUs");
  command.add_flag("--buffers", line.list_buffers,
                   "List buffers outside the arenas and the runtimes' cache keys");
}

void add_check(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan check -c deploy/*.json --baseline .moeplan/baseline.json\n"
      "  moeplan check -c glm52.json --policy moeplan.policy.json -o github -o junit=moeplan.xml\n"
      "Exits 1 when a rule of --fail-on (default error) or above fires. moeplan help rules lists the rules.");
  add_config_options(command, line);
  command.add_option("--policy", line.check.policy, "Policy file (default: every rule at its own level)")
      ->check(check_file_name)
      ->type_name("FILE");
  command.add_option("--baseline", line.check.baseline, "Compare with this baseline")
      ->check(check_file_name)
      ->type_name("FILE");
  command.add_option("--today", line.check.today, "The day waivers are judged by (default: the system's)")
      ->check(check_date)
      ->type_name("DATE");
}

void add_baseline(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan baseline write -c deploy/*.json --baseline .moeplan/baseline.json\n"
      "  moeplan baseline update -c deploy/glm52.json --baseline .moeplan/baseline.json --reason \"8k "
      "chunks\"\n"
      "  moeplan baseline show --baseline .moeplan/baseline.json");
  BaselineOptions& options = line.baseline;
  command.add_option("action", options.action, "write, update or show")
      ->required()
      ->check(CLI::IsMember({"write", "update", "show"}))
      ->type_name("ACTION");
  command.add_option("--baseline", options.baseline, "The baseline file")
      ->required()
      ->check(check_file_name)
      ->type_name("FILE");
  command.add_option("-c,--config", line.configs.paths, "Configs to write; repeat for several")
      ->take_all()
      ->type_name("FILE");
  command.add_option("--reason", options.reason, "Why the reserve may change; kept in the file")
      ->type_name("TEXT");
  command.add_option("--today", options.today, "The day to note (default: the system's)")
      ->check(check_date)
      ->type_name("DATE");
  command.add_flag("--force", options.force, "write: replace a baseline that exists");
  add_override_options(command, line);
  add_report_options(command, line);
}

void add_diff(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan diff before.json after.json\n"
      "  moeplan diff glm52.json --set /deployment/max_num_batched_tokens=8192\n"
      "  moeplan diff plan.json --contracts sparkinfer-de04125,sparkinfer-c2f135c\n"
      "  moeplan diff glm52.json --plans decode,prefill\n"
      "  moeplan diff glm52.json --baseline .moeplan/baseline.json --exit-code\n"
      "--set changes the second side alone; with --contracts both.");
  DiffOptions& options = line.diff;
  command.add_option("config", line.configs.paths, "One config, or two")
      ->required()
      ->expected(1, 2)
      ->type_name("FILE");
  CLI::Option* contracts = command.add_option("--contracts", options.contracts, "Compare two contracts: A,B")
                               ->delimiter(',')
                               ->expected(2)
                               ->check(CLI::IsMember(contract_ids()))
                               ->type_name("ID,ID");
  CLI::Option* plans = command.add_option("--plans", options.plans, "Compare two plans of the config: A,B")
                           ->delimiter(',')
                           ->expected(2)
                           ->type_name("ID,ID")
                           ->excludes(contracts);
  command.add_option("--baseline", options.baseline, "Compare with the baseline")
      ->type_name("FILE")
      ->excludes(contracts)
      ->excludes(plans);
  command.add_flag("--all", options.all, "Unchanged tensors too");
  command.add_flag("--exit-code", options.exit_code, "Exit 1 when anything reserved or compiled differs");
  add_override_options(command, line);
  add_report_options(command, line);
}

constexpr const char* kPlanDoc = "This plan alone; its id as size prints it";

void add_audit(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan audit --config configs/glm52.json\n"
      "  moeplan audit -c plan.json --assume-blocks last\n"
      "Exits 1 when some live token count needs more than is reserved.");
  add_config_options(command, line);
  AuditOptions& options = line.audit;
  command.add_option("--plan", options.plan, kPlanDoc)->type_name("ID");
  command
      .add_option("--assume-blocks", options.assume_blocks,
                  "Reserve unpinned plans for these block sizes, not for the contract's: all, reachable, "
                  "last (the one selected at capacity), or one size")
      ->check(CLI::IsMember({"all", "reachable", "last", "8", "16", "32", "48", "64"}));
  command
      .add_option("--expert-map", options.expert_map,
                  "Launches of stated plans come with an expert map or without (default: either, where the "
                  "contract allows both)")
      ->check(CLI::IsMember({"absent", "present"}));
}

void add_launches(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan launches --config configs/glm52.json\n"
      "  moeplan launches -c glm52.json --plan prefill --live-tokens 700 --format json\n"
      "Exits 1 when a plan cannot be launched, or more keys than --max-cold compile after start.");
  add_config_options(command, line);
  LaunchOptions& options = line.launches;
  command.add_option("--plan", options.plan, kPlanDoc)->type_name("ID");
  CLI::Option* live_tokens =
      command.add_option("--live-tokens", options.live_tokens, "The one key that a launch of so many probes")
          ->check(check_count)
          ->type_name("M");
  command.add_option("--max-cold", options.max_cold, "Exit 1 when more keys compile after start")
      ->check(check_count)
      ->type_name("N")
      ->excludes(live_tokens);
}

std::vector<std::string> architecture_names() {
  std::vector<std::string> names;
  for (const Architecture& architecture : architectures()) names.emplace_back(architecture.name);
  return names;
}

void add_compile(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan compile --config configs/glm52.json --arch sm_120\n"
      "  moeplan compile -c glm52.json --arch sm_90,sm_120 --no-cache\n"
      "Needs NVRTC and no GPU. Exits 1 when a kernel does not compile, spills registers or takes more shared "
      "memory than\na block may have; 4 without NVRTC.");
  add_config_options(command, line);
  CompileOptions& options = line.compile;
  command
      .add_option("--arch", options.architectures,
                  "Architectures to compile for (default: the config's device's)")
      ->delimiter(',')
      ->check(CLI::IsMember(architecture_names()))
      ->type_name("SM");
  command.add_option("--plan", options.plan, kPlanDoc)->type_name("ID");
  command
      .add_option("--threads", options.threads,
                  "Compile so many kernels at a time (default: as many as cores)")
      ->check(CLI::Range(i64{1}, i64{256}));
  command.add_flag("--no-cache", options.no_cache, "Compile anew, and keep nothing");
  command.add_flag("--no-progress", options.no_progress, "No progress line on a terminal");
}

// "15e12"
std::string trillions(double value) { return concat(std::llround(value / 1e12), "e12"); }

void add_validate(CLI::App& command, CommandLine& line) {
  command.footer(
      std::string(
          "Examples:\n  moeplan validate --config configs/glm52.json\n"
          "  moeplan validate -c glm52.json --emulate --evidence glm52.evidence.json\n"
          "  moeplan validate -c glm52.json --plan decode --shrink rotation_a_gate\n"
          "  moeplan validate -c small.json --sanitizer memcheck\n"
          "  moeplan validate -c glm52.json --weights model.safetensors.index.json --layer 3\n"
          "Runs Trellis, packed NVFP4 and paged indexer plans. Needs a GPU, its driver and NVRTC.\n"
          "configs/glm52.json takes 15 to 30 s on an H200; launches that would take too long, past ") +
      trillions(kMostValidationWork) +
      "\n"
      "multiply-adds of the reference a plan, are left out and counted.\n"
      "Exits 1 when a check fails; 4 without a GPU, or 0 with --if-available.");
  add_config_options(command, line);
  ValidateOptions& options = line.validate;
  command.add_option("--plan", options.plan, kPlanDoc)->type_name("ID");
  command.add_flag(
      "--emulate", options.emulate,
      "Run the config's own plan, on a GPU that holds as many blocks at once, within its device's "
      "shared memory (default: the plan is made anew for the GPU that is there)");
  command
      .add_option(
          "--shrink", options.shrink,
          "Take the last element of this tensor away, which the executor has to refuse or a guard to catch "
          "(default: of each tensor of small plans)")
      ->type_name("TENSOR");
  CLI::Option* const weights =
      command
          .add_option("--weights", options.weights,
                      "Run a layer of this EXL3 checkpoint, a .safetensors file or the index of several, in "
                      "place of one that is made up")
          ->check(check_file_name)
          ->type_name("FILE");
  CLI::Option* const layer = command.add_option("--layer", options.layer, "The layer of --weights")
                                 ->check(check_layer)
                                 ->type_name("N");
  weights->needs(layer);
  layer->needs(weights);
  command.add_flag(
      "--if-available", options.if_available,
      "Exit 0, and say so, where there is no GPU, driver or NVRTC, or no compute-sanitizer for --sanitizer");
  command.add_option("--evidence", options.evidence, "Write a record of what was seen, of one config")
      ->check(check_file_name)
      ->type_name("FILE");
  command
      .add_option("--sanitizer", options.sanitizer,
                  "Run under this tool of compute-sanitizer, which is looked for in PATH, CUDA_HOME/bin and "
                  "/usr/local/cuda/bin; exits 1 when it finds something")
      ->check(CLI::IsMember({"memcheck", "racecheck", "initcheck", "synccheck"}));
  command.add_flag("--no-progress", options.no_progress, "No progress line on a terminal");
}

void add_bench(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan bench moe -c configs/glm52-e160.json --executor faithful,lean --tokens "
      "1,8,64,3072\n"
      "  moeplan bench moe -c configs/glm52-e160.json --capacity 512,1024,1536,3072 -o svg=capacity.svg\n"
      "  moeplan bench indexer --rows 1,4,16,48 --context 8k,32k,128k --heads 32\n"
      "  moeplan bench indexer -c configs/glm52.json --plan 'indexer decode' --context 64k\n"
      "moe times the fused MoE of a config's Trellis plans, executors beside each other; indexer times calls "
      "of "
      "paged\nindexer plans. Both on this machine's GPU, beside the floor of their bytes and the times of "
      "public "
      "kernels as\nrecorded. Needs a GPU, its driver and NVRTC: exits 4 without them, or 0 with "
      "--if-available. "
      "Slow is no failure:\n1 where something could not be timed.");
  BenchOptions& options = line.bench;
  command.add_option("WHAT", options.what, "What is timed: moe or indexer")
      ->required()
      ->check(CLI::IsMember({"moe", "indexer"}))
      ->type_name("WHAT");
  CLI::Option* const config = command
                                  .add_option("-c,--config", line.configs.paths,
                                              "Time the plans of this deployment config; repeat for several")
                                  ->take_all()
                                  ->type_name("FILE");
  const auto number = [&](const char* flag, std::optional<std::string>& target, const std::string& doc,
                          const char* type) {
    return command.add_option(flag, target, doc)->type_name(type);
  };
  number("--executor", options.executors,
         concat("moe: who runs it, in plans of which contract: ", join(executor_names(), ", "),
                " (default: faithful, the config's own contract); others are compared with the first"),
         "LIST")
      ->needs(config);
  number(
      "--tokens", options.tokens,
      "moe: live tokens, each in the smallest plan that holds them (default: 1,2,4,8,16,32,64,512,1024,3072 "
      "as far as plans reach; with --capacity none)",
      "LIST")
      ->needs(config);
  number(
      "--capacity", options.capacities,
      "moe: run a chunk of max_num_batched_tokens in launches of prefill plans of these capacities, and say "
      "what each reserves and gains",
      "LIST")
      ->needs(config);
  number("--decode-rate", options.decode_rate,
         "moe: take decode floors at so many T weights/s (default: none, and no such floor)", "N")
      ->needs(config);
  number("--flop-rate", options.flop_rate,
         "moe: take flop floors at so many TFLOP/s (default: what mma.sync of halves does out of registers, "
         "measured)",
         "N")
      ->needs(config);
  number("--rows", options.rows, "indexer: query rows of a call (default with a config: its plan's)", "LIST");
  number("--context", options.context,
         "indexer: tokens that each row sees, whole pages, 8k is 8192 (default with a config: its plan's)",
         "LIST");
  number("--heads", options.heads, "indexer: heads: 16, 32, 64", "LIST")->excludes(config);
  number("--top-k", options.top_k,
         concat("indexer: keys that are selected: 512, 1024, 2048 (default: ", kDefaultTopK, ")"), "K")
      ->excludes(config);
  number(
      "--group", options.group,
      "indexer: rows that share their request's pages (default: 1; of a deployment's decode plan a token and "
      "its speculative ones)",
      "N");
  command
      .add_flag("--prefill", options.is_prefill, "indexer: rows are one request's, as in a prefill's chunk")
      ->excludes(config);
  command.add_option("--plan", options.plan, kPlanDoc)->type_name("ID")->needs(config);
  number("--bandwidth-gb-s", options.bandwidth_gb_s,
         "Take floors of bytes at so many GB/s (default: a copy's, measured)", "N");
  command.add_flag("--if-available", options.if_available,
                   "Exit 0, and say so, where there is no GPU, driver or NVRTC");
  command.add_option("--evidence", options.evidence, "Write a record of what was measured, of one config")
      ->check(check_file_name)
      ->type_name("FILE");
  command.add_flag("--no-progress", options.no_progress, "No progress line on a terminal");
  add_override_options(command, line);
  add_report_options(command, line);
}

void add_cache(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan cache info\n  moeplan cache verify\n  moeplan cache clear\n"
      "The cache is MOEPLAN_CACHE_DIR, else XDG_CACHE_HOME/moeplan, else ~/.cache/moeplan. verify exits 1 "
      "when "
      "an entry is damaged.");
  command.add_option("action", line.cache.action, "info, verify or clear")
      ->required()
      ->check(CLI::IsMember({"info", "verify", "clear"}))
      ->type_name("ACTION");
  add_report_options(command, line);
}

// The rows of a table, one a line.
template <class Row>
std::string described(const char* title, std::span<const Row> rows, std::string_view Row::*name,
                      std::string_view Row::*doc) {
  std::string out = std::string(title) + ":";
  for (const Row& row : rows) {
    std::string line = "\n  " + std::string(row.*name) + " ";
    line.resize(std::max<std::size_t>(line.size(), 17), ' ');
    out += line + std::string(row.*doc);
  }
  return out + "\n";
}

void add_sweep(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan sweep -c configs/glm52.json --axis capacity=512,1024,3072\n"
      "  moeplan sweep -c glm52.json --arena decode --axis block=8,16,32,48,64,unpinned\n"
      "  moeplan sweep -c glm52.json --axis sms=100..188:+8 --axis tp=1..8:x2 --format csv\n"
      "Values are lists and ranges: 256..8192:x2, 256..1024:+256.\n\n" +
      described("Axes, beside JSON pointers", axis_names(), &AxisName::name, &AxisName::doc) + "\n" +
      described("Columns", sweep_columns(), &SweepColumn::key, &SweepColumn::doc));
  add_config_options(command, line);
  SweepOptions& options = line.sweep;
  command.add_option("--axis", options.axes, "What changes, and its values; repeat for a grid")
      ->required()
      ->take_all()
      ->type_name("NAME=VALUES");
  command.add_option("--arena", options.arena, "Look at this arena alone (default: all of them, summed)")
      ->type_name("NAME");
  command.add_option("--columns", options.columns, "Columns to show, such as bytes,mib,launches")
      ->type_name("LIST");
  command.add_option("--sort", options.sort, "Order by an axis or a column; :desc for the largest first")
      ->type_name("COLUMN");
  command.add_option("--top", options.top, "Show the first N rows of that order")
      ->check(CLI::Range(i64{1}, i64{1} << 40))
      ->type_name("N");
  command.add_option("--pareto", options.pareto, "Show points alone that none beats in all of these columns")
      ->type_name("LIST");
  command.add_option("--plot", line.plot, "Draw the chart below the table")->check(CLI::IsMember({"term"}));
  command.add_option("--threads", options.threads, "Threads to plan on (default: all)")
      ->check(CLI::Range(i64{1}, i64{256}))
      ->type_name("N");
  command.add_option("--max-points", options.max_points, "Refuse larger sweeps")
      ->check(CLI::Range(i64{1}, i64{1} << 50))
      ->type_name("N")
      ->capture_default_str();
  command.add_flag("--no-progress", options.no_progress, "No progress on a terminal");
}

void add_batch(CLI::App& command, CommandLine& line) {
  command.add_option("--input", line.batch.input, "File to read instead of standard input")
      ->type_name("FILE");
  command.add_flag("--fail-on-error", line.batch.fail_on_error, "Exit 1 when any response is an error");
}

void add_import(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan import log vllm.log | moeplan size -c -\n"
      "  moeplan import vllm --hf config.json --device rtx-pro-6000-blackwell -- vllm serve MODEL -tp 4\n"
      "  moeplan import compose compose.yml --service glm52 --hf config.json --device h200-sxm\n"
      "The config goes to stdout, where its fields are from to stderr. What is missing is named, never "
      "guessed.");
  command
      .add_option("source", line.import.source,
                  "What is read: " + CLI::detail::join(import_source_names(), ", "))
      ->required()
      ->check(CLI::IsMember(import_source_names()))
      ->type_name("SOURCE");
  command.add_option("file", line.import.file, "File or folder to read; - is standard input")
      ->type_name("FILE");
  const std::tuple<const char*, std::string*, const char*, const char*> texts[] = {
      {"--service", &line.import.service, "Service of a compose file, or object of a manifest", "NAME"},
      {"--hf", &line.import.hf, "The checkpoint's config.json, or its folder", "PATH"},
      {"--safetensors", &line.import.safetensors, "A checkpoint file or index; only headers are read",
       "PATH"},
      {"--env", &line.import.env, "A dotenv file", "FILE"},
      {"--log", &line.import.log, "An engine's log", "FILE"},
      {"--model", &line.import.model, "A shipped model, or a file of that form", "NAME"},
      {"--device", &line.import.device, "A shipped device, or a file of that form", "NAME"},
      {"--contract", &line.import.contract, "The contract the engine runs", "ID"},
      {"--name", &line.import.name, "What to call the deployment", "TEXT"}};
  for (const auto& [flag, target, doc, type] : texts) command.add_option(flag, *target, doc)->type_name(type);
  command.add_option("--set", line.import.sets, "State one field: /json/pointer=value; repeatable")
      ->take_all()
      ->type_name("PTR=VALUE");
  command
      .add_option("--allow-env", line.import.environment, "Let ${NAME} in the sources read the environment")
      ->take_all()
      ->type_name("NAME");
  command.add_flag("-q,--quiet", line.import.quiet, "No table on stderr");
  add_verbosity(command, line);
}

void add_reconcile(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan reconcile vllm.log\n"
      "  kubectl logs glm52-0 | moeplan reconcile - --device rtx-pro-6000-blackwell --format json\n"
      "Exits 1 when a figure differs; one that cannot be derived is no difference.");
  ImportOptions& options = line.import;
  command.add_option("log", options.file, "The engine's start-up log; - is standard input")
      ->required()
      ->type_name("LOG");
  command.add_option("--hf", options.hf, "The checkpoint's config.json, or its folder")->type_name("PATH");
  command.add_option("--model", options.model, "A shipped model, or a file of that form")->type_name("NAME");
  command.add_option("--device", options.device, "A shipped device, or a file of that form")
      ->type_name("NAME");
  command.add_option("--contract", options.contract, "The contract the engine runs")
      ->check(CLI::IsMember(contract_ids()));
  command
      .add_option("--set", options.sets,
                  "State one setting that the log does not show: /json/pointer=value; repeatable")
      ->take_all()
      ->check(check_set)
      ->type_name("PTR=VALUE");
  add_report_options(command, line);
}

void add_schema(CLI::App& command, CommandLine& line) {
  std::vector<std::string> names;
  for (const std::string_view name : schema_names()) names.emplace_back(name);
  command.add_option("name", line.schema_name, "Whose schema: " + CLI::detail::join(names, ", "))
      ->check(CLI::IsMember(names))
      ->capture_default_str()
      ->type_name("NAME");
}

void add_init(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan init glm-5.2 --tp 4 | moeplan size -c -\n"
      "  moeplan init glm-5.2 --tp 4 --device rtx-pro-6000-blackwell --out glm52.json\n"
      "Values that nobody gave are marked as starter values under x-provenance.");
  InitOptions& options = line.init;
  command.add_option("model", options.model, "A shipped model, or a file of that form")
      ->required()
      ->type_name("MODEL");
  command.add_option("--device", options.device, "A shipped device, or a file of that form")
      ->type_name("NAME");
  command.add_option("--tp", options.tp, "Ranks that share each layer")->check(CLI::Range(1, 65'536));
  command.add_option("--quant", options.quant, "How the routed experts are stored")
      ->check(CLI::IsMember(weight_format_names()))
      ->capture_default_str();
  command.add_option("--bits", options.bits, "Bits a weight of an EXL3 checkpoint")->check(CLI::Range(1, 16));
  command.add_option("--contract", options.contract, "The contract the engine runs")
      ->check(CLI::IsMember(contract_ids()));
  command.add_option("--name", options.name, "What to call the deployment")->type_name("TEXT");
  command.add_option("--set", options.sets, "State one field: /json/pointer=value; repeatable")
      ->take_all()
      ->check(check_set)
      ->type_name("PTR=VALUE");
  command.add_option("--out", options.out, "File to write instead of standard output")->type_name("FILE");
  command.add_flag("--force", options.force, "Overwrite that file");
}

void add_devices(CLI::App& command, CommandLine& line) {
  command.footer("Example:\n  moeplan devices --format json\nExits 4 when --probe finds no GPU.");
  command.add_flag("--probe", line.probe, "Ask the driver for this machine's GPUs too");
  add_report_options(command, line);
}

void add_completions(CLI::App& command, CommandLine& line) {
  command.footer("Example:\n  source <(moeplan completions bash)");
  command.add_option("shell", line.shell, "The shell they are for")
      ->required()
      ->check(CLI::IsMember(completion_shells()))
      ->type_name("SHELL");
}

void add_help(CLI::App& command, CommandLine& line) {
  command
      .add_option("topic", line.help_topic,
                  "A topic, a command, a rule, or a word of an error or a finding; none lists the topics")
      ->type_name("TOPIC");
}

// A command's own help, else a topic or an error word.
ExitCode answer_help(const CommandLine& line) {
  for (const CLI::App* command : line.app->get_subcommands({})) {
    if (command->get_name() != line.help_topic) continue;
    std::fputs(command->help("moeplan").c_str(), stdout);
    return ExitCode::ok;
  }
  return run_help(line.help_topic, command_names(*line.app));
}

// Commands whose options hold the configs they are about.
template <auto options, auto run>
ExitCode with_configs(CommandLine& line) {
  (line.*options).configs = line.configs;
  return run(line.*options);
}

constexpr Command kCommands[] = {
    {"size", "How many bytes does each rank reserve, tensor by tensor?", add_size,
     [](CommandLine& line) { return run_size(line.configs); }},
    {"explain", "Why that number? Its formula with values, what moves it, routes and slack", add_explain,
     [](CommandLine& line) {
       return run_explain({line.configs, line.explain_topic, line.with_steps});
     }},
    {"capacity", "Does it fit, how many KV tokens are left, what is the largest setting that fits?",
     add_capacity,
     [](CommandLine& line) {
       return run_capacity({line.configs, line.probe, line.list_buffers});
     }},
    {"sweep", "What if capacity, blocks, tokens, ranks or multiprocessors change?", add_sweep,
     [](CommandLine& line) {
       line.configs.report.render.plots = line.plot == "term";
       line.sweep.configs = line.configs;
       return run_sweep(line.sweep);
     }},
    {"audit", "Does the reserve hold for every live token count, and which bytes can none use?", add_audit,
     with_configs<&CommandLine::audit, run_audit>},
    {"launches", "Which kernels will be compiled mid-serve, and at what batch size?", add_launches,
     with_configs<&CommandLine::launches, run_launches>},
    {"compile", "Do this deployment's kernels build: registers, spills, shared memory?", add_compile,
     with_configs<&CommandLine::compile, run_compile>},
    {"validate", "Do real kernels stay inside the planned arena, and compute what they should?", add_validate,
     with_configs<&CommandLine::validate, run_validate>},
    {"bench", "How long do real kernels take, beside what bytes and public kernels take?", add_bench,
     with_configs<&CommandLine::bench, run_bench>},
    {"cache", "What is in the cache of compiled kernels; verify or clear it", add_cache,
     [](CommandLine& line) {
       return run_cache({line.cache.action, line.configs.report});
     }},
    {"check", "Does a config obey the policy, and stay near its baseline?", add_check,
     with_configs<&CommandLine::check, run_check>},
    {"baseline", "Write, update or show what configs may reserve", add_baseline,
     with_configs<&CommandLine::baseline, run_baseline>},
    {"diff", "What changed between two configs, plans or contracts, per tensor?", add_diff,
     with_configs<&CommandLine::diff, run_diff>},
    {"batch", "Many sizing requests, JSON lines in and out", add_batch,
     [](CommandLine& line) { return run_batch(line.batch); }},
    {"import", "Turn what is deployed into a config that says where it is from", add_import,
     [](CommandLine& line) { return run_import(std::move(line.import)); }},
    {"reconcile", "Do the figures an engine printed agree with the plan of its settings?", add_reconcile,
     [](CommandLine& line) {
       return run_reconcile({line.import, line.configs.report});
     }},
    {"schema", "Print the JSON Schema of a config, or of an answer", add_schema,
     [](CommandLine& line) { return run_schema(line.schema_name); }},
    {"init", "Write a starter config for a shipped model", add_init,
     [](CommandLine& line) { return run_init(line.init); }},
    {"devices", "Which devices are known, and which GPUs are here?", add_devices,
     [](CommandLine& line) {
       return run_devices({line.probe, line.configs.report});
     }},
    {"completions", "Print what a shell completes this command line with", add_completions,
     [](CommandLine& line) { return run_completions(shape_of(*line.app), line.shell); }},
    {"man", "Print the manual page", [](CLI::App&, CommandLine&) {},
     [](CommandLine& line) { return run_man(shape_of(*line.app)); }},
    {"help", "Explain a topic, a command, a rule, or a word of an error or a finding", add_help,
     [](CommandLine& line) { return answer_help(line); }},
    {"version", "Print the version; with -v what the build is made of", add_verbosity,
     [](CommandLine& line) { return run_version(line.verbosity > 0); }},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

std::string settle_report_options(CommandLine& line) {
  ReportOptions& report = line.configs.report;
  if (!line.format.empty()) line.outputs.insert(line.outputs.begin(), line.format);
  if (line.outputs.empty()) line.outputs.emplace_back("table");
  for (const std::string& text : line.outputs) report.outputs.push_back(std::get<Output>(parse_output(text)));
  for (const auto& [name, units] : kUnits) {
    if (line.units == name) report.render.units = units;
  }
  report.render.color = !line.no_color && wants_color({.no_color = std::getenv("NO_COLOR"),
                                                       .clicolor = std::getenv("CLICOLOR"),
                                                       .clicolor_force = std::getenv("CLICOLOR_FORCE"),
                                                       .term = std::getenv("TERM"),
                                                       .is_terminal = isatty(STDOUT_FILENO) == 1});
  // An answer must not replace what it is about.
  std::vector<std::string> inputs = line.configs.paths;
  inputs.insert(inputs.end(), {line.check.policy, line.check.baseline, line.baseline.baseline,
                               line.diff.baseline, line.import.file, line.validate.weights});
  for (const Output& output : report.outputs) {
    const bool is_input = !output.path.empty() && std::ranges::any_of(inputs, [&](const std::string& input) {
      return !input.empty() && config_key(input) == config_key(output.path);
    });
    if (is_input) return "-o would write over " + output.path + ", which is read";
  }
  const std::string& evidence = line.bench.evidence.empty() ? line.validate.evidence : line.bench.evidence;
  const bool is_read = !evidence.empty() && std::ranges::any_of(inputs, [&](const std::string& input) {
    return !input.empty() && config_key(input) == config_key(evidence);
  });
  if (is_read) return "--evidence would write over " + evidence + ", which is read";
  for (const Output& output : report.outputs) {
    if (!evidence.empty() && !output.path.empty() && config_key(evidence) == config_key(output.path))
      return "-o would write over " + evidence + ", the record";
    // Of a checkpoint more files are read than the one that is named.
    if (!line.validate.weights.empty() && output.path.ends_with(".safetensors"))
      return "-o would write over " + output.path + ", which may be weights";
  }
  if (!line.validate.weights.empty() && evidence.ends_with(".safetensors"))
    return "--evidence would write over " + evidence + ", which may be weights";
  return conflict_of(report.outputs);
}

}  // namespace moeplan
