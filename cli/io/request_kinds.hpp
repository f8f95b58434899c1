// Sets of request kinds, as bits: which fields a kind has.
#pragma once

#include <cstdint>

#include "planner/plan_request.hpp"

namespace moeplan {

template <class... Kinds>
constexpr std::uint32_t kinds(Kinds... kind) {
  return ((1u << static_cast<int>(kind)) | ...);
}

constexpr std::uint32_t kTensorParallel = kinds(RequestKind::moe_tp);
constexpr std::uint32_t kExpertParallel = kinds(RequestKind::moe_ep);
constexpr std::uint32_t kMoe = kTensorParallel | kExpertParallel;

constexpr std::uint32_t kPagedArena = kinds(RequestKind::indexer_paged);
constexpr std::uint32_t kContiguousArena = kinds(RequestKind::indexer_contiguous);
constexpr std::uint32_t kFrontDoor = kinds(RequestKind::indexer);
constexpr std::uint32_t kFusedSelector = kinds(RequestKind::indexer_fused);
constexpr std::uint32_t kPersistentSelector = kinds(RequestKind::indexer_persistent_topk);
constexpr std::uint32_t kFoldCall = kinds(RequestKind::indexer_fold);
constexpr std::uint32_t kFusedPolicyCall = kinds(RequestKind::indexer_fused_policy);
constexpr std::uint32_t kStepCall = kinds(RequestKind::indexer_step);

constexpr std::uint32_t kIndexerArenas =
    kPagedArena | kContiguousArena | kFrontDoor | kFusedSelector | kPersistentSelector;
constexpr std::uint32_t kIndexerCalls = kFoldCall | kFusedPolicyCall | kStepCall;
constexpr std::uint32_t kIndexer = kIndexerArenas | kIndexerCalls;

// Kinds that say what device they are for; a fold needs none.
constexpr std::uint32_t kNeedsDevice = kMoe | (kIndexer & ~kFoldCall);

}  // namespace moeplan
