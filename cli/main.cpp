// The command line: one function a command, one table of shared options. Answers go to stdout, everything
// else to stderr.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <tuple>

#include "cli/commands/options.hpp"
#include "cli/log.hpp"
#include "cli/sweep/columns.hpp"
#include "planner/core/contract.hpp"

namespace moeplan {
namespace {

// Columns of the terminal, else 100.
i64 terminal_width() {
  const char* columns = std::getenv("COLUMNS");
  const long width = columns ? std::strtol(columns, nullptr, 10) : 0;
  return width >= 20 && width <= 10'000 ? width : 100;
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Format& format : formats()) names.emplace_back(format.name);
  return names;
}

std::vector<std::string> contract_ids() {
  std::vector<std::string> ids;
  for (const Contract& contract : contracts()) ids.emplace_back(contract.id);
  return ids;
}

// Refused before any config is read: nothing a config says could mend it.
std::string check_set(const std::string& set) {
  const bool fine = set.starts_with('/') && set.find('=') != std::string::npos;
  return fine ? "" : "write --set /json/pointer=value, for example /deployment/max_num_batched_tokens=8192";
}

struct CommandLine {
  ConfigOptions configs;
  BatchOptions batch;
  ImportOptions import;
  SweepOptions sweep;
  std::string plot;
  std::string format = "table";
  std::string explain_topic;
  bool with_steps = false;
  bool probe = false;
  bool list_buffers = false;
  std::string help_topic;
  int verbosity = 0;
  bool version = false;
};

void add_verbosity(CLI::App& command, CommandLine& line) {
  command.add_flag("-v", line.verbosity, "Say on stderr what is done; -vv for details");
}

// How a command prints its reports.
void add_report_options(CLI::App& command, CommandLine& line,
                        std::vector<std::string> formats = format_names()) {
  command.add_option("--format", line.format, "How to print the answer")
      ->check(CLI::IsMember(std::move(formats)))
      ->capture_default_str();
  command
      .add_option("--width", line.configs.report.render.width,
                  "Columns to print in (default: COLUMNS, else 100)")
      ->check(CLI::Range(20, 10'000));
  command.add_flag("--ascii", line.configs.report.render.ascii, "No glyphs beyond ASCII");
  command.add_flag("-q,--quiet", line.configs.report.render.quiet, "The verdict line alone");
  add_verbosity(command, line);
}

// What every command that reads configs and prints reports takes.
void add_config_options(CLI::App& command, CommandLine& line,
                        std::vector<std::string> formats = format_names()) {
  ConfigOptions& options = line.configs;
  command
      .add_option("-c,--config", options.paths, "Deployment config; - is standard input; repeat for several")
      ->required()
      ->take_all()
      ->type_name("FILE");
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
  add_report_options(command, line, std::move(formats));
}

void add_size(CLI::App& command, CommandLine& line) {
  command.footer(
      "Examples:\n  moeplan size --config configs/glm52.json\n"
      "  moeplan size -c glm52.json --set /deployment/max_num_batched_tokens=8192 --format json");
  add_config_options(command, line);
}

void add_explain(CLI::App& command, CommandLine& line) {
  command.footer("Example:\n  moeplan explain indexer --config configs/glm52.json --step");
  command.add_option("topic", line.explain_topic, "What to explain: indexer")
      ->required()
      ->check(CLI::IsMember({"indexer"}));
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
  // Rows of these leave as they are planned.
  std::vector<std::string> formats = format_names();
  for (const char* streamed : {"csv", "jsonl"}) {
    if (std::ranges::find(formats, streamed) == formats.end()) formats.emplace_back(streamed);
  }
  add_config_options(command, line, std::move(formats));
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

void add_help(CLI::App& command, CommandLine& line) {
  command.add_option("topic", line.help_topic, "An error word, or errors for all of them")->required();
}

// A command: one row, one add_ function above, one file in commands/.
struct Command {
  const char* name;
  const char* question;  // what it answers
  void (*add)(CLI::App& command, CommandLine& line);
  ExitCode (*run)(CommandLine& line);
};

constexpr Command kCommands[] = {
    {"size", "How many bytes does each rank reserve, tensor by tensor?", add_size,
     [](CommandLine& line) { return run_size(line.configs); }},
    {"explain", "Why that number? Routes, rules, alternatives and slack", add_explain,
     [](CommandLine& line) {
       return run_explain({line.configs, line.with_steps});
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
       line.sweep.format = line.format;
       return run_sweep(line.sweep);
     }},
    {"batch", "Many sizing requests, JSON lines in and out", add_batch,
     [](CommandLine& line) { return run_batch(line.batch); }},
    {"import", "Turn what is deployed into a config that says where it is from", add_import,
     [](CommandLine& line) { return run_import(std::move(line.import)); }},
    {"reconcile", "Do the figures an engine printed agree with the plan of its settings?", add_reconcile,
     [](CommandLine& line) {
       return run_reconcile({line.import, line.configs.report});
     }},
    {"schema", "Print the JSON Schema of a config", [](CLI::App&, CommandLine&) {},
     [](CommandLine&) { return run_schema(); }},
    {"help", "What an error word means", add_help,
     [](CommandLine& line) { return run_help(line.help_topic); }},
    {"version", "Print the version; with -v what the build is made of", add_verbosity,
     [](CommandLine& line) { return run_version(line.verbosity > 0); }},
};

int run(int argc, char** argv) {
  CommandLine line;
  // An engine's command line is its own; it is not parsed as ours.
  if (argc > 2 && std::string_view(argv[1]) == "import") {
    char** mark = std::find(argv + 2, argv + argc, std::string_view("--"));
    if (mark != argv + argc) {
      line.import.words.assign(mark + 1, argv + argc);
      argc = static_cast<int>(mark - argv);
    }
  }
  line.configs.report.render.width = terminal_width();
  CLI::App app("moeplan: exact GPU scratch planning for fused MoE serving", "moeplan");
  app.footer(
      "Exit codes: 0 answered, 1 answered no, 2 wrong command line, 3 bad input, 4 no usable GPU, "
      "5 refused: a limit, 70 a bug.");
  app.add_flag("-V,--version", line.version, "Print the version; with -v what the build is made of");
  add_verbosity(app, line);
  for (const Command& command : kCommands)
    command.add(*app.add_subcommand(command.name, command.question), line);
  app.require_subcommand(0, 1);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Its own exit codes start at 100; asking for help is no error.
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "error[usage]: %s\n  help: moeplan --help, or moeplan COMMAND --help\n",
                 error.what());
    return static_cast<int>(ExitCode::usage);
  }
  if (std::ranges::count(line.configs.paths, "-") > 1) {
    std::fputs("error[usage]: standard input can be read once\n  help: give -c - once\n", stderr);
    return static_cast<int>(ExitCode::usage);
  }
  set_verbosity(line.verbosity);
  for (const Format& format : formats()) {
    if (format.name == line.format) line.configs.report.format = &format;
  }

  if (line.version) return static_cast<int>(run_version(line.verbosity > 0));
  for (const Command& command : kCommands) {
    if (app.got_subcommand(command.name)) return static_cast<int>(command.run(line));
  }
  std::fputs(app.help().c_str(), stderr);
  return static_cast<int>(ExitCode::usage);
}

// A failed check aborts; its exit code is the one of every bug.
extern "C" void exit_after_abort(int) { _exit(static_cast<int>(ExitCode::internal)); }

}  // namespace
}  // namespace moeplan

int main(int argc, char** argv) {
  std::signal(SIGABRT, moeplan::exit_after_abort);
  try {
    return moeplan::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("error[too_large]: out of memory\n  help: give the process more memory, or split the input\n",
               stderr);
    return static_cast<int>(moeplan::ExitCode::input);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "internal error: %s\n  this is a bug in moeplan; please report it\n", error.what());
    return static_cast<int>(moeplan::ExitCode::internal);
  }
}
