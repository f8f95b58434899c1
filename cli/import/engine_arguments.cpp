#include "cli/import/engine_arguments.hpp"

#include <algorithm>
#include <optional>

#include "cli/io/decimal.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

struct Reading {
  Import& import;
  const EngineArgument& argument;
};

void wrong(const Reading& r, std::string_view expected) {
  r.import.fail(ErrorCode::invalid_value, r.argument.place,
                concat(r.argument.from, ": ", r.argument.name, " must be ", expected, ", got ",
                       r.import.shown(r.argument.value.text)),
                "write what the engine takes");
}

void add(const Reading& r, std::string pointer, std::string json, Rank rank = Rank::engine,
         RowKind kind = RowKind::imported) {
  r.import.add({std::move(pointer), std::move(json), r.argument.from, kind, rank});
}

// "32000", and the engine's "32k" (thousands) and "32K" (1,024s).
std::optional<i64> whole_number(std::string_view text) {
  i64 scale = 1;
  if (!text.empty()) {
    constexpr std::pair<char, i64> kUnits[] = {{'k', 1000},    {'K', 1024},          {'m', 1'000'000},
                                               {'M', 1 << 20}, {'g', 1'000'000'000}, {'G', 1 << 30}};
    for (const auto& [unit, factor] : kUnits) {
      if (text.back() == unit) scale = factor;
    }
    if (scale > 1) text.remove_suffix(1);
  }
  if (scale == 1 && text.find('.') != std::string_view::npos) return std::nullopt;
  return scaled_decimal(text, scale);
}

bool is_none(const Literal& value) {
  return value.type == Literal::Type::none || value.text == "None" || value.text == "null";
}

void read_integer(const Reading& r, std::string_view pointer) {
  const std::string& text = r.argument.value.text;
  if (text == "auto" || text == "-1")
    return r.import.note(
        concat(r.argument.name, " ", text, " (", r.argument.from, "): the engine decides; left out"));
  const auto number = whole_number(text);
  if (!number) return wrong(r, "a whole number");
  add(r, std::string(pointer), json_of(*number));
}

void read_utilization(const Reading& r, std::string_view pointer) {
  const auto share = scaled_decimal(r.argument.value.text, 1'000'000);
  if (!share || *share > 1'000'000) return wrong(r, "a decimal from 0 to 1");
  std::string decimals = std::to_string(1'000'000 + *share).substr(1);
  while (decimals.size() > 1 && decimals.ends_with('0')) decimals.pop_back();
  add(r, std::string(pointer), *share == 1'000'000 ? "1" : concat("0.", decimals));
}

struct Word {
  std::string_view from, to;
};

void read_word(const Reading& r, std::string_view pointer, std::span<const Word> words) {
  std::string_view text = r.argument.value.text;
  if (text.starts_with("torch.")) text.remove_prefix(6);
  for (const Word& word : words) {
    if (word.from != text) continue;
    if (!word.to.empty()) add(r, std::string(pointer), json_of(word.to));
    return;
  }
  r.import.note(concat(r.argument.name, " ", r.import.shown(text), " (", r.argument.from,
                       ") has no value in a config: left out"));
}

void read_dtype(const Reading& r, std::string_view pointer) {
  constexpr Word kWords[] = {
      {"bfloat16", "bfloat16"}, {"float16", "float16"}, {"half", "float16"}, {"auto", ""}};
  read_word(r, pointer, kWords);
}

void read_kv_dtype(const Reading& r, std::string_view pointer) {
  constexpr Word kWords[] = {
      {"bfloat16", "bfloat16"},         {"fp8", "fp8"}, {"fp8_e4m3", "fp8"}, {"fp8_ds_mla", "fp8_ds_mla"},
      {"nvfp4_ds_mla", "nvfp4_ds_mla"}, {"auto", ""}};
  read_word(r, pointer, kWords);
}

// The engine is told a method; the checkpoint says more, and better.
void read_quantization(const Reading& r, std::string_view) {
  struct Method {
    std::string_view name, pointer, value;
  };
  constexpr Method kMethods[] = {{"exl3", "/quant/source_format", "exl3_trellis_mcg"},
                                 {"modelopt_fp4", "/quant/source_format", "modelopt_nvfp4"},
                                 {"modelopt_mixed", "/quant/source_format", "modelopt_nvfp4"},
                                 {"mxfp4", "/quant/source_format", "fp4_e8m0_k32"},
                                 {"compressed-tensors", "", ""},
                                 {"fp8", "/quant/weights", "fp8"}};
  for (const Method& method : kMethods) {
    if (method.name != r.argument.value.text) continue;
    if (!method.pointer.empty()) add(r, std::string(method.pointer), json_of(method.value), Rank::checkpoint);
    return;
  }
  r.import.fail(ErrorCode::unsupported_source_format, r.argument.place,
                concat("quantization ", r.import.shown(r.argument.value.text), " is not modelled"),
                "exl3, modelopt_fp4, mxfp4, compressed-tensors and fp8 can be imported");
}

void read_speculation(const Reading& r, std::string_view pointer) {
  const Literal& value = r.argument.value;
  if (is_none(value)) return add(r, std::string(pointer), "0");
  for (std::string_view name : {"num_speculative_tokens", "num_spec_tokens"}) {
    const Literal* tokens = value.find(name);
    if (!tokens || is_none(*tokens)) continue;
    const auto number = whole_number(tokens->text);
    if (!number) return wrong(r, "an object whose num_speculative_tokens is a whole number");
    return add(r, std::string(pointer), json_of(*number));
  }
  if (value.type != Literal::Type::map) return wrong(r, "an object with num_speculative_tokens");
  r.import.note(
      concat(r.argument.from, " states no num_speculative_tokens: the engine takes the draft's own"));
}

void add_sizes(const Reading& r, const Literal& sizes, std::string_view pointer) {
  std::vector<i64> list;
  for (const Literal& item : sizes.items) {
    const auto number = whole_number(item.text);
    if (!number) return wrong(r, "a list of whole numbers");
    list.push_back(*number);
  }
  if (!list.empty()) add(r, std::string(pointer), concat("[", join(list, ", "), "]"));
}

void read_sizes(const Reading& r, std::string_view pointer) { add_sizes(r, r.argument.value, pointer); }

void read_compilation(const Reading& r, std::string_view pointer) {
  const Literal& value = r.argument.value;
  // A level alone is a whole number.
  if (value.type == Literal::Type::text && !whole_number(value.text)) return wrong(r, "an object or a level");
  const Literal* sizes = value.find("cudagraph_capture_sizes");
  if (!sizes || is_none(*sizes)) return;
  if (sizes->type != Literal::Type::list)
    return wrong(r, "an object whose cudagraph_capture_sizes is a list");
  add_sizes(r, *sizes, pointer);
}

void read_overrides(const Reading& r, std::string_view) {
  const Literal& value = r.argument.value;
  if (value.type == Literal::Type::text) return wrong(r, "an object");
  const Literal* pattern = value.find("index_topk_pattern");
  const Literal* use_cache = value.find("use_index_cache");
  const bool full_only = use_cache && use_cache->type == Literal::Type::boolean && use_cache->boolean;
  if (pattern && pattern->type == Literal::Type::text)
    add(r, "/model/index_full_layers", json_of(static_cast<i64>(std::ranges::count(pattern->text, 'F'))));
  // A pattern alone is not enough: such builds keep keys of all layers.
  if (pattern || use_cache)
    add(r, "/deployment/indexer_cache", json_of(std::string_view(full_only ? "full_layers" : "all_layers")));
  for (std::string_view name : {"max_position_embeddings", "num_experts_per_tok", "n_routed_experts",
                                "index_topk", "num_hidden_layers"}) {
    const Literal* number = value.find(name);
    if (!number) continue;
    if (const auto whole = whole_number(number->text))
      add(r, concat("/model/", name), json_of(*whole));
    else
      wrong(r, concat("an object whose ", name, " is a whole number"));
  }
}

void read_model(const Reading& r, std::string_view) {
  if (!r.import.model_name.empty()) return;
  r.import.model_name = r.argument.value.text;
  r.import.model_from = r.argument.from;
}

void refuse_pipeline(const Reading& r, std::string_view) {
  if (whole_number(r.argument.value.text).value_or(1) > 1)
    r.import.fail(ErrorCode::unsupported_deployment, r.argument.place,
                  concat("pipeline_parallel_size ", r.argument.value.text, " is not modelled"),
                  "plan each stage as a deployment of its own layers, or use 1");
}

struct Setting {
  std::string_view name;
  void (*read)(const Reading&, std::string_view pointer);
  std::string_view pointer = {};
};

constexpr Setting kSettings[] = {
    {"model", &read_model},
    {"tensor_parallel_size", &read_integer, "/parallel/tp"},
    {"data_parallel_size", &read_integer, "/parallel/dp"},
    {"decode_context_parallel_size", &read_integer, "/parallel/dcp"},
    {"pipeline_parallel_size", &refuse_pipeline},
    {"max_num_batched_tokens", &read_integer, "/deployment/max_num_batched_tokens"},
    {"max_num_seqs", &read_integer, "/deployment/max_num_seqs"},
    {"max_model_len", &read_integer, "/deployment/max_model_len"},
    {"num_speculative_tokens", &read_integer, "/deployment/num_speculative_tokens"},
    {"gpu_memory_utilization", &read_utilization, "/deployment/gpu_memory_utilization"},
    {"dtype", &read_dtype, "/deployment/dtype"},
    {"kv_cache_dtype", &read_kv_dtype, "/deployment/kv_cache_dtype"},
    {"quantization", &read_quantization},
    {"speculative_config", &read_speculation, "/deployment/num_speculative_tokens"},
    {"compilation_config", &read_compilation, "/deployment/cudagraph_capture_sizes"},
    {"cudagraph_capture_sizes", &read_sizes, "/deployment/cudagraph_capture_sizes"},
    {"hf_overrides", &read_overrides},
};

// Expert parallelism spreads the experts over all tensor- and data-parallel ranks.
void import_expert_parallelism(Import& import, std::span<const EngineArgument> arguments) {
  const EngineArgument* flag = nullptr;
  i64 ranks = 1;
  for (const EngineArgument& argument : arguments) {
    if (argument.name == "enable_expert_parallel" && argument.value.type == Literal::Type::boolean)
      flag = argument.value.boolean ? &argument : nullptr;
    if (argument.name == "tensor_parallel_size" || argument.name == "data_parallel_size")
      ranks = std::min<i64>(ranks * std::clamp<i64>(whole_number(argument.value.text).value_or(1), 1, 1024),
                            1 << 20);
  }
  if (flag) import.add({"/parallel/ep", json_of(ranks), concat(flag->from, ": tp x dp")});
}

// Names that decide memory, by their beginning.
constexpr std::string_view kVariables[] = {"VLLM_EXL3_",
                                           "VLLM_SPARSE_INDEXER_MAX_LOGITS_MB",
                                           "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
                                           "SPARKINFER_",
                                           "B12X_",
                                           "KV_SCALE_MODE",
                                           "KV_FP8_ROPE"};

constexpr std::string_view kSecretWords[] = {"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"};

}  // namespace

void import_arguments(Import& import, std::span<const EngineArgument> arguments) {
  for (const EngineArgument& argument : arguments) {
    for (const Setting& setting : kSettings) {
      if (setting.name != argument.name) continue;
      if (is_none(argument.value) && argument.name != "speculative_config") break;
      setting.read({import, argument}, setting.pointer);
      break;
    }
  }
  import_expert_parallelism(import, arguments);
}

void assume_engine_defaults(Import& import, std::string_view from) {
  const std::string why = concat("engine default, not in ", from);
  const std::pair<std::string_view, std::string_view> defaults[] = {
      {"/parallel/tp", "1"},
      {"/parallel/dcp", "1"},
      {"/deployment/gpu_memory_utilization", "0.92"},
      {"/deployment/num_speculative_tokens", "0"}};
  for (const auto& [pointer, json] : defaults)
    import.add({std::string(pointer), std::string(json), why, RowKind::assumed, Rank::assumed});
}

bool takes_variable(std::string_view name) {
  for (std::string_view word : kSecretWords) {
    if (name.find(word) != std::string_view::npos) return false;
  }
  return std::ranges::any_of(kVariables, [&](std::string_view prefix) { return name.starts_with(prefix); }) &&
         std::ranges::all_of(name, [](char c) {
           return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
         });
}

bool import_variable(Import& import, std::string_view name, std::string_view value, std::string from) {
  if (!takes_variable(name)) return false;
  import.add({concat("/deployment/env/", name), json_of(value), std::move(from)});
  return true;
}

}  // namespace moeplan
