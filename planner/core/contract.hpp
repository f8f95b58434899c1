// Layout contracts: what one released planner reserves, as rows of data. A released row is never edited; a
// planner that reserves something else gets a new row. Sources and differences: docs/contracts.md.
#pragma once

#include <span>
#include <string_view>

#include "planner/core/integer.hpp"

namespace moeplan {

// Checkpoint formats, and their names as requests spell them.
enum class SourceFormat {
  modelopt_nvfp4,
  fp4_e8m0_k32,
  compressed_tensors,
  mxfp6_e2m3,
  exl3_trellis_mcg,
  btx,
};
inline constexpr std::string_view kSourceFormatNames[] = {
    "modelopt_nvfp4", "fp4_e8m0_k32", "compressed_tensors", "mxfp6_e2m3", "exl3_trellis_mcg", "btx"};
constexpr std::string_view name_of(SourceFormat source) {
  return kSourceFormatNames[static_cast<int>(source)];
}

// Block sizes an unpinned plan reserves for.
enum class UnpinnedBlocks {
  all,        // every block size
  reachable,  // from the size one token selects to the size the capacity selects
  last,       // the size the capacity selects, alone: no release does
};
inline constexpr std::string_view kUnpinnedBlocksNames[] = {"all", "reachable", "last"};

// The expert count the route geometry uses, from the router's (rE) and the weights' (E). rE absent or zero is
// E.
enum class RouteExperts {
  router,         // rE
  weights,        // E
  larger_of_both  // max(E, rE)
};

// Tensors of a W4A16 core; their sizes are in planner/moe/w4a16.cpp.
enum class CoreTensor {
  intermediate_cache13,
  intermediate_cache2,
  fc1_c_tmp,
  fc2_c_tmp,
  packed_route_indices,
  block_expert_ids,
  packed_route_count,
  expert_offsets,
  expert_counts,
  full_rotation_output,
  rotation_a_gate,
  rotation_a_up,
  expert_rows,
  kernel_workspace,
};

// What a launch does whose kernel is not compiled while a graph is captured.
enum class CaptureMiss {
  compiles,  // inside the capture: seconds, or a failed capture
  raises,    // refuses the launch with its m and block
  unknown,   // between the revisions that are known to do either
};

// lean_prefill: planner/moe/lean_geometry.hpp tells lean plans for decoding from others.
enum class Presence { always, trellis, trellis_uncoupled, lean_prefill };

struct CoreTensorEntry {
  CoreTensor tensor;
  Presence present;
};

struct Contract {
  std::string_view id;
  std::string_view environment_prefix;  // of the variables this build reads

  UnpinnedBlocks unpinned_blocks;
  RouteExperts trellis_route_experts;
  RouteExperts other_route_experts;  // packed and native layouts
  bool direct_top_k_scratch;         // packed plans reserve for the direct top-k kernel
  bool per_call_direct_slots;        // the per-call helper does too

  SourceFormat trellis_source;
  std::string_view trellis_layout_name;
  i64 trellis_min_bits;
  bool trellis_settings;          // codebooks, rate structures and coupled Hadamard exist
  bool trellis_unpinned_is_one;   // an unpinned Trellis request resolves to one block size
  bool trellis_launch_needs_pin;  // launch planning refuses an unpinned Trellis plan on a CUDA device
  bool trellis_w4a8_mx;           // w4a8_mx takes Trellis weights
  bool w4a8_mx_micro_reduction;   // the micro workspace holds w4a8_mx's extra reduction

  // What the runtime of this build does with live tokens.
  bool mapped_direct_top_k;         // an expert map does not rule the direct top-k kernel out
  bool tensor_parallel_expert_map;  // a tensor-parallel launch may be given an expert map
  bool launch_takes_pin;            // a launch runs the plan's tiles, not ones selected from its own size
  bool launch_key_known;            // the elements of its launch keys were read off running engines
  CaptureMiss capture_miss;

  // No engine's: moeplan's own executor runs these plans, with blocks and slices of its own. Homogeneous
  // Trellis plans of tensor-parallel ranks, silu.
  bool lean_executor;

  std::span<const CoreTensorEntry> core_tensors;             // tensor-parallel, in arena order
  std::span<const CoreTensorEntry> expert_parallel_tensors;  // in arena order
};

// All contracts, oldest first.
std::span<const Contract> contracts();

// The contract of that id, or null.
const Contract* find_contract(std::string_view id);

}  // namespace moeplan
