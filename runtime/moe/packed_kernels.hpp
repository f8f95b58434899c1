// Which kernels a plan of packed NVFP4 weights launches, and each launch's grid and arguments. Pure
// functions: addresses go in and come out as numbers, nothing is asked of a device.
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

namespace moeplan {

struct PackedPlan : FusedPlan {
  bool weights_on_input = false;
};

// Why our kernels do not run the plan; "": they do.
std::string missing_packed_kernels(const MoeRequest& request, const MoeLayout& layout);

// Of a request and its layout whose kernels are not missing.
PackedPlan packed_plan(const MoeRequest& request, const MoeLayout& layout);

// Elements of each tensor that the kernels of a launch of `tokens` write at most, by their own reckoning.
CoreElements kernel_need(const PackedPlan& plan, i64 tokens, bool has_map);

// Every kernel that a launch of any live token count can need: the plan's route blocks, both types of ids.
std::vector<KernelVariant> packed_variants(const PackedPlan& plan);

// The tensors of the plan, wherever its arena lies.
struct PackedTensors {
  int* packed_route_indices;
  int* block_expert_ids;
  int* packed_route_count;
  int* expert_offsets;
  int* expert_counts;  // null where the contract has none
  HalfBits* intermediate_cache13;
  HalfBits* intermediate_cache2;
  float* fc1_c_tmp;
  float* fc2_c_tmp;
};
// `address`: where the tensor of a name starts, or null where the plan has none of that name.
PackedTensors packed_tensors(const std::function<std::byte*(std::string_view)>& address);
// In an arena laid out as planned.
PackedTensors packed_tensors(const MoeLayout& layout, std::byte* arena);

// What a layer brings, at multiples of 16 bytes. H, I, E: hidden and intermediate size, experts. A tile is
// 16x64 weights in 512 bytes; scales are permuted within each 64 columns. The global scales have the powers
// of two in them that kernels leave out: 2^119 for bf16, 2^7 for fp16.
struct PackedWeights {
  const unsigned char* w13 = nullptr;         // tiles [E][H/16][2I/64], gate | up
  const unsigned char* w2 = nullptr;          // tiles [E][I/16][H/64]
  const unsigned char* w13_scales = nullptr;  // [E][H/16][2I]
  const unsigned char* w2_scales = nullptr;   // [E][I/16][H]
  const float* w13_globals = nullptr;         // [E]
  const float* w2_globals = nullptr;          // [E]
};

// Words of the workspace that launches share: locks, and behind them the grid barrier's two words. Packed
// plans do not reserve it in their arena.
constexpr i64 packed_workspace_words(i64 multiprocessors) { return 4 * multiprocessors + 2; }

// What launches bring that is written, beside the arena: an output for the plan's capacity, and the
// workspace.
inline constexpr std::string_view kCallerOutput = "output", kCallerWorkspace = "kernel_workspace";
std::vector<TensorSpec> caller_tensors(const PackedPlan& plan);

// What a launch brings.
struct PackedInputs {
  const HalfBits* x = nullptr;
  const void* topk_ids = nullptr;
  i64 id_bytes = 4;  // 4 or 8
  const float* topk_weights = nullptr;
  const int* expert_map = nullptr;  // null: none
  HalfBits* output = nullptr;
  int* kernel_workspace = nullptr;  // zero before the first launch; every launch leaves it so
};

// In the order in which they are launched.
struct PackedLaunches {
  std::optional<KernelLaunch<RoutePackArguments>> route_pack;  // none: few tokens take their routes directly
  KernelLaunch<FusedPackedArguments> fused;
  KernelLaunch<RouteSumArguments> route_sum;
  i64 block = 0;  // rows of a route block
};

// The launches of `tokens` live tokens, 0 to the capacity.
PackedLaunches packed_launches(const PackedPlan& plan, i64 tokens, const PackedTensors& tensors,
                               const PackedWeights& weights, const PackedInputs& inputs);

}  // namespace moeplan
