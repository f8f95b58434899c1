// The launch policy of the fused kernel: computed for any shape, whether or not fused may serve it.
#include "planner/core/text.hpp"
#include "planner/indexer/device.hpp"
#include "planner/indexer/geometry.hpp"
#include "planner/indexer/plan_indexer.hpp"
#include "planner/indexer/route.hpp"

namespace moeplan {

Result<IndexerLayout> plan_indexer_fused_policy(const IndexerRequest& request) {
  const IndexerArgs& args = request.args;
  MOEPLAN_CHECK(request.contract && args.rows && args.width && args.num_heads && args.top_k,
                "a fused policy request without its sizes");
  if (*args.rows < 1)
    return Error{ErrorCode::not_positive, "/args/rows", concat("rows must be positive, got ", *args.rows),
                 ""};
  // Off CUDA too: the policy divides the multiprocessors it is told about.
  const auto multiprocessors = stated_multiprocessors(request.device);
  if (!multiprocessors) return multiprocessors.error();

  const FusedShape shape{
      .rows = *args.rows, .width_tokens = *args.width, .heads = *args.num_heads, .top_k = *args.top_k};
  const IndexerEnvironment env(request.contract->environment_prefix, request.env);
  auto fused = fused_availability(shape, request.device, env);
  const i64 ctas = fused_ctas_per_group(shape.width_tokens, shape.rows, *multiprocessors);

  IndexerLayout layout;
  layout.contract = request.contract;
  layout.route = fused.available ? IndexerRoute::paged_fused : IndexerRoute::not_fused;
  layout.route_reason = std::move(fused.rule);
  layout.meta = FusedPolicyMeta{.resolved = fused.available,
                                .head_tiles = head_tiles(shape.heads),
                                .ctas_per_group = ctas,
                                .merge_threshold = fused_merge_threshold(ctas, shape.top_k, shape.heads),
                                .pack_elements = *multiprocessors * shape.top_k,
                                .state_words = shape.rows * kMergeStateWords,
                                .pack_need = shape.rows * ctas * shape.top_k};
  return layout;
}

}  // namespace moeplan
