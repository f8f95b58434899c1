// The EXL3 integration's environment variables: which there are, their defaults, and what it refuses.
// Source: docs/contracts.md section 11.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/result.hpp"
#include "planner/deployment/deployment.hpp"

namespace moeplan {

// The variables that decide plans, with their defaults applied and their texts validated.
struct Exl3Settings {
  i64 decode_min_tokens = 0;   // VLLM_EXL3_TRELLIS_MIN_M
  i64 decode_tokens = 0;       // VLLM_EXL3_TRELLIS_MAX_M
  i64 decode_block = 0;        // VLLM_EXL3_TRELLIS_BLOCK_M
  bool prefill_switch = true;  // VLLM_EXL3_PREFILL_TRELLIS is exactly "1", or unset
  bool prefill_enabled = false;
  i64 prefill_tokens = 0;     // VLLM_EXL3_PREFILL_CAPACITY
  bool capacity_set = false;  // it is not the default
  i64 prefill_block = 0;      // VLLM_EXL3_PREFILL_BLOCK_M
  i64 prefill_chunk = 0;      // VLLM_EXL3_PREFILL_CHUNK
  i64 parity_rows = 0;        // rows the parity path stages
};

enum class VariableKind { positive, bits, cache_mode, one_enables, text };

// One EXL3 variable the integration knows.
struct Exl3Variable {
  std::string_view name;
  VariableKind kind;
  std::string_view default_text;
  std::string_view meaning;
};
std::span<const Exl3Variable> exl3_variables();

// Where the variable stands in a config.
std::string environment_pointer(std::string_view variable);

// The text of a variable, or null.
const std::string* find_variable(const Environment& env, std::string_view name);

// What is wrong with the variables, each on its own.
std::vector<Error> exl3_variable_errors(const EngineSettings& engine);

// Each variable on its own; how they go together is not looked at. Errors point into the config.
Result<Exl3Settings> parse_exl3_settings(const EngineSettings& engine);

// The same, and what the engine refuses of their combination is an error.
Result<Exl3Settings> read_exl3_settings(const EngineSettings& engine);

// Launches of the experts a layer makes for a step of `rows` rows, sliced by the prefill capacity.
struct PrefillSlices {
  i64 launches;
  i64 tail;  // rows of a last, shorter launch; 0 when the capacity divides
};
constexpr PrefillSlices prefill_slices(i64 rows, i64 capacity) {
  if (rows <= 0) return {0, 0};
  if (rows <= capacity) return {1, 0};
  return {ceil_div(rows, capacity), rows % capacity};
}

}  // namespace moeplan
