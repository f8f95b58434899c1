#include "planner/core/contract.hpp"

namespace moeplan {
namespace {

using enum CoreTensor;

// The first eight tensors are the same everywhere.
// clang-format off
#define MOEPLAN_COMMON_CORE                                                                     \
  {intermediate_cache13, Presence::always}, {intermediate_cache2, Presence::always},            \
  {fc1_c_tmp, Presence::always},            {fc2_c_tmp, Presence::always},                      \
  {packed_route_indices, Presence::always}, {block_expert_ids, Presence::always},               \
  {packed_route_count, Presence::always},   {expert_offsets, Presence::always}
// clang-format on

constexpr CoreTensorEntry kSparkinferCore[] = {
    MOEPLAN_COMMON_CORE,
    {expert_counts, Presence::trellis},
    {full_rotation_output, Presence::trellis},
    {rotation_a_gate, Presence::trellis},
    {rotation_a_up, Presence::trellis},
    {kernel_workspace, Presence::trellis},
};

// With coupled Hadamard the up view is rotation_a_gate itself.
constexpr CoreTensorEntry kB12xCore[] = {
    MOEPLAN_COMMON_CORE,
    {expert_counts, Presence::always},
    {full_rotation_output, Presence::trellis},
    {rotation_a_gate, Presence::trellis},
    {kernel_workspace, Presence::trellis},
    {rotation_a_up, Presence::trellis_uncoupled},
};

constexpr CoreTensorEntry kSparkinferExpertParallel[] = {MOEPLAN_COMMON_CORE};
constexpr CoreTensorEntry kB12xExpertParallel[] = {MOEPLAN_COMMON_CORE, {expert_counts, Presence::always}};

#undef MOEPLAN_COMMON_CORE

constexpr CoreTensorEntry kLeanCore[] = {
    {full_rotation_output, Presence::always},
    {intermediate_cache2, Presence::always},
    {expert_rows, Presence::always},
    {packed_route_indices, Presence::lean_prefill},
    {block_expert_ids, Presence::lean_prefill},
    {packed_route_count, Presence::lean_prefill},
    {expert_offsets, Presence::lean_prefill},
    {expert_counts, Presence::lean_prefill},
    {kernel_workspace, Presence::lean_prefill},
};

constexpr Contract kContracts[] = {
    {
        .id = "sparkinfer-de04125",
        .environment_prefix = "SPARKINFER_",
        .unpinned_blocks = UnpinnedBlocks::all,
        .trellis_route_experts = RouteExperts::router,
        .other_route_experts = RouteExperts::router,
        .direct_top_k_scratch = false,
        .per_call_direct_slots = false,
        .trellis_source = SourceFormat::exl3_trellis_mcg,
        .trellis_layout_name = "trellis3_t256",
        .trellis_min_bits = 3,
        .trellis_settings = false,
        .trellis_unpinned_is_one = false,
        .trellis_launch_needs_pin = true,
        .trellis_w4a8_mx = false,
        .w4a8_mx_micro_reduction = false,
        .mapped_direct_top_k = false,
        .tensor_parallel_expert_map = false,
        .launch_takes_pin = false,
        .launch_key_known = true,
        .capture_miss = CaptureMiss::compiles,
        .lean_executor = false,
        .core_tensors = kSparkinferCore,
        .expert_parallel_tensors = kSparkinferExpertParallel,
    },
    {
        .id = "sparkinfer-c2f135c",
        .environment_prefix = "SPARKINFER_",
        .unpinned_blocks = UnpinnedBlocks::reachable,
        .trellis_route_experts = RouteExperts::router,
        .other_route_experts = RouteExperts::weights,
        .direct_top_k_scratch = true,
        .per_call_direct_slots = false,
        .trellis_source = SourceFormat::exl3_trellis_mcg,
        .trellis_layout_name = "trellis3_t256",
        .trellis_min_bits = 3,
        .trellis_settings = false,
        .trellis_unpinned_is_one = false,
        .trellis_launch_needs_pin = true,
        .trellis_w4a8_mx = false,
        .w4a8_mx_micro_reduction = false,
        .mapped_direct_top_k = false,
        .tensor_parallel_expert_map = false,
        .launch_takes_pin = false,
        .launch_key_known = true,
        .capture_miss = CaptureMiss::unknown,
        .lean_executor = false,
        .core_tensors = kSparkinferCore,
        .expert_parallel_tensors = kSparkinferExpertParallel,
    },
    {
        .id = "b12x-36bce2c",
        .environment_prefix = "B12X_",
        .unpinned_blocks = UnpinnedBlocks::reachable,
        .trellis_route_experts = RouteExperts::larger_of_both,
        .other_route_experts = RouteExperts::larger_of_both,
        .direct_top_k_scratch = true,
        .per_call_direct_slots = true,
        .trellis_source = SourceFormat::btx,
        .trellis_layout_name = "trellis_t256",
        .trellis_min_bits = 2,
        .trellis_settings = true,
        .trellis_unpinned_is_one = true,
        .trellis_launch_needs_pin = false,
        .trellis_w4a8_mx = true,
        .w4a8_mx_micro_reduction = true,
        .mapped_direct_top_k = true,
        .tensor_parallel_expert_map = true,
        .launch_takes_pin = true,
        .launch_key_known = false,
        .capture_miss = CaptureMiss::raises,
        .lean_executor = false,
        .core_tensors = kB12xCore,
        .expert_parallel_tensors = kB12xExpertParallel,
    },
    {
        .id = "moeplan-lean-1",
        // The indexer beside its plans is an engine's: sparkinfer's, whose variables it reads.
        .environment_prefix = "SPARKINFER_",
        .unpinned_blocks = UnpinnedBlocks::last,
        .trellis_route_experts = RouteExperts::router,
        .other_route_experts = RouteExperts::router,
        .direct_top_k_scratch = false,
        .per_call_direct_slots = false,
        .trellis_source = SourceFormat::exl3_trellis_mcg,
        .trellis_layout_name = "trellis3_t256",
        .trellis_min_bits = 3,
        .trellis_settings = false,
        .trellis_unpinned_is_one = false,
        .trellis_launch_needs_pin = false,
        .trellis_w4a8_mx = false,
        .w4a8_mx_micro_reduction = false,
        .mapped_direct_top_k = false,
        .tensor_parallel_expert_map = false,
        .launch_takes_pin = false,
        .launch_key_known = false,
        .capture_miss = CaptureMiss::unknown,
        .lean_executor = true,
        .core_tensors = kLeanCore,
        .expert_parallel_tensors = {},
    },
};

}  // namespace

std::span<const Contract> contracts() { return kContracts; }

const Contract* find_contract(std::string_view id) {
  for (const Contract& contract : kContracts) {
    if (contract.id == id) return &contract;
  }
  return nullptr;
}

}  // namespace moeplan
