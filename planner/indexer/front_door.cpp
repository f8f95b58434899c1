// The front door: one request form for both key layouts, handed to the planner of the one it names.
#include "planner/core/text.hpp"
#include "planner/indexer/contiguous.hpp"
#include "planner/indexer/geometry.hpp"
#include "planner/indexer/paged.hpp"
#include "planner/indexer/plan_indexer.hpp"

namespace moeplan {
namespace {

// The paged planner does not know this request's field names.
Error renamed(Error error) {
  if (error.pointer == "/caps/paged_tile_logits_k_rows") error.pointer = "/caps/supertile_k";
  return error;
}

}  // namespace

Result<PagedCaps> front_door_paged_caps(IndexerCaps caps) {
  if (!caps.max_page_table_width) {
    if (!caps.max_k_rows)
      return Error{ErrorCode::indexer_context, "/caps/max_page_table_width",
                   "a paged source needs max_page_table_width or max_k_rows", "add one of them"};
    const i64 page_size = max_of(caps.page_size.value_or(kKernelPageSize), 1);
    caps.max_page_table_width = ceil_div(max_of(*caps.max_k_rows, 1), page_size);
  }
  caps.paged_tile_logits_k_rows = caps.supertile_k;
  return paged_caps(caps);
}

ContiguousCaps front_door_contiguous_caps(const IndexerCaps& caps) {
  ContiguousCaps contiguous = contiguous_caps(caps);
  const i64 supertile = max_of(caps.supertile_k.value_or(0), 0);
  contiguous.supertile_k = supertile > 0 ? supertile : *caps.max_k_rows;
  return contiguous;
}

namespace {

Result<IndexerLayout> plan_paged_source(const IndexerRequest& request) {
  const auto paged = front_door_paged_caps(request.caps);
  if (!paged) return paged.error();
  auto layout = lay_out_paged(request, *paged);
  if (!layout) return renamed(layout.error());
  return layout;
}

Result<IndexerLayout> plan_contiguous_source(const IndexerRequest& request) {
  const IndexerCaps& caps = request.caps;
  if (!caps.max_k_rows)
    return Error{ErrorCode::indexer_context, "/caps/max_k_rows", "a contiguous source needs max_k_rows",
                 "add it"};
  return lay_out_contiguous(request, front_door_contiguous_caps(caps));
}

}  // namespace

Result<IndexerLayout> plan_indexer(const IndexerRequest& request) {
  const IndexerCaps& caps = request.caps;
  MOEPLAN_CHECK(request.contract && caps.source_layout && caps.num_q_heads && caps.max_q_rows && caps.top_k,
                "an indexer request without its sizes");
  return *caps.source_layout == SourceLayout::paged ? plan_paged_source(request)
                                                    : plan_contiguous_source(request);
}

}  // namespace moeplan
