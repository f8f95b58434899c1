#include "runtime/bench/indexer_shape.hpp"

#include <utility>

#include "planner/core/text.hpp"
#include "planner/indexer/plan_indexer.hpp"
#include "runtime/planned_kernels.hpp"

namespace moeplan {
namespace {

constexpr i64 kTimesOfCache = 4;  // what the calls of a replay read
constexpr i64 kMostCalls = 160;

}  // namespace

std::string tokens_text(i64 tokens) {
  return tokens % 1024 == 0 ? concat(tokens / 1024, "k") : std::to_string(tokens);
}

std::string name_of(const IndexerShape& shape) {
  return concat(
      shape.is_prefill ? "prefill " : "", shape.heads, " heads ", shape.rows, "x", tokens_text(shape.context),
      !shape.is_prefill && shape.rows_per_request > 1 ? concat(" groups of ", shape.rows_per_request)
                                                      : std::string());
}

i64 floor_bytes(const IndexerShape& shape) {
  return shape.context * (shape.requests() * kFloorRequestBytes + shape.rows * kFloorRowBytes);
}

i64 calls_of(const IndexerShape& shape, i64 l2_bytes) {
  const i64 keys = shape.requests() * shape.context * kFloorRequestBytes;
  const i64 queries = query_bytes(shape);
  return max_of(min_of(ceil_div(kTimesOfCache * l2_bytes, keys + queries), kMostCalls), 1);
}

IndexerRequest request_of(const IndexerShape& shape, const Contract& contract) {
  IndexerRequest request;
  request.contract = &contract;
  request.device = {1, "12.0", DeviceType::cuda};
  request.caps.num_q_heads = shape.heads;
  request.caps.max_q_rows = shape.rows;
  request.caps.max_page_table_width = shape.context / kKernelPageSize;
  request.caps.top_k = shape.top_k;
  if (shape.is_prefill) {
    request.caps.mode = IndexerMode::prefill;
    request.caps.shared_page_table = true;
  }
  return request;
}

Result<IndexerCase> indexer_case(const IndexerShape& shape, std::string plan_id, IndexerRequest request,
                                 i64 multiprocessors) {
  request.device.sm_count = multiprocessors;
  auto layout = plan_indexer_paged(request);
  if (!layout) return layout.error();
  if (std::string missing = planned_kernels(request, *layout).missing; !missing.empty())
    return Error{ErrorCode::no_kernels, "", std::move(missing), "time a shape that they run"};
  const IndexerPlan plan = indexer_plan(request, *layout, multiprocessors);
  return IndexerCase{shape, std::move(plan_id), std::move(*layout), plan};
}

}  // namespace moeplan
