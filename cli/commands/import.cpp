// moeplan import: what is deployed, as a config, and where every field of it was read.
#include <algorithm>
#include <cstdio>

#include "cli/commands/import.hpp"
#include "cli/import/engine_contracts.hpp"
#include "cli/import/shipped.hpp"
#include "cli/import/sources.hpp"
#include "cli/io/text_file.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

struct Source {
  std::string_view name;
  void (*read)(Import&, const ImportOptions&);
};

constexpr Source kSources[] = {
    {"hf", [](Import& import, const ImportOptions& o) { import_hf(import, o.file); }},
    {"safetensors", [](Import& import, const ImportOptions& o) { import_safetensors(import, o.file); }},
    {"vllm",
     [](Import& import, const ImportOptions& o) {
       o.words.empty() ? import_vllm(import, o.file) : import_vllm_words(import, o.words);
     }},
    {"compose", [](Import& import, const ImportOptions& o) { import_compose(import, o.file, o.service); }},
    {"k8s", [](Import& import, const ImportOptions& o) { import_k8s(import, o.file, o.service); }},
    {"env", [](Import& import, const ImportOptions& o) { import_env(import, o.file); }},
    {"log", [](Import& import, const ImportOptions& o) { import_log(import, o.file); }},
};

// Words for us behind the engine's own: those that no engine takes, or not so.
void take_our_words(ImportOptions& options) {
  std::vector<std::string> engine;
  const auto is_positional = [](const std::string& word) { return !word.starts_with("-"); };
  const auto serve = std::ranges::find(options.words, "serve");
  const bool has_model =
      serve != options.words.end() && serve + 1 != options.words.end() && is_positional(*(serve + 1));
  constexpr std::string_view kEngineDevices[] = {"auto", "cuda", "cpu",    "xpu",
                                                 "tpu",  "hpu",  "neuron", "rocm"};
  for (std::size_t i = 0; i < options.words.size(); ++i) {
    const std::string& word = options.words[i];
    const auto equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    const bool has_next = i + 1 < options.words.size();
    const std::string value = equals != std::string::npos ? word.substr(equals + 1)
                              : has_next                  ? options.words[i + 1]
                                                          : "";
    std::string* target = nullptr;
    if (flag == "--hf") target = &options.hf;
    if (flag == "--contract") target = &options.contract;
    if (flag == "--device" && std::ranges::find(kEngineDevices, value) == std::end(kEngineDevices))
      target = &options.device;
    // The engine takes its model from the first word, and then refuses --model.
    if (flag == "--model" && has_model) target = &options.model;
    if (!target || value.empty()) {
      engine.push_back(word);
      continue;
    }
    *target = value;
    if (equals == std::string::npos) ++i;
  }
  options.words = std::move(engine);
}

// "/pointer=value": JSON, or a text where it is none.
void add_set(Import& import, const std::string& set) {
  const auto equals = set.find('=');
  if (equals == std::string::npos || !set.starts_with('/'))
    return import.fail(ErrorCode::invalid_pointer, Place{},
                       concat("--set ", set, " is no /json/pointer=value"), "write --set /parallel/tp=4");
  const std::string value = set.substr(equals + 1);
  JsonDocument document;
  const bool is_json = static_cast<bool>(document.parse(value, "--set"));
  import.add({set.substr(0, equals), is_json ? value : json_of(value), "--set", RowKind::imported,
              Rank::command_line});
}

// "3.0bpw" in a model's name: the width of its experts, when it is a whole one.
void assume_bits(Import& import) {
  const std::string& name = import.model_name;
  const auto at = name.rfind("bpw");
  if (at == std::string::npos) return;
  std::size_t begin = at;
  while (begin > 0 && ((name[begin - 1] >= '0' && name[begin - 1] <= '9') || name[begin - 1] == '.')) --begin;
  std::string width = name.substr(begin, at - begin);
  if (const auto point = width.find('.'); point != std::string::npos) {
    if (width.find_first_not_of('0', point + 1) != std::string::npos) return;
    width.resize(point);
  }
  if (width.size() == 1 && width[0] >= '2' && width[0] <= '8')
    import.add({"/quant/bits", width, concat("from name \"", name, "\" (", import.model_from, ")"),
                RowKind::assumed, Rank::assumed});
}

void assume_format(Import& import) {
  struct Format {
    std::string_view word, pointer, value;
  };
  constexpr Format kFormats[] = {{"exl3", "/quant/source_format", "exl3_trellis_mcg"},
                                 {"nvfp4", "/quant/source_format", "modelopt_nvfp4"},
                                 {"fp8", "/quant/weights", "fp8"}};
  if (find_row(import, "/quant/source_format") || find_row(import, "/quant/weights")) return;
  std::string name = import.model_name;
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const Format& format : kFormats) {
    if (name.find(format.word) == std::string::npos) continue;
    import.add({std::string(format.pointer), json_of(format.value),
                concat("from name \"", import.model_name, "\" (", import.model_from, ")"), RowKind::assumed,
                Rank::assumed});
    return;
  }
}

