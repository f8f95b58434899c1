// Rules for an EXL3 deployment: what the engine refuses at start or breaks later, one row each.
// Source: docs/memory.md section 7.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "planner/core/report.hpp"
#include "planner/deployment/exl3_settings.hpp"

namespace moeplan {

struct Exl3Rule {
  std::string_view id;
  std::string_view promise;  // what holds when the rule is silent
};
std::span<const Exl3Rule> exl3_rules();

// Every rule over a deployment with model, quant, parallel, device and engine, in table order. Settings that
// cannot be parsed give no findings: reading them reports the error.
std::vector<Finding> exl3_findings(const Deployment& deployment);

// The first rule whose breach stops the engine at start, judged by the engine section alone.
std::optional<Finding> exl3_refusal(const Exl3Settings& settings, const EngineSettings& engine);

}  // namespace moeplan
