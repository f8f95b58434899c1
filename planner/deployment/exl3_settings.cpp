#include "planner/deployment/exl3_settings.hpp"

#include <algorithm>

#include "planner/core/did_you_mean.hpp"
#include "planner/core/limits.hpp"
#include "planner/core/python_int.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/exl3_rules.hpp"

namespace moeplan {
namespace {

using enum VariableKind;

constexpr Exl3Variable kVariables[] = {
    {"VLLM_EXL3_TRELLIS_MIN_M", positive, "1", "fewest rows the decode plan serves"},
    {"VLLM_EXL3_TRELLIS_MAX_M", positive, "32", "capacity of the decode plan in tokens"},
    {"VLLM_EXL3_TRELLIS_BLOCK_M", positive, "8", "route block of the decode plan"},
    {"VLLM_EXL3_PREFILL_TRELLIS", one_enables, "1",
     "the prefill plan exists only when this is exactly \"1\""},
    {"VLLM_EXL3_PREFILL_BLOCK_M", positive, "64", "route block of the prefill plan"},
    {"VLLM_EXL3_PREFILL_CAPACITY", positive, "max_num_batched_tokens",
     "capacity of the prefill plan in tokens; larger steps are sliced"},
    {"VLLM_EXL3_PREFILL_CHUNK", positive, "128", "rows a parity-path call; no plan's capacity"},
    {"VLLM_EXL3_EXT_PATH", text, "", "where the extension is loaded from"},
    {"VLLM_EXL3_ABI_SHIM", text, "", "library loaded ahead of the extension"},
    {"VLLM_EXL3_ONLINE_TRELLIS_BITS", bits, "", "bits for quantising further weights at load"},
    {"VLLM_EXL3_ENCODER_SOURCE", text, "", "folder of the online encoder"},
    {"VLLM_EXL3_ENCODER_REVISION", text, "", "identity of the online encoder"},
    {"VLLM_EXL3_ONLINE_CACHE_DIR", text, "", "cache of tensors encoded at load"},
    {"VLLM_EXL3_ONLINE_CACHE_MODE", cache_mode, "", "off, readonly or readwrite"},
    {"VLLM_EXL3_R7_FUSED", text, "0", "R7 kernels"},
    {"VLLM_EXL3_R7_FUSED_LAYERS", text, "48", "layers of the R7 kernels"},
    {"VLLM_EXL3_R7_A1_MIN_ROWS", text, "0", "R7 threshold"},
    {"VLLM_EXL3_R7_ROUTE_BLOCK", text, "", "route block of the R7 kernels"},
    {"VLLM_EXL3_R7_DEBUG", text, "", "R7 logging"},
};

Error refused(std::string_view name, std::string_view expected, std::string_view text, std::string help) {
  return {ErrorCode::invalid_environment, environment_pointer(name),
          concat(name, " must be ", expected, ", got \"", text, "\""), std::move(help)};
}

// Unset or blank is the default; anything but a positive integer is refused, as the integration does.
Result<i64> positive_variable(const Environment& env, std::string_view name, i64 fallback) {
  const std::string* text = find_variable(env, name);
  if (!text || strip_python_space(*text).empty()) return fallback;
  const auto value = parse_python_int(*text);
  if (!value || *value <= 0)
    return refused(name, "a positive integer", *text, "leave it out for the default");
  if (*value > kMaxTokens)
    return Error{ErrorCode::out_of_range, environment_pointer(name),
                 concat(name, " must be at most ", kMaxTokens, ", got ", *text), "is it a typing mistake?"};
  return *value;
}

Status check_variable(std::string_view name, VariableKind kind, const std::string& text) {
  if (strip_python_space(text).empty()) return Ok{};
  if (kind == bits) {
    const auto value = parse_python_int(text);
    if (!value || *value < 3 || *value > 8)
      return refused(name, "an integer from 3 to 8", text, "leave it out to quantise nothing further");
  }
  if (kind == cache_mode && text != "off" && text != "readonly" && text != "readwrite")
    return refused(name, "off, readonly or readwrite", text, "leave it out for the default");
  return Ok{};
}

Error unknown_variable(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Exl3Variable& variable : kVariables) known.push_back(variable.name);
  const auto near = did_you_mean(name, known);
  return {ErrorCode::unknown_key, environment_pointer(name),
          concat("the EXL3 integration reads no variable ", name),
          near ? concat("did you mean \"", *near, "\"?") : "drop it"};
}

// Settings by variable; the fallback of the capacity is the scheduler's.
struct PositiveSetting {
  std::string_view name;
  i64 Exl3Settings::*member;
  i64 fallback;
};
constexpr i64 kScheduled = 0;
constexpr PositiveSetting kPositiveSettings[] = {
    {"VLLM_EXL3_TRELLIS_MIN_M", &Exl3Settings::decode_min_tokens, 1},
    {"VLLM_EXL3_TRELLIS_MAX_M", &Exl3Settings::decode_tokens, 32},
    {"VLLM_EXL3_TRELLIS_BLOCK_M", &Exl3Settings::decode_block, 8},
    {"VLLM_EXL3_PREFILL_BLOCK_M", &Exl3Settings::prefill_block, 64},
    {"VLLM_EXL3_PREFILL_CAPACITY", &Exl3Settings::prefill_tokens, kScheduled},
    {"VLLM_EXL3_PREFILL_CHUNK", &Exl3Settings::prefill_chunk, 128}};

}  // namespace

