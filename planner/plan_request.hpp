// PlanRequest: one arena or call that is asked about, of whatever kind.
#pragma once

#include <string>
#include <string_view>

#include "planner/indexer/request.hpp"
#include "planner/moe/request.hpp"

namespace moeplan {

enum class RequestKind {
  moe_tp,
  moe_ep,
  indexer_paged,
  indexer_contiguous,
  indexer,
  indexer_fused,
  indexer_persistent_topk,
  indexer_fold,
  indexer_fused_policy,
  indexer_step,
};
inline constexpr std::string_view kRequestKindNames[] = {"moe_tp",
                                                         "moe_ep",
                                                         "indexer_paged",
                                                         "indexer_contiguous",
                                                         "indexer",
                                                         "indexer_fused",
                                                         "indexer_persistent_topk",
                                                         "indexer_fold",
                                                         "indexer_fused_policy",
                                                         "indexer_step"};
constexpr std::string_view name_of(RequestKind kind) { return kRequestKindNames[static_cast<int>(kind)]; }
constexpr bool is_moe(RequestKind kind) { return kind <= RequestKind::moe_ep; }

struct PlanRequest {
  std::string id;
  RequestKind kind = RequestKind::moe_tp;
  MoeRequest moe;          // moe kinds
  IndexerRequest indexer;  // indexer kinds
};

}  // namespace moeplan
