#include "planner/plan.hpp"

#include "planner/indexer/plan_indexer.hpp"
#include "planner/moe/plan_moe.hpp"

namespace moeplan {
namespace {

using Planner = Result<PlanLayout> (*)(const PlanRequest&);

template <class Layout>
Result<PlanLayout> lift(Result<Layout> layout) {
  if (!layout) return layout.error();
  return PlanLayout(std::in_place_type<Layout>, std::move(*layout));
}

Result<PlanLayout> moe(const PlanRequest& request) { return lift(plan_moe(request.moe)); }

template <Result<IndexerLayout> (*Plan)(const IndexerRequest&)>
Result<PlanLayout> indexer(const PlanRequest& request) {
  return lift(Plan(request.indexer));
}

// Indexed by RequestKind.
constexpr Planner kPlanners[] = {
    moe,                                    // moe_tp
    moe,                                    // moe_ep
    indexer<plan_indexer_paged>,            // indexer_paged
    indexer<plan_indexer_contiguous>,       // indexer_contiguous
    indexer<plan_indexer>,                  // indexer
    indexer<plan_indexer_fused>,            // indexer_fused
    indexer<plan_indexer_persistent_topk>,  // indexer_persistent_topk
    indexer<plan_indexer_fold>,             // indexer_fold
    indexer<plan_indexer_fused_policy>,     // indexer_fused_policy
    indexer<plan_indexer_step>,             // indexer_step
};
static_assert(std::size(kPlanners) == std::size(kRequestKindNames));

}  // namespace

Result<PlanLayout> plan(const PlanRequest& request) {
  return kPlanners[static_cast<int>(request.kind)](request);
}

}  // namespace moeplan
