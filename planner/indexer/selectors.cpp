// The stand-alone selectors: one opaque buffer each, not rounded, not part of any arena.
#include "planner/core/text.hpp"
#include "planner/indexer/device.hpp"
#include "planner/indexer/geometry.hpp"
#include "planner/indexer/plan_indexer.hpp"

namespace moeplan {
namespace {

IndexerLayout one_buffer(const IndexerRequest& request, IndexerRoute route, std::string_view name,
                         std::string_view formula, i64 bytes) {
  IndexerLayout layout;
  layout.contract = request.contract;
  layout.route = route;
  layout.route_reason = "stand-alone selector";
  layout.total_bytes = bytes;
  layout.arena.tensors.push_back(TensorSpec{.name = name,
                                            .formula = formula,
                                            .dtype = DType::uint8,
                                            .region = Region::whole,
                                            .bound = Bound::none,
                                            .shape = shape(bytes),
                                            .offset = 0,
                                            .bytes = bytes});
  layout.arena.end = bytes;
  return layout;
}

// Groups of thread blocks, each with four words of state and candidates of every block.
i64 fused_workspace_bytes(i64 rows, i64 width, i64 top_k, i64 multiprocessors) {
  constexpr i64 kBlockKeys = 8192;
  const i64 blocks = max_of(1, ceil_div(width, kBlockKeys));
  const i64 groups = min_of(rows, max_of(1, multiprocessors / blocks));
  return groups * 16 + groups * blocks * top_k * 8;
}

}  // namespace

Result<IndexerLayout> plan_indexer_fused(const IndexerRequest& request) {
  const IndexerCaps& caps = request.caps;
  MOEPLAN_CHECK(request.contract && caps.max_rows && caps.max_width && caps.top_k,
                "a fused selector request without its sizes");
  constexpr i64 kWidestSingle = 20480;
  const i64 top_k = *caps.top_k;
  if (top_k != 512 && top_k != 1024 && top_k != 2048)
    return Error{ErrorCode::indexer_top_k, "/caps/top_k",
                 concat("the fused selector takes top_k 512, 1024 or 2048, got ", top_k), ""};
  const i64 rows = max_of(*caps.max_rows, 1);
  const i64 width = max_of(*caps.max_width, 1);
  i64 bytes = rows * (16 + 8 * top_k);
  if (is_cuda(request.device)) {
    const auto multiprocessors = stated_multiprocessors(request.device);
    if (!multiprocessors) return multiprocessors.error();
    // Fewer blocks a group leave room for more groups, so a narrower call can need more than the widest.
    bytes = max_of(fused_workspace_bytes(rows, 1, top_k, *multiprocessors),
                   fused_workspace_bytes(rows, width, top_k, *multiprocessors));
    if (width > kWidestSingle)
      bytes = max_of(bytes, fused_workspace_bytes(rows, kWidestSingle + 1, top_k, *multiprocessors));
  }
  IndexerLayout layout = one_buffer(request, IndexerRoute::fused_standalone, "fused_indexer.state",
                                    "max over widths of groups*(16+blocks*K*8)", bytes);
  layout.meta = FusedMeta{bytes};
  return layout;
}

Result<IndexerLayout> plan_indexer_persistent_topk(const IndexerRequest& request) {
  MOEPLAN_CHECK(request.contract && request.caps.max_rows, "a persistent selector request without its rows");
  i64 groups = max_of(*request.caps.max_rows, 1);
  if (is_cuda(request.device)) {
    const auto multiprocessors = stated_multiprocessors(request.device);
    if (!multiprocessors) return multiprocessors.error();
    groups = min_of(groups, *multiprocessors);
  }
  const i64 bytes = groups * kMergeStateWords * 4;
  IndexerLayout layout = one_buffer(request, IndexerRoute::persistent_topk, "persistent_topk2048.state",
                                    "min(rows,sms)*772*4", bytes);
  layout.meta = PersistentTopkMeta{bytes};
  return layout;
}

}  // namespace moeplan
