// Every error a user can meet: one row each, with a stable word that scripts may test.
#pragma once

#include <string_view>

namespace moeplan {

// X(word, what it means). Words are never renamed.
#define MOEPLAN_ERROR_CODES(X)                                                               \
  /* reading */                                                                              \
  X(unreadable, "a file cannot be opened or read")                                           \
  X(unwritable, "an answer cannot be written")                                               \
  X(too_large, "an input is longer than its limit")                                          \
  X(invalid_json, "the text is not JSON (RFC 8259)")                                         \
  X(too_deep, "JSON nested deeper than 64 levels")                                           \
  X(duplicate_key, "an object names a key twice")                                            \
  X(unknown_key, "a key that its object does not have")                                      \
  X(missing_field, "a field that has to be stated is absent; shapes are never defaulted")    \
  X(wrong_type, "a value of another JSON type than its field takes")                         \
  X(out_of_range, "a number outside the limits of its field")                                \
  X(unknown_value, "a word that is none of its field's choices")                             \
  X(invalid_value, "a value that its field cannot take")                                     \
  X(invalid_pointer, "a JSON pointer that names no place in the document")                   \
  X(unresolved_variable, "a ${VARIABLE} that may not or cannot be read")                     \
  X(unknown_schema_version, "a config of another schema version")                            \
  X(unknown_contract, "a contract that this build does not know")                            \
  X(unknown_kind, "a request kind that this build does not know")                            \
  X(field_not_in_contract, "a field that the request's contract does not have")              \
  X(field_not_in_kind, "a field that the request's kind does not have")                      \
  /* weights of a fused MoE plan */                                                          \
  X(unsupported_source_format, "a checkpoint format the contract cannot read")               \
  X(unsupported_activation, "an activation no kernel has")                                   \
  X(unsupported_w13_layout, "an unknown order of the gate and up projections")               \
  X(unsupported_quant_mode, "a quantisation mode no kernel has")                             \
  X(unsupported_weight_layout, "an unknown weight layout token")                             \
  X(unsupported_io_dtype, "activations of a type no kernel takes")                           \
  X(empty_mode_list, "a weight plan for no quantisation mode")                               \
  X(source_mode_mismatch, "the source format does not go with the quantisation mode")        \
  X(not_positive, "a size that must be positive")                                            \
  X(layout_source_mismatch, "the weight layout does not go with the source format")          \
  X(activation_mode_mismatch, "the activation does not go with the quantisation mode")       \
  X(misaligned_shape, "hidden or intermediate size is no multiple of what the kernels need") \
  X(incompatible_modes, "quantisation modes that cannot share one set of weights")           \
  X(duplicate_mode, "a quantisation mode is listed twice")                                   \
  X(trellis_bits, "a Trellis bit width the contract does not have")                          \
  X(trellis_codebook, "a Trellis codebook that is absent or does not go with the rest")      \
  X(trellis_tile_config, "a Trellis tile that is not four positive multiples of 16")         \
  X(trellis_rates, "Trellis rate structure and pair kinds do not go together")               \
  X(trellis_coupled_hadamard, "coupled Hadamard without what it needs")                      \
  X(trellis_setting_without_trellis, "a Trellis setting on another source format")           \
  /* capacity of a fused MoE plan */                                                         \
  X(mode_not_in_weight_plan, "the requested mode is not one the weights are prepared for")   \
  X(swiglu_limit, "a swiglu limit the activation does not take")                             \
  X(swiglu_scale, "swiglu alpha or beta on an activation without them")                      \
  X(block_size, "a route block size other than 8, 16, 32, 48 or 64")                         \
  X(launch_needs_block_size, "launch planning of a Trellis plan needs a pinned block size")  \
  X(too_many_local_experts, "more local than global experts")                                \
  /* launches */                                                                             \
  X(launch_not_modelled, "a plan whose launch keys are not modelled")                        \
  X(launch_tiles, "a launch for which the kernels have no tile")                             \
  /* indexer */                                                                              \
  X(indexer_score_mode, "a score mode other than nsa and msa")                               \
  X(indexer_top_k, "a top-k the selector has no kernel for")                                 \
  X(indexer_supertile, "a supertile that is no multiple of the page size")                   \
  X(indexer_route_unavailable, "an explicit route the planned caps cannot take")             \
  X(indexer_block_k, "a key block the contiguous scorer does not have")                      \
  X(indexer_context, "neither a page table width nor a number of keys")                      \
  X(indexer_binding, "a call that does not fit the plan it is bound to")                     \
  X(indexer_scheduled_tile, "a supertile the legacy scorer would have to schedule")          \
  /* deployments */                                                                          \
  X(unsupported_deployment, "a deployment whose engine path is not modelled")                \
  X(indivisible, "a size that the number of ranks does not divide")                          \
  X(invalid_environment, "an environment variable with a text its reader refuses")           \
  /* kernels and devices */                                                                  \
  X(no_nvrtc, "NVIDIA's run-time compiler cannot be found or loaded")                        \
  X(unsupported_architecture, "a GPU architecture that kernels cannot be compiled for")      \
  X(kernel_source, "a text of a kernel that cannot be read")                                 \
  X(kernel_compile, "a kernel that does not compile")                                        \
  X(cache_refused, "a kernel cache that others could have written to")                       \
  X(cache_unusable, "a kernel cache that cannot be opened")                                  \
  X(no_device, "no usable GPU, driver or CUDA runtime")                                      \
  X(no_sanitizer, "compute-sanitizer cannot be found or started")                            \
  X(cuda_failure, "a call of the CUDA runtime that failed")                                  \
  X(no_kernels, "plans that this build has no kernels of its own for")                       \
  X(weights_refused, "a file of weights that does not hold the layer a plan runs")           \
  X(launch_not_resolved, "a launch whose kernel was not resolved with its plan")             \
  X(scratch_too_small, "a scratch buffer smaller than its plan or its launch")               \
  X(grid_not_resident, "a grid with a barrier whose blocks cannot all be resident")

enum class ErrorCode {
#define MOEPLAN_ERROR_ENUM(word, meaning) word,
  MOEPLAN_ERROR_CODES(MOEPLAN_ERROR_ENUM)
#undef MOEPLAN_ERROR_ENUM
};

struct ErrorCodeRow {
  std::string_view word;
  std::string_view meaning;
};

inline constexpr ErrorCodeRow kErrorCodes[] = {
#define MOEPLAN_ERROR_ROW(word, meaning) {#word, meaning},
    MOEPLAN_ERROR_CODES(MOEPLAN_ERROR_ROW)
#undef MOEPLAN_ERROR_ROW
};

constexpr std::string_view name_of(ErrorCode code) { return kErrorCodes[static_cast<int>(code)].word; }

}  // namespace moeplan
