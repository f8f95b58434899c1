// The key under which the engine keeps a compiled fused-MoE kernel, computed from a plan and a number of live
// tokens: equal keys share a kernel, a key seen for the first time compiles one. Homogeneous Trellis plans.
// Source: docs/launches.md sections 1 to 4.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "planner/launch/tile_selection.hpp"
#include "planner/moe/layout.hpp"

namespace moeplan {

// What all launches of one plan have in common.
struct LaunchPlan {
  const Contract* contract = nullptr;
  i64 hidden = 0;         // H
  i64 intermediate = 0;   // I, of this rank
  i64 experts = 0;        // E, of this rank's weights
  i64 route_experts = 0;  // R: what the route geometry counts
  i64 top_k = 0;
  i64 bits = 0;
  DType io_dtype{};
  i64 capacity = 0;             // tokens
  i64 arena_slots = 0;          // elements of packed_route_indices
  i64 arena_blocks = 0;         // elements of block_expert_ids
  std::array<i64, 4> pin = {};  // fc1_tile_k, fc1_tile_n, fc2_tile_k, fc2_tile_n
  TileContext tiles = {};
  bool operator==(const LaunchPlan&) const = default;

  // FC1: N = 2I columns of the gate and up halves; FC2: a row a route.
  GemmShape fc1(i64 tokens) const { return {tokens, 2 * intermediate, hidden, top_k}; }
  GemmShape fc2(i64 tokens) const { return {tokens * top_k, hidden, intermediate, 1}; }
};

// The plan of a Trellis request and its layout on a device whose blocks may opt in to `shared_memory` bytes.
// Errors point into the request: not a homogeneous silu Trellis plan, or no block size is fixed.
Result<LaunchPlan> launch_plan(const MoeRequest& request, const MoeLayout& layout, i64 shared_memory);

// Blocks that the route packer is given for `tokens` live tokens: those of their power-of-two bucket when the
// arena holds it, else of exactly these tokens.
i64 max_m_blocks(const LaunchPlan& plan, i64 tokens);
bool bucket_fits(const LaunchPlan& plan, i64 tokens);

// One GEMM's part of a key: what varies between launches of all plans.
struct GemmKey {
  i64 size_n, size_k, experts, top_k;
  Tile tile;
  i64 block, bits;
  bool single_token;
  i64 summed_routes;  // routes a token that its epilogue may sum: top-k behind FC2, 1 behind FC1
  i64 max_m_blocks, shared_words, blocks_per_sm;
  auto operator<=>(const GemmKey&) const = default;
};

struct LaunchKey {
  i64 hidden, intermediate, experts, top_k, bits;
  DType io_dtype;
  GemmKey fc1, fc2;
  i64 multiprocessors;
  i64 shared_words, blocks_per_sm;
  auto operator<=>(const LaunchKey&) const = default;

  i64 max_m_blocks() const { return fc1.max_m_blocks; }
  LaunchKey with_max_m_blocks(i64 blocks) const {
    LaunchKey key = *this;
    key.fc1.max_m_blocks = key.fc2.max_m_blocks = blocks;
    return key;
  }
};

// The key that a launch of `tokens` live tokens probes at run time, 1 <= tokens <= capacity. Error: the
// launch is refused.
Result<LaunchKey> launch_key(const LaunchPlan& plan, i64 tokens);

// The distinct keys compiled when the plan is made: of every token count of a small capacity, else of the
// capacity alone. Error: planning the launch fails, so the engine does not
// start.
Result<std::vector<LaunchKey>> prewarmed_keys(const LaunchPlan& plan);

// A key's elements in the order the engine keeps and logs them.
struct WholeFloat {
  i64 value;  // printed with ".0"
};
struct KeyElement;
using KeyElements = std::vector<KeyElement>;
struct KeyElement {
  std::string_view name;
  std::variant<bool, i64, WholeFloat, std::string_view, KeyElements> value;
};
KeyElements elements_of(const LaunchKey& key);

// A single element as an engine logs it: 6144, 0.0, true, "silu"; "" for a nested key.
std::string value_text(const KeyElement& element);

// Elements in which two keys differ, each as "fc1.max_m_blocks 268, not 636".
std::vector<std::string> key_differences(const LaunchKey& key, const LaunchKey& other);

}  // namespace moeplan
