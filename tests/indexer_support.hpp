// Indexer requests of the tests; change what the case is about.
#pragma once

#include <initializer_list>
#include <string>

#include "planner/indexer/plan_indexer.hpp"

namespace moeplan::test {

inline IndexerRequest indexer_request(const char* contract = "sparkinfer-de04125") {
  IndexerRequest request;
  request.contract = find_contract(contract);
  request.device = {188, "12.0", DeviceType::cuda};
  return request;
}

// GLM-5.2's indexer: 32 heads, top-k 2048.
inline IndexerRequest glm_paged(i64 rows, i64 pages) {
  IndexerRequest request = indexer_request();
  request.caps.num_q_heads = 32;
  request.caps.max_q_rows = rows;
  request.caps.max_page_table_width = pages;
  request.caps.top_k = 2048;
  return request;
}

inline IndexerRequest glm_prefill(i64 rows, i64 pages) {
  IndexerRequest request = glm_paged(rows, pages);
  request.caps.mode = IndexerMode::prefill;
  request.caps.shared_page_table = true;
  return request;
}

inline IndexerRequest glm_step(i64 rows, i64 pages) {
  IndexerRequest request = indexer_request();
  request.args.rows = rows;
  request.args.num_heads = 32;
  request.args.top_k = 2048;
  request.args.page_table_width = pages;
  return request;
}

inline const TensorSpec* find_tensor(const IndexerLayout& layout, std::string_view name) {
  for (const TensorSpec& tensor : layout.arena.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

inline const PagedMeta& paged_meta(const IndexerLayout& layout) { return std::get<PagedMeta>(layout.meta); }

}  // namespace moeplan::test
