// The memory of one rank as the engine divides it: what the profile counts costs KV cache, what is allocated
// after it costs the margin. Every row says where it came from; what nothing states stays open, as an
// interval. Source: docs/memory.md sections 5 and 8.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/byte_range.hpp"
#include "planner/core/report.hpp"
#include "planner/core/result.hpp"
#include "planner/deployment/exl3_runtime.hpp"
#include "planner/deployment/kv_cache.hpp"

namespace moeplan {

enum class SourceKind { derived, imported, measured, declared, not_stated };
inline constexpr std::string_view kSourceKindNames[] = {"derived", "imported", "measured", "declared",
                                                        "not stated"};
constexpr std::string_view name_of(SourceKind kind) { return kSourceKindNames[static_cast<int>(kind)]; }

struct BudgetRow {
  std::string name;
  ByteBounds bytes;
  SourceKind kind = SourceKind::derived;
  std::string source;  // formula, config pointer, or what to add
};

// Rows that other planners bring: indexer arenas and folds, for example.
struct BudgetExtras {
  std::vector<BudgetRow> inside_profile;  // allocated while the engine profiles
  std::vector<BudgetRow> after_profile;   // allocated later; worst case of what is alive together
};

struct MemoryBudget {
  std::string rank;  // "" when all ranks are equal
  BudgetRow requested;
  std::vector<BudgetRow> inside;  // taken from `requested` before the KV cache is sized
  BudgetRow available_kv;
  BudgetRow margin;
  std::vector<BudgetRow> after;  // taken from `margin`
  ByteBounds margin_left;
  std::vector<Exl3Runtime> runtimes;  // their parts are rows of `inside`
  bool moe_modelled = false;          // false: the MoE workspace is in no row
  KvCache kv;
  Measured measured;                              // as it holds for this rank
  std::optional<ByteBounds> free_over_requested;  // free memory at start less `requested`

  i64 scratch_bytes() const;  // of all runtimes
};

// The budget of one rank: the deployment's own, or entry `rank` of its list of ranks. Errors point into the
// config.
Result<MemoryBudget> memory_budget(const Deployment& deployment, const BudgetExtras& extras = {});
Result<MemoryBudget> memory_budget_of_rank(const Deployment& deployment, std::size_t rank,
                                           const BudgetExtras& extras = {});

// Measured figures that contradict each other or the plan, beyond the digits they were printed with.
std::vector<Finding> budget_findings(const MemoryBudget& budget);

// One budget a listed rank, or the single one.
Result<std::vector<MemoryBudget>> memory_budgets(const Deployment& deployment,
                                                 const BudgetExtras& extras = {});

// KV blocks between what the available memory can be; none where that end is open.
struct BlockBounds {
  std::optional<i64> lo, hi;
};
BlockBounds kv_blocks(const MemoryBudget& budget);

// The engine gives every rank the fewest blocks any has: index of that rank, by the lower end where known.
std::size_t bottleneck_rank(const std::vector<MemoryBudget>& budgets);

}  // namespace moeplan
