// Tensor tables of the indexer: a rule, when the tensor exists, and which routes ever touch it.
#pragma once

#include <span>

#include "planner/core/arena_layout.hpp"
#include "planner/indexer/geometry.hpp"
#include "planner/indexer/layout.hpp"

namespace moeplan {

// Routes by bit.
using RouteSet = unsigned;
constexpr RouteSet route_bit(IndexerRoute route) { return 1u << static_cast<int>(route); }
constexpr RouteSet kFusedRoute = route_bit(IndexerRoute::paged_fused);
constexpr RouteSet kTiledRoute = route_bit(IndexerRoute::paged_tiled);
constexpr RouteSet kPackedRoute = route_bit(IndexerRoute::packed_contiguous);
constexpr RouteSet kContiguousRoute = route_bit(IndexerRoute::contiguous);
constexpr RouteSet kEveryRoute = kFusedRoute | kTiledRoute | kPackedRoute | kContiguousRoute;

template <class Sizes>
struct IndexerTensor {
  TensorRule<Sizes> rule;
  RouteSet touched_by;
  bool (*is_present)(const Sizes&) = nullptr;  // null: always
  Fill (*fill)(const Sizes&) = nullptr;        // null: left as it is
  bool only_carry = false;                     // untouched by a call that folds in two levels
};

// Places the tensors of `table` that are present.
template <class Sizes>
void place_indexer_tensors(ArenaLayout& arena, std::span<const IndexerTensor<Sizes>> table,
                           const Sizes& sizes, const ElementTypes& types) {
  for (const IndexerTensor<Sizes>& tensor : table) {
    if (tensor.is_present && !tensor.is_present(sizes)) continue;
    place(arena, tensor.rule, sizes, types, Region::whole, kIndexerAlignment);
    if (tensor.fill) arena.tensors[arena.tensors.size() - 1].fill = tensor.fill(sizes);
  }
}

// The whole arena: never empty, and a multiple of the alignment.
constexpr i64 indexer_arena_bytes(i64 end) {
  return max_of(align_up(end, kIndexerAlignment), kIndexerAlignment);
}

}  // namespace moeplan
