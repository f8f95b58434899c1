#include "planner/deployment/indexer_budget.hpp"

#include "planner/core/text.hpp"
#include "planner/deployment/indexer_requests.hpp"
#include "planner/deployment/plan_requests.hpp"
#include "planner/indexer/plan_indexer.hpp"

namespace moeplan {

namespace {

struct PlannedArena {
  PlanRequest request;
  IndexerLayout layout;
};

// The deployment's indexer arenas; none where its engine path is not modelled or its sizes are not stated.
std::vector<PlannedArena> planned_arenas(const Deployment& deployment) {
  std::vector<PlannedArena> arenas;
  if (!check_described(deployment) || !is_exl3(deployment) || !has_indexer(deployment)) return arenas;
  const auto requests = indexer_requests(deployment);
  if (!requests) return arenas;
  for (const PlanRequest& request : *requests) {
    auto layout = plan_indexer_paged(request.indexer);
    if (!layout) return {};
    arenas.push_back({request, std::move(*layout)});
  }
  return arenas;
}

}  // namespace

i64 indexer_arena_bytes_of(const Deployment& deployment) {
  i64 bytes = 0;
  for (const PlannedArena& arena : planned_arenas(deployment)) bytes += arena.layout.total_bytes;
  return bytes;
}

BudgetExtras indexer_budget_extras(const Deployment& deployment) {
  BudgetExtras extras;
  const bool peak_is_measured = deployment.measured && deployment.measured->peak_activation;
  BudgetRow late{.name = "", .bytes = exactly(0), .kind = SourceKind::derived, .source = ""};
  for (const auto& [request, layout] : planned_arenas(deployment)) {
    if (!peak_is_measured)
      extras.inside_profile.push_back({.name = concat(request.id, " arena"),
                                       .bytes = exactly(layout.total_bytes),
                                       .kind = SourceKind::derived,
                                       .source = concat(name_of(layout.route), ": moeplan explain indexer")});
    const auto slab = late_allocation(request, layout);
    if (!slab) return {};
    // A step is either a decode or a prefill: the slabs are never alive together.
    if (slab->bytes <= late.bytes.lo.value_or(0)) continue;
    late = {
        .name = concat(request.id, ": ", slab->what),
        .bytes = exactly(slab->bytes),
        .kind = SourceKind::derived,
        .source = concat("worst case: ", grouped(slab->rows), " rows at ", grouped(slab->tokens), " tokens")};
  }
  if (!late.name.empty()) extras.after_profile.push_back(std::move(late));
  return extras;
}

}  // namespace moeplan
