// Which kernels a Trellis plan launches, and each launch's grid and arguments. Pure functions: addresses go
// in and come out as numbers, nothing is asked of a device.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/moe/arguments.hpp"
#include "planner/moe/kernel_geometry.hpp"
#include "planner/moe/layout.hpp"
#include "runtime/moe/kernel_launch.hpp"
#include "runtime/moe/trellis_layer_plan.hpp"

namespace moeplan {

struct TrellisPlan : TrellisLayerPlan {
  // No launch has larger route blocks than of 8 rows. Such plans have a kernel of their own, whose sums over
  // K are in another order: within a plan a row's bytes are the same for all live token counts.
  bool is_narrow = false;
};

// Why our kernels do not run the plan; "": they do.
std::string missing_trellis_kernels(const MoeRequest& request, const MoeLayout& layout);

// Of a request and its layout whose kernels are not missing.
TrellisPlan trellis_plan(const MoeRequest& request, const MoeLayout& layout);

// Elements of each tensor that the kernels of a launch of `tokens` write at most, by their own reckoning: no
// split-K scratch.
CoreElements kernel_need(const TrellisPlan& plan, i64 tokens, bool has_map);

// Every kernel that a launch of any live token count can need: the plan's route blocks, both types of ids.
std::vector<KernelVariant> trellis_variants(const TrellisPlan& plan);

// The tensors of the plan, wherever its arena lies.
struct TrellisTensors {
  int* packed_route_indices;
  int* block_expert_ids;
  int* packed_route_count;
  int* expert_offsets;
  int* expert_counts;
  HalfBits* rotation_a_gate;
  HalfBits* rotation_a_up;
  HalfBits* intermediate_cache13;
  HalfBits* intermediate_cache2;
  float* full_rotation_output;
  int* kernel_workspace;
};
// `address`: where the tensor of a name starts.
TrellisTensors trellis_tensors(const std::function<std::byte*(std::string_view)>& address);
// In an arena laid out as planned.
TrellisTensors trellis_tensors(const MoeLayout& layout, std::byte* arena);

// What a layer brings, at multiples of 16 bytes. H, I, E: hidden and intermediate size, experts; a Trellis
// tile is 32 * bits bytes.
struct TrellisWeights {
  const unsigned char* w13 = nullptr;                // tiles [gate, up][E][H/16][I/16]
  const unsigned char* w2 = nullptr;                 // tiles [E][I/16][H/16]
  const HalfBits* gate_suh = nullptr;                // [E][H]
  const HalfBits* up_suh = nullptr;                  // [E][H]
  const HalfBits* down_svh = nullptr;                // [E][H]
  const HalfBits* intermediate_rotations = nullptr;  // [E][gate_svh, up_svh, down_suh][I]
  // One row for all experts, in place of one each.
  bool shares_gate_suh = false;
  bool shares_up_suh = false;
  bool shares_down_svh = false;
};

// What a launch brings.
struct TrellisInputs {
  const HalfBits* x = nullptr;
  const void* topk_ids = nullptr;
  i64 id_bytes = 4;  // 4 or 8
  const float* topk_weights = nullptr;
  const int* expert_map = nullptr;         // null: none
  const int* output_expert_map = nullptr;  // marks the routes that are summed; null: expert_map
  float* output = nullptr;                 // null: full_rotation_output
};

// In the order in which they are launched.
struct TrellisLaunches {
  KernelLaunch<RoutePackArguments> route_pack;
  KernelLaunch<FusedTrellisArguments> fused;
  KernelLaunch<TopKSumArguments> top_k_sum;
  i64 block = 0;  // rows of a route block
};

// The launches of `tokens` live tokens, 0 to the capacity. kernel_workspace has to be zero before the first
// launch in an arena; every launch leaves it so.
TrellisLaunches trellis_launches(const TrellisPlan& plan, i64 tokens, const TrellisTensors& tensors,
                                 const TrellisWeights& weights, const TrellisInputs& inputs);

}  // namespace moeplan
