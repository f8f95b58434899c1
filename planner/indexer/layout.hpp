// IndexerLayout: the answer to an IndexerRequest, of whatever kind.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "planner/core/arena_layout.hpp"
#include "planner/core/contract.hpp"

namespace moeplan {

// How a plan or a call works.
enum class IndexerRoute {
  paged_fused,
  paged_tiled,
  packed_contiguous,
  contiguous,
  fused_standalone,
  persistent_topk,
  two_level,
  carry,
  not_fused,
};
inline constexpr std::string_view kIndexerRouteNames[] = {"paged_fused",
                                                          "paged_tiled",
                                                          "packed_contiguous",
                                                          "contiguous",
                                                          "fused_indexer_standalone",
                                                          "persistent_topk2048",
                                                          "two_level",
                                                          "carry",
                                                          "not_fused"};
constexpr std::string_view name_of(IndexerRoute route) { return kIndexerRouteNames[static_cast<int>(route)]; }

// What each kind says besides its tensors.

struct PagedMeta {
  i64 supertile_tokens;
  i64 max_chunks;
  std::optional<i64> prefill_block_k;  // packed_contiguous only
  i64 tile_logits_elements;
  i64 gather_k_rows;
  i64 fused_pack_elements;
  i64 fused_state_words;
};

struct ContiguousMeta {
  i64 max_k_rows;  // rounded up
  i64 max_chunk_tiles;
  i64 tile_logits_elements;
};

struct FusedMeta {
  i64 workspace_bytes;
};

struct PersistentTopkMeta {
  i64 scratch_bytes;
};

// Slices of one supertile chunk, and how many slices stand before them.
struct FoldChunk {
  i64 slices;
  i64 base;
};

struct FoldMeta {
  std::vector<FoldChunk> chunks;  // two_level only
  i64 total_slices;               // S_f, likewise
  i64 candidate_bytes;
  i64 budget_bytes;
  std::string_view reason;
};

struct FusedPolicyMeta {
  bool resolved;
  i64 head_tiles;
  i64 ctas_per_group;
  i64 merge_threshold;
  i64 pack_elements;
  i64 state_words;
  i64 pack_need;
};

// A device allocation that a call makes.
struct Allocation {
  DType dtype;
  Shape shape;
  i64 bytes;
  std::optional<i64> fill;  // none: left uninitialised
};

struct EnvReads {
  std::string variable;  // full name
  i64 reads;
};

struct StepMeta {
  i64 num_chunks;
  i64 supertile_tokens;
  std::vector<std::string_view> launches;
  std::vector<Allocation> allocations;
  std::vector<EnvReads> env_reads;
};

struct IndexerLayout {
  const Contract* contract = nullptr;
  IndexerRoute route{};
  std::string route_reason;  // the rule that chose the route, for people
  i64 total_bytes = 0;
  ArenaLayout arena;
  std::variant<PagedMeta, ContiguousMeta, FusedMeta, PersistentTopkMeta, FoldMeta, FusedPolicyMeta, StepMeta>
      meta;
};

}  // namespace moeplan
