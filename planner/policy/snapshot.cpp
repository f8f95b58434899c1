#include "planner/policy/snapshot.hpp"

#include <algorithm>

#include "planner/deployment/indexer_budget.hpp"
#include "planner/deployment/memory_budget.hpp"

namespace moeplan {
namespace {

// Staging is no arena of a plan: listed, and part of runtime_bytes alone.
void add_staging(Snapshot& snapshot, const MemoryBudget& budget) {
  for (const Exl3Runtime& runtime : budget.runtimes) {
    for (const RuntimePart& part : runtime.parts) {
      if (part.kind != PartKind::parity_staging) continue;
      SnapshotArena arena{part.name, false, part.bytes, {}, {}};
      for (const Buffer& buffer : part.buffers)
        arena.tensors.push_back({std::string(buffer.name), buffer.bytes});
      snapshot.arenas.push_back(std::move(arena));
    }
  }
}

// Kernels of the one-grid form: one a state, compiled for it.
i64 mixed_kernels(const Deployment& deployment) {
  if (!deployment.engine || !is_exl3(deployment)) return 0;
  const auto runtimes = exl3_runtimes(deployment);
  if (!runtimes) return 0;
  return std::ranges::count(runtimes->front().parts, PartKind::mixed_state, &RuntimePart::kind);
}

void add_kv_figures(Snapshot& snapshot, const Deployment& deployment) {
  const auto budgets = memory_budgets(deployment, indexer_budget_extras(deployment));
  if (!budgets) return;
  const MemoryBudget& worst = (*budgets)[bottleneck_rank(*budgets)];
  snapshot.kv_bytes_per_token = worst.kv.bytes_per_token();
  snapshot.kv_dcp = worst.kv.dcp;
  if (worst.moe_modelled) {
    for (const MemoryBudget& budget : *budgets)
      snapshot.runtime_bytes = max_of(snapshot.runtime_bytes.value_or(0), budget.scratch_bytes());
    add_staging(snapshot, worst);
  }
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
  LaunchTotals totals = totals_of(launches);
  totals.keys += mixed_kernels(deployment);
  if (totals.keys == 0) return;
  snapshot.launch_keys = totals.keys;
  snapshot.cold_keys = totals.cold_keys;
  for (const PlanLaunches& plan : launches) {
    const auto arena = std::ranges::find(snapshot.arenas, plan.id, &SnapshotArena::id);
    if (arena != snapshot.arenas.end() && !plan.failure) arena->cold_keys = coverage_of(plan.runs).cold_keys;
  }
}

}  // namespace

SnapshotArena arena_of(const std::string& id, bool is_indexer, const ArenaLayout& arena, i64 total_bytes) {
  SnapshotArena out{id, is_indexer, total_bytes, {}, {}};
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
