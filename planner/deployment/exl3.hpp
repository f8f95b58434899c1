// vLLM's EXL3 integration: environment variables and engine settings to plan requests.
// Source: docs/contracts.md section 11.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/result.hpp"
#include "planner/deployment/deployment.hpp"
#include "planner/deployment/exl3_settings.hpp"

namespace moeplan {

// Everything that is wrong with a deployment, each mistake on its own. Needs the deployment's model, quant,
// parallel, device and engine sections. Errors point into the config.
std::vector<Error> exl3_errors(const Deployment& deployment);

// What must hold before anything is planned; the settings when it does. Needs the deployment's model, quant,
// parallel, device and engine sections. Errors point into the config.
Result<Exl3Settings> check_exl3_deployment(const Deployment& deployment);

// The decode and prefill plans of the target, and of an EXL3 draft when there is one. A target of mixed bit
// widths has buffers instead of plans: exl3_runtimes has them.
Result<std::vector<PlanRequest>> exl3_requests(const Deployment& deployment);

// The plans of one rank-sliced runtime. Call after the deployment was checked.
std::vector<PlanRequest> exl3_runtime_requests(const Deployment& deployment, const Exl3Settings& settings,
                                               bool is_draft);

// The prefill plan of one tier in the serial form of mixed bit widths: the router's width is all tiers', and
// unlike elsewhere its workspace is part of the arena.
PlanRequest exl3_tier_request(const Deployment& deployment, const Exl3Settings& settings,
                              const QuantTier& tier);

// fc1_tile_k, fc1_tile_n, fc2_tile_k, fc2_tile_n that the integration pins.
std::array<i64, 4> exl3_tile_config(i64 hidden, i64 intermediate);

// Whether the request of that id is a decode plan; the others are prefill plans.
bool is_exl3_decode(std::string_view request_id);

// Where in the config a field of one of those requests comes from.
std::string exl3_config_pointer(std::string_view request_id, std::string_view request_pointer);

}  // namespace moeplan