std::span<const Exl3Variable> exl3_variables() { return kVariables; }

std::string environment_pointer(std::string_view variable) { return concat("/deployment/env/", variable); }

const std::string* find_variable(const Environment& env, std::string_view name) {
  for (const auto& [key, value] : env) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::vector<Error> exl3_variable_errors(const EngineSettings& engine) {
  std::vector<Error> errors;
  for (const auto& [name, text] : engine.env) {
    if (!name.starts_with("VLLM_EXL3_")) continue;
    const auto* row = std::ranges::find(kVariables, name, &Exl3Variable::name);
    if (row == std::end(kVariables)) {
      errors.push_back(unknown_variable(name));
    } else if (auto s = check_variable(name, row->kind, text); !s) {
      errors.push_back(s.error());
    }
  }
  for (const PositiveSetting& row : kPositiveSettings) {
    if (const auto value = positive_variable(engine.env, row.name, 1); !value)
      errors.push_back(value.error());
  }
  return errors;
}

Result<Exl3Settings> parse_exl3_settings(const EngineSettings& engine) {
  if (const auto errors = exl3_variable_errors(engine); !errors.empty()) return errors.front();
  const Environment& env = engine.env;
  const i64 scheduled = engine.max_num_batched_tokens;
  Exl3Settings settings;
  for (const PositiveSetting& row : kPositiveSettings) {
    const i64 fallback = row.fallback == kScheduled ? scheduled : row.fallback;
    settings.*row.member = *positive_variable(env, row.name, fallback);
  }
  const std::string* capacity = find_variable(env, "VLLM_EXL3_PREFILL_CAPACITY");
  settings.capacity_set = capacity && !strip_python_space(*capacity).empty();
  const std::string* prefill = find_variable(env, "VLLM_EXL3_PREFILL_TRELLIS");
  settings.prefill_switch = !prefill || *prefill == "1";
  settings.prefill_enabled = settings.prefill_switch && scheduled > settings.decode_tokens;
  settings.parity_rows = settings.prefill_enabled ? min_of(settings.prefill_chunk, scheduled) : scheduled;
  return settings;
}

Result<Exl3Settings> read_exl3_settings(const EngineSettings& engine) {
  auto settings = parse_exl3_settings(engine);
  if (!settings) return settings;
  if (const auto refusal = exl3_refusal(*settings, engine))
    return Error{ErrorCode::invalid_environment, refusal->pointer, refusal->message, refusal->remedy};
  return settings;
}

}  // namespace moeplan
