// moeplan init: a starter config for a shipped model. Every value that nobody gave says so in x-provenance.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/commands/finish.hpp"
#include "cli/commands/import.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/planned_config.hpp"
#include "cli/import/shipped.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr std::string_view kDevice = "rtx-pro-6000-blackwell";

// What a config needs and nobody gave. The text says how to give it.
struct Starter {
  std::string_view pointer;
  std::string_view json;
  std::string_view meaning;
};
constexpr Starter kStarters[] = {
    {"/parallel/tp", "1", "ranks that share each layer: --tp"},
    {"/deployment/dtype", "\"bfloat16\"", "type of the activations"},
    {"/deployment/max_num_batched_tokens", "2048", "tokens of a step, as the engine is started with"},
    {"/deployment/max_num_seqs", "8", "requests of a step, as the engine is started with"},
    {"/deployment/max_model_len", "32768", "longest context, as the engine is started with"},
    {"/deployment/kv_cache_dtype", "\"bfloat16\"", "type of the KV cache"},
};
constexpr Starter kExl3Starters[] = {
    {"/quant/source_format", "\"exl3_trellis_mcg\"", "how the experts are stored: --quant"},
    {"/quant/bits", "3", "bits a weight of an EXL3 checkpoint: --bits"},
};

void add_starter(Import& import, const Starter& starter) {
  import.add({std::string(starter.pointer), std::string(starter.json),
              concat("starter value, replace it: ", starter.meaning), RowKind::assumed, Rank::assumed});
}

// EXL3 where nothing else was asked for: the engine path that is modelled.
void add_quantization(Import& import, const InitOptions& options) {
  if (options.quant != "exl3") {
    import.add({"/quant/weights", json_of(options.quant), "--quant", RowKind::imported, Rank::command_line});
    return;
  }
  for (const Starter& starter : kExl3Starters) add_starter(import, starter);
}

Status write_file(const std::string& path, const std::string& text, bool overwrite) {
  const int descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (overwrite ? O_TRUNC : O_EXCL), 0666);
  if (descriptor < 0)
    return Error{ErrorCode::unwritable, "", concat("cannot write ", path, ": ", std::strerror(errno)),
                 errno == EEXIST ? "--force overwrites it" : "check the path"};
  std::size_t done = 0;
  ssize_t written = 0;
  while (done < text.size() && (written = ::write(descriptor, text.data() + done, text.size() - done)) > 0)
    done += static_cast<std::size_t>(written);
  const int failed = errno;
  if (::close(descriptor) == 0 && done == text.size()) return Ok{};
  return Error{ErrorCode::unwritable, "", concat("cannot write ", path, ": ", std::strerror(failed)),
               "is the disk full?"};
}

ExitCode refuse(std::span<const Problem> problems) {
  std::fputs(render_problems(problems).c_str(), stderr);
  return ExitCode::input;
}

}  // namespace

ExitCode run_init(const InitOptions& options) {
  Import import;
  ImportOptions common;
  common.source = "init";
  common.model = options.model;
  common.device = options.device.empty() ? std::string(kDevice) : options.device;
  common.contract = options.contract;
  common.name = options.name;
  common.sets = options.sets;
  if (options.tp > 0)
    import.add({"/parallel/tp", json_of(options.tp), "--tp", RowKind::imported, Rank::command_line});
  if (options.bits > 0)
    import.add({"/quant/bits", json_of(options.bits), "--bits", RowKind::imported, Rank::command_line});
  add_quantization(import, options);
  for (const Starter& starter : kStarters) add_starter(import, starter);
  if (options.name.empty()) {
    std::string_view name = base_name(options.model);
    if (name.ends_with(".json")) name.remove_suffix(5);
    import.add({"/name", json_of(name), "the model"});
  }
  complete_import(import, common);
  if (!import.problems.empty()) return refuse(import.problems);
  if (options.device.empty()) {
    for (ImportRow& row : import.rows) {
      if (!row.pointer.starts_with("/device/")) continue;
      row.from = concat("starter value, replace it: shipped ", kDevice, "; --device names another");
      row.kind = RowKind::assumed;
    }
  }
  const std::string text = write_config(import);
  const auto config = read_back(import, text, true);
  if (!import.problems.empty()) return refuse(import.problems);

  if (options.out.empty()) {
    if (const ExitCode code = print(text); code != ExitCode::ok) return code;
  } else if (const auto written = write_file(options.out, text, options.force); !written) {
    const Problem problem{written.error(), {}};
    return refuse({&problem, 1});
  }
  // What stands in the way of a plan is said at once, but a starter may be worked on.
  const PlannedConfig planned = plan_config(parse_config("the config", text, {}));
  for (const Problem& problem : planned.config->problems)
    std::fprintf(stderr, "note: moeplan size will refuse it at %s: %s\n  help: %s\n",
                 problem.error.pointer.c_str(), problem.error.message.c_str(), problem.error.help.c_str());
  return ExitCode::ok;
}

}  // namespace moeplan
