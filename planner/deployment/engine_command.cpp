#include "planner/deployment/engine_command.hpp"

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

std::optional<std::string> number(const std::optional<i64>& value) {
  return value ? std::optional(std::to_string(*value)) : std::nullopt;
}

// Parts per million as a decimal: "0.92".
std::string decimal(i64 ppm) {
  std::string digits = std::to_string(ppm % 1'000'000);
  digits.insert(0, 6 - digits.size(), '0');
  while (digits.size() > 1 && digits.back() == '0') digits.pop_back();
  return concat(ppm / 1'000'000, ".", digits);
}

struct FlagRow {
  std::string_view flag;
  std::optional<std::string> (*value)(const Deployment& d);
};

// One row a flag; `d` has an engine section.
constexpr FlagRow kFlags[] = {
    {"--tensor-parallel-size",
     [](const Deployment& d) { return d.parallel ? number(d.parallel->tp) : std::nullopt; }},
    {"--decode-context-parallel-size",
     [](const Deployment& d) { return d.parallel ? number(d.parallel->dcp) : std::nullopt; }},
    {"--dtype", [](const Deployment& d) { return std::optional(std::string(name_of(d.engine->dtype))); }},
    {"--max-num-batched-tokens",
     [](const Deployment& d) { return number(d.engine->max_num_batched_tokens); }},
    {"--max-num-seqs", [](const Deployment& d) { return number(d.engine->max_num_seqs); }},
    {"--max-model-len", [](const Deployment& d) { return number(d.engine->max_model_len); }},
    {"--gpu-memory-utilization",
     [](const Deployment& d) {
       const auto& ppm = d.engine->gpu_memory_utilization;
       return ppm ? std::optional(decimal(*ppm)) : std::nullopt;
     }},
    {"--kv-cache-dtype",
     [](const Deployment& d) {
       const auto& dtype = d.engine->kv_cache_dtype;
       return dtype ? std::optional(std::string(kKvCacheDtypeNames[static_cast<int>(*dtype)])) : std::nullopt;
     }},
};

}  // namespace

std::vector<EngineSetting> engine_settings(const Deployment& deployment) {
  std::vector<EngineSetting> settings;
  if (!deployment.engine) return settings;
  for (const FlagRow& row : kFlags) {
    if (const auto value = row.value(deployment))
      settings.push_back({EngineSettingKind::flag, std::string(row.flag), *value});
  }
  for (const auto& [name, value] : deployment.engine->env)
    settings.push_back({EngineSettingKind::variable, name, value});
  return settings;
}

}  // namespace moeplan
