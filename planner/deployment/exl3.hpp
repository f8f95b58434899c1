// vLLM's EXL3 integration: environment variables and engine settings to plan requests.
// Source: docs/contracts.md section 11.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "planner/core/result.hpp"
#include "planner/deployment/deployment.hpp"

namespace moeplan {

// The variables that decide plans, with their defaults applied and their texts validated.
struct Exl3Settings {
  i64 decode_tokens = 0;  // VLLM_EXL3_TRELLIS_MAX_M
  i64 decode_block = 0;   // VLLM_EXL3_TRELLIS_BLOCK_M
  bool prefill_enabled = false;
  i64 prefill_tokens = 0;  // VLLM_EXL3_PREFILL_CAPACITY
  i64 prefill_block = 0;   // VLLM_EXL3_PREFILL_BLOCK_M
};

// One EXL3 variable the integration knows.
struct Exl3Variable {
  std::string_view name;
  std::string_view meaning;
};
std::span<const Exl3Variable> exl3_variables();

// Errors point into the config.
Result<Exl3Settings> read_exl3_settings(const EngineSettings& engine);

// The decode and prefill plans of the target, and of an EXL3 draft when there is one. Needs the deployment's
// model, quant, parallel, device and engine sections. Errors point into the config.
Result<std::vector<PlanRequest>> exl3_requests(const Deployment& deployment);

// Where in the config a field of one of those requests comes from.
std::string exl3_config_pointer(std::string_view request_id, std::string_view request_pointer);

}  // namespace moeplan
