// MoeLayout: the answer to a MoeRequest.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "planner/core/arena_layout.hpp"
#include "planner/moe/request.hpp"

namespace moeplan {

enum class Implementation { w4a16, micro, dynamic };
inline constexpr std::string_view kImplementationNames[] = {"w4a16", "micro", "dynamic"};
constexpr std::string_view name_of(Implementation value) {
  return kImplementationNames[static_cast<int>(value)];
}

struct CoreBytes {
  i64 tokens;
  i64 bytes;
};

struct MoeLayout {
  // Written out, because a defaulted one would zero the arena's unused places at every plan.
  MoeLayout() {}

  const Contract* contract = nullptr;
  Implementation implementation = Implementation::w4a16;
  ArenaLayout arena;  // tensors of the route region, then of the core bound at `bound_tokens`

  i64 total_bytes = 0;
  i64 route_bytes = 0;
  i64 core_bytes = 0;                // the most any listed token count needs
  std::vector<CoreBytes> by_tokens;  // core bytes of each listed count, in list order; empty for EP
  i64 bound_tokens = 0;              // the largest listed count: its tensors are the ones handed out
  i64 route_experts = 0;             // R: the expert count of the core's geometry

  // W4A16 only.
  std::optional<WeightLayout> weight_layout;
  ScaleFormat scale_format{};
  W13Layout w13_layout = W13Layout::w13;
  std::optional<i64> route_block_size_m;  // when one block size is fixed
  i64 route_slots = 0;                    // the most slots any block size of the plan needs, at bound_tokens

  // Micro and dynamic only.
  i64 max_tokens_per_launch = 0;
  i64 tile_m = 0;  // dynamic
  i64 tile_n = 0;
};

}  // namespace moeplan
