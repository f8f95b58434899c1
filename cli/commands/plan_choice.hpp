// What commands about single MoE plans share: --plan, and what bytes are worth in KV tokens.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/report.hpp"
#include "planner/deployment/deployed_plans.hpp"
#include "planner/deployment/kv_cache.hpp"

namespace moeplan {

// Whether the plan is meant by --plan; "" means all.
bool is_chosen(std::string_view plan_id, const std::string& choice);

// The error where no plan is meant: it names those there are.
Status check_choice(const std::vector<DeployedPlan>& plans, const std::string& choice);

// The KV cache of the deployment, where it follows from what is stated.
std::optional<KvCache> stated_kv_cache(const Deployment& deployment);

// The tokens that many bytes of a rank are worth; an empty cell without a cache.
Cell kv_tokens_cell(const std::optional<KvCache>& cache, i64 bytes);

}  // namespace moeplan