void add_contract(Import& import, const ImportOptions& options) {
  if (!options.contract.empty())
    return import.add(
        {"/contract", json_of(options.contract), "--contract", RowKind::imported, Rank::command_line});
  const std::string_view known = contract_of_engine(import.engine);
  const ImportRow* engine = find_row(import, "/deployment/engine");
  if (!known.empty())
    return import.add({"/contract", json_of(known),
                       concat("build ", import.engine, engine ? concat(" (", engine->from, ")") : "")});
  import.add({"/contract", json_of(kAssumedContract),
              import.engine.empty() ? "contract assumed: no source shows the engine's build"
                                    : concat("contract assumed: build ", import.engine, " is not known"),
              RowKind::assumed, Rank::assumed});
}

std::string name_of_deployment(const Import& import) {
  std::string name = import.model_name;
  while (name.ends_with('/')) name.pop_back();
  name = name.substr(name.rfind('/') + 1);
  return name;
}

void add_common(Import& import, const ImportOptions& options) {
  if (!options.hf.empty()) import_hf(import, options.hf);
  if (!options.safetensors.empty()) import_safetensors(import, options.safetensors);
  if (!options.env.empty()) import_env(import, options.env);
  if (!options.log.empty()) import_log(import, options.log);
  if (!options.model.empty())
    add_model(import, options.model, Rank::command_line);
  else if (options.hf.empty() && options.source != "hf")
    assume_model(import);
  if (!options.device.empty())
    add_device(import, options.device, Rank::command_line, RowKind::imported,
               concat("shipped ", options.device, " (--device)"));
  assume_format(import);
  if (!find_row(import, "/quant/tiers")) assume_bits(import);
  import.add({"/schema_version", "1", "this format"});
  add_contract(import, options);
  if (!options.name.empty())
    import.add({"/name", json_of(options.name), "--name", RowKind::imported, Rank::command_line});
  else if (const std::string name = name_of_deployment(import); !name.empty())
    import.add({"/name", json_of(name), import.model_from});
  if (!import.model_name.empty() && !find_row(import, "/model/name"))
    import.add({"/model/name", json_of(name_of_deployment(import)), import.model_from});
  for (const std::string& set : options.sets) add_set(import, set);
}

// Bits of the one width have no place beside tiers, and indexer keys none without an indexer.
void complete(Import& import) {
  const bool has_indexer = find_row(import, "/model/index_topk");
  if (!has_indexer) {
    std::erase_if(import.rows,
                  [](const ImportRow& row) { return row.pointer == "/deployment/indexer_cache"; });
  } else if (!find_row(import, "/deployment/indexer_cache") && !import.model_from.empty()) {
    import.add({"/deployment/indexer_cache", json_of(std::string_view("all_layers")),
                "no use_index_cache among hf_overrides", RowKind::assumed, Rank::assumed});
    settle(import);
  }
}

ExitCode refuse(const Import& import) {
  std::fputs(render_problems(import.problems).c_str(), stderr);
  return ExitCode::input;
}

}  // namespace

void complete_import(Import& import, const ImportOptions& options) {
  add_common(import, options);
  if (!import.problems.empty()) return;
  settle(import);
  complete(import);
}

std::unique_ptr<Config> read_back(Import& import, const std::string& text, bool is_whole) {
  auto config = parse_config("import", text, {});
  for (const Problem& problem : config->problems) {
    if (!is_whole && problem.error.code == ErrorCode::missing_field) continue;
    const ImportRow* row = find_row(import, problem.error.pointer);
    import.fail(problem.error.code, Place{},
                row ? concat(problem.error.message, " (", row->from, ")") : problem.error.message,
                problem.error.help);
    import.problems.back().error.pointer = problem.error.pointer;
  }
  return config;
}

std::vector<std::string> import_source_names() {
  std::vector<std::string> names;
  for (const Source& source : kSources) names.emplace_back(source.name);
  return names;
}

ExitCode run_import(ImportOptions options) {
  take_our_words(options);
  const auto source = std::ranges::find(kSources, options.source, &Source::name);
  const bool has_words = !options.words.empty();
  if (source == std::end(kSources) || (has_words && options.source != "vllm") ||
      (options.file.empty() && !has_words) || (!options.file.empty() && has_words)) {
    std::fprintf(stderr,
                 "error[usage]: %s\n  help: moeplan import SOURCE FILE, or moeplan import vllm -- vllm serve "
                 "MODEL ...\n",
                 source == std::end(kSources) ? concat("no source is named ", options.source).c_str()
                 : has_words ? "words behind -- are for source vllm alone, and instead of a file"
                             : concat("import ", options.source, " needs a file").c_str());
    return ExitCode::usage;
  }
  Import import;
  import.allowed_names = options.environment;
  source->read(import, options);
  complete_import(import, options);
  if (!import.problems.empty()) return refuse(import);

  const auto missing = missing_fields(import);
  const std::string text = write_config(import);
  if (missing.empty()) read_back(import, text, true);
  if (!import.problems.empty()) return refuse(import);
  if (!options.quiet) std::fputs(provenance_table(import).c_str(), stderr);
  if (!missing.empty()) {
    std::fprintf(stderr, "error[missing_field]: %zu %s missing; no config is written\n", missing.size(),
                 missing.size() == 1 ? "field is" : "fields are");
    for (const Missing& field : missing)
      std::fprintf(stderr, "  %-36s add %s\n", field.pointer.c_str(), field.remedy.c_str());
    return ExitCode::input;
  }
  if (auto s = write_out(text); !s) {
    std::fprintf(stderr, "error[unreadable]: %s\n", s.error().message.c_str());
    return ExitCode::input;
  }
  return ExitCode::ok;
}

}  // namespace moeplan
