// IndexerRequest: what an indexer plan is asked for. Plain values; docs/configuration.md says what each
// means.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/core/contract.hpp"
#include "planner/core/device_profile.hpp"
#include "planner/core/dtype.hpp"
#include "planner/core/integer.hpp"
#include "planner/indexer/environment.hpp"

namespace moeplan {

// Each enumeration is followed by its names, in order, as requests spell them.

enum class IndexerMode { decode, prefill };
inline constexpr std::string_view kIndexerModeNames[] = {"decode", "prefill"};

enum class RouteChoice { automatic, paged_fused, paged_tiled, packed_contiguous };
inline constexpr std::string_view kRouteChoiceNames[] = {"auto", "paged_fused", "paged_tiled",
                                                         "packed_contiguous"};

enum class SourceLayout { paged, contiguous };
inline constexpr std::string_view kSourceLayoutNames[] = {"paged", "contiguous"};

// Capacities of an arena, of every kind. Numbers below their floor are raised to it, as the engine does.
struct IndexerCaps {
  std::optional<SourceLayout> source_layout;  // front door only
  std::optional<i64> num_q_heads;
  std::optional<i64> max_q_rows;            // R
  std::optional<i64> max_page_table_width;  // W, in pages
  std::optional<i64> max_k_rows;            // keys
  std::optional<i64> top_k;                 // K
  std::optional<i64> page_size;
  std::optional<i64> paged_tile_logits_k_rows;  // explicit supertile of the paged planner, in tokens
  std::optional<i64> supertile_k;               // of the front door and the contiguous planner
  std::optional<i64> prefill_block_k;
  std::optional<IndexerMode> mode;
  std::optional<bool> shared_page_table;
  std::optional<RouteChoice> route;
  std::optional<std::string> score_mode;  // nsa or msa, in any letter case
  std::optional<i64> num_idx_heads;
  std::optional<DType> k_dtype;
  std::optional<bool> reserve_fold;  // adds the worst-case two-level slab to a paged arena
  // Stand-alone selectors.
  std::optional<i64> max_rows;
  std::optional<i64> max_width;
  std::optional<i64> max_stride;
  // Accepted by the engine without any effect on bytes.
  std::optional<std::string> dtype;
  std::optional<std::string> kv_dtype;
  std::optional<i64> max_batch;
  std::optional<bool> reserve_paged_logits;
  std::optional<i64> paged_logits_k_rows;
};

// Arguments of one call.
struct IndexerArgs {
  std::optional<i64> q_rows;
  std::optional<i64> rows;
  std::optional<i64> width;  // tokens
  std::optional<i64> num_heads;
  std::optional<i64> top_k;
  std::optional<i64> page_size;
  std::optional<i64> page_table_width;
  std::optional<i64> supertile_pages;
  std::optional<i64> num_pages;
  std::optional<bool> shared_page_table;
  std::optional<bool> output_physical_slots;
  std::optional<bool> warm;
  std::optional<bool> real_launch;
  std::optional<IndexerCaps> caps;  // of the plan the call is bound to, over what the call implies
};

// The planners say which members they need; the readers require them.
struct IndexerRequest {
  const Contract* contract = nullptr;
  DeviceProfile device;
  IndexerCaps caps;
  IndexerArgs args;
  Environment env;  // of the planned process
};

}  // namespace moeplan
