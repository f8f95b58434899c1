#include "planner/policy/snapshot.hpp"

#include "planner/deployment/indexer_budget.hpp"
#include "planner/deployment/memory_budget.hpp"

namespace moeplan {
namespace {

void add_kv_figures(Snapshot& snapshot, const Deployment& deployment) {
  const auto budgets = memory_budgets(deployment, indexer_budget_extras(deployment));
  if (!budgets) return;
  const MemoryBudget& worst = (*budgets)[bottleneck_rank(*budgets)];
  snapshot.kv_bytes_per_token = worst.kv.bytes_per_token();
  snapshot.kv_dcp = worst.kv.dcp;
  const auto blocks = kv_blocks(worst).lo;
  if (!blocks) return;
  const i64 longest = deployment.engine->max_model_len.value_or(worst.kv.request_tokens_per_block());
  snapshot.kv_tokens = kv_tokens(worst.kv, *blocks, longest);
}

void add_launch_figures(Snapshot& snapshot, const Deployment& deployment) {
  if (!deployment.device || !deployment.device->shared_memory_per_block_optin) return;
  const auto plans = deployed_plans(deployment);
  if (!plans) return;
  const auto launches = launches_of(stepped(*plans), *deployment.device->shared_memory_per_block_optin);
  const LaunchTotals totals = totals_of(launches);
  if (totals.keys == 0) return;
  snapshot.launch_keys = totals.keys;
  snapshot.cold_keys = totals.cold_keys;
}

}  // namespace

SnapshotArena arena_of(const std::string& id, const ArenaLayout& arena, i64 total_bytes) {
  SnapshotArena out{id, total_bytes, {}};
  for (const TensorSpec& tensor : arena.tensors)
    out.tensors.push_back({std::string(tensor.name), tensor.bytes});
  return out;
}

std::optional<i64> tokens_worth(const Snapshot& snapshot, i64 bytes) {
  if (!snapshot.kv_bytes_per_token) return std::nullopt;
  KvCache cache;
  cache.declared_token_bytes = *snapshot.kv_bytes_per_token;
  cache.dcp = snapshot.kv_dcp.value_or(1);
  return tokens_of_bytes(cache, bytes);
}

void add_deployment_figures(Snapshot& snapshot, const Deployment& deployment) {
  if (check_described(deployment)) add_kv_figures(snapshot, deployment);
  add_launch_figures(snapshot, deployment);
}

}  // namespace moeplan
