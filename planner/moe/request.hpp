// MoeRequest: what a fused MoE plan is asked for. Plain values; docs/configuration.md says what each means.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "planner/core/contract.hpp"
#include "planner/core/device_profile.hpp"
#include "planner/core/dtype.hpp"
#include "planner/core/integer.hpp"

namespace moeplan {

// Each enumeration is followed by its names, in order, as requests spell them.

enum class QuantMode { w4a16, nvfp4, w4a8_mx, w4a8_nvfp4, w6a8_mx };
inline constexpr std::string_view kQuantModeNames[] = {"w4a16", "nvfp4", "w4a8_mx", "w4a8_nvfp4", "w6a8_mx"};

enum class Activation { silu, situ, swigluoai_uninterleave, relu2 };
inline constexpr std::string_view kActivationNames[] = {"silu", "situ", "swigluoai_uninterleave", "relu2"};
constexpr bool is_gated(Activation activation) { return activation != Activation::relu2; }

// The order of the two halves of the first projection. up_gate is w13, gate_up is w31.
enum class W13Layout { w13, w31, up_gate, gate_up };
inline constexpr std::string_view kW13LayoutNames[] = {"w13", "w31", "up_gate", "gate_up"};

// What a request may ask of the weight layout, and the layouts that result.
enum class LayoutOverride { source_native, mma_packed, trellis_native };
inline constexpr std::string_view kLayoutOverrideNames[] = {"source_native", "mma_packed", "trellis_native"};
enum class WeightLayout { native, packed, trellis };

enum class ScaleFormat { e4m3_k16, e4m3_k32, e8m0_k32 };
inline constexpr std::string_view kScaleFormatNames[] = {"e4m3_k16", "e4m3_k32", "e8m0_k32"};

enum class TrellisCodebook { mcg, sqg_e4m3, sqg_fp16 };
inline constexpr std::string_view kTrellisCodebookNames[] = {"mcg", "sqg_e4m3", "sqg_fp16"};

enum class TrellisRates { uniform, per_expert_pair };
inline constexpr std::string_view kTrellisRatesNames[] = {"uniform", "per_expert_pair"};

enum class TrellisPair { P33, P24, P43, P44 };
inline constexpr std::string_view kTrellisPairNames[] = {"P33", "P24", "P43", "P44"};

enum class Purpose { size, launch };
inline constexpr std::string_view kPurposeNames[] = {"size", "launch"};

constexpr std::string_view name_of(QuantMode mode) { return kQuantModeNames[static_cast<int>(mode)]; }
constexpr std::string_view name_of(Activation value) { return kActivationNames[static_cast<int>(value)]; }
constexpr std::string_view name_of(W13Layout value) { return kW13LayoutNames[static_cast<int>(value)]; }
constexpr std::string_view name_of(ScaleFormat value) { return kScaleFormatNames[static_cast<int>(value)]; }

// Types a request may name for activations; plans take bfloat16 and float16 of them.
inline constexpr auto kIoDTypeNames = std::span(kDTypeNames).first(5);

inline constexpr i64 kDefaultTrellisBits = 3;

// Optional members that a request did not give have the defaults of docs/contracts.md section 1.
struct MoeWeights {
  QuantMode quant_mode{};
  SourceFormat source_format{};
  Activation activation{};
  DType io_dtype{};
  i64 experts = 0;            // E: experts held by this rank's weights
  i64 hidden_size = 0;        // k
  i64 intermediate_size = 0;  // n: of this rank, already divided by the tensor-parallel size
  std::optional<LayoutOverride> weight_layout;
  std::optional<W13Layout> w13_layout;
  std::optional<i64> trellis_bits;
  std::optional<TrellisCodebook> trellis_codebook;
  std::optional<std::vector<i64>> trellis_tile_config;  // fc1_tile_k, fc1_tile_n, fc2_tile_k, fc2_tile_n
  std::optional<TrellisRates> trellis_rate_structure;
  std::optional<std::vector<TrellisPair>> trellis_pair_kinds;
  std::optional<bool> coupled_hadamard;
  std::optional<std::vector<QuantMode>> weight_quant_modes;  // default: quant_mode alone

  i64 bits() const { return trellis_bits.value_or(kDefaultTrellisBits); }
  bool is_bfloat16_gated() const { return io_dtype == DType::bfloat16 && is_gated(activation); }
};

// Swiglu settings never reach a size: only their kind is kept.
enum class SwigluLimit { positive, not_positive_or_infinite };
enum class SwigluScale { neutral, other_finite, not_finite };

struct MoeCapacity {
  i64 max_tokens = 0;
  i64 top_k = 0;
  std::optional<std::vector<i64>> core_token_counts;
  std::optional<i64> route_experts;  // rE: width of the router
  std::optional<DType> route_logits_dtype;
  std::optional<i64> block_size_m;  // the pinned route block
  std::optional<bool> apply_router_weight_on_input;
  std::optional<SwigluLimit> swiglu_limit;
  std::optional<SwigluScale> swiglu_alpha;  // neutral: 1
  std::optional<SwigluScale> swiglu_beta;   // neutral: 0
  std::optional<bool> deterministic_output;
  std::optional<i64> global_experts;  // G: expert-parallel plans only
  // Routed pairs below which the micro kernels serve; the engine's own environment can move it.
  i64 micro_cutover_pairs = 64;

  // With the floors every planner applies.
  i64 tokens() const { return max_of(max_tokens, 1); }
  i64 routes_per_token() const { return max_of(top_k, 1); }
};

enum class MoeKind { tensor_parallel, expert_parallel };

struct MoeRequest {
  MoeKind kind = MoeKind::tensor_parallel;
  const Contract* contract = nullptr;
  DeviceProfile device;  // sm_count is required
  MoeWeights weights;
  MoeCapacity capacity;
  Purpose purpose = Purpose::size;
  // What an audit assumes an unpinned plan to reserve for, in place of the contract's rule.
  std::optional<UnpinnedBlocks> assumed_blocks;

  UnpinnedBlocks unpinned_blocks() const { return assumed_blocks.value_or(contract->unpinned_blocks); }

  // The route block that is stated and meant: the lean executor has blocks of its own.
  std::optional<i64> pinned_block() const {
    return contract->lean_executor ? std::nullopt : capacity.block_size_m;
  }

  i64 multiprocessors() const { return max_of(*device.sm_count, 1); }
};

}  // namespace moeplan
