// What commands about single plans share: --plan, and what bytes are worth in KV tokens.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/finish.hpp"
#include "planner/deployment/deployed_plans.hpp"
#include "planner/deployment/kv_cache.hpp"

namespace moeplan {

// Whether the plan is meant by --plan; "" means all.
bool is_chosen(std::string_view plan_id, const std::string& choice);

// Which plans a command is about: --plan has to name one of them.
enum class PlanScope {
  moe,
  kernels,  // and the paged indexer plans: those that kernels of ours may run
};

// What an error without a place in a config says of the run: of the machine, of an input beside the configs,
// or of the command line.
ExitCode exit_code_of(ErrorCode code);
// Whether it says that there is nothing here to run kernels on.
bool is_unavailable(const Error& error);

// Answers each config with a report about its plans. An unknown --plan, and an error of `report` without a
// pointer, is a mistake of the command line.
ExitCode answer_plans(
    const ConfigOptions& options, const std::string& choice, PlanScope scope,
    const std::function<Result<Report>(const PlannedConfig&, const std::vector<DeployedPlan>&)>& report);

// The KV cache of the deployment, where it follows from what is stated.
std::optional<KvCache> stated_kv_cache(const Deployment& deployment);

// The tokens that many bytes of a rank are worth; an empty cell without a cache.
Cell kv_tokens_cell(const std::optional<KvCache>& cache, i64 bytes);

}  // namespace moeplan
