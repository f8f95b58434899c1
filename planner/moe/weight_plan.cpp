#include "planner/moe/weight_plan.hpp"

#include <algorithm>
#include <span>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// Weights of two recipes can be kept together only if neither needs a copy of the whole model.
enum class Recipe { model_sized_repack, source_native, native_layout };

std::span<const QuantMode> modes_of(const MoeWeights& weights) {
  if (weights.weight_quant_modes) return *weights.weight_quant_modes;
  return {&weights.quant_mode, 1};
}

Error misaligned(std::string_view what, std::string_view field, i64 value, i64 multiple) {
  return Error{ErrorCode::misaligned_shape, concat("/weights/", field),
               concat(what, " needs ", field, " to be a multiple of ", multiple, ", got ", value),
               concat("use a multiple of ", multiple, "; the nearest above is ", align_up(value, multiple))};
}

Status check_multiples(std::string_view what, const MoeWeights& weights, i64 hidden_multiple,
                       i64 intermediate_multiple) {
  if (weights.hidden_size % hidden_multiple != 0)
    return misaligned(what, "hidden_size", weights.hidden_size, hidden_multiple);
  if (weights.intermediate_size % intermediate_multiple != 0)
    return misaligned(what, "intermediate_size", weights.intermediate_size, intermediate_multiple);
  return Ok{};
}

Status check_positive(const MoeWeights& weights) {
  const std::pair<std::string_view, i64> sizes[] = {{"experts", weights.experts},
                                                    {"hidden_size", weights.hidden_size},
                                                    {"intermediate_size", weights.intermediate_size}};
  for (const auto& [field, value] : sizes) {
    if (value <= 0)
      return Error{ErrorCode::not_positive, concat("/weights/", field),
                   concat(field, " must be positive, got ", value), "state the shape of this rank's weights"};
  }
  return Ok{};
}

bool is_silu_or_situ(Activation activation) {
  return activation == Activation::silu || activation == Activation::situ;
}

Error activation_mismatch(std::string_view what, const MoeWeights& weights, std::string_view takes,
                          std::string_view help = "") {
  return Error{ErrorCode::activation_mode_mismatch, "/weights/activation",
               concat(what, " takes ", takes, ", got ", name_of(weights.activation)), std::string(help)};
}

Error layout_mismatch(std::string_view message, std::string_view help) {
  return Error{ErrorCode::layout_source_mismatch, "/weights/weight_layout", std::string(message),
               std::string(help)};
}

WeightLayout w4a16_layout(const MoeWeights& weights, bool trellis) {
  if (trellis) return WeightLayout::trellis;
  if (weights.source_format == SourceFormat::compressed_tensors) return WeightLayout::packed;
  if (weights.weight_layout)
    return *weights.weight_layout == LayoutOverride::mma_packed ? WeightLayout::packed : WeightLayout::native;
  const bool packs =
      weights.source_format == SourceFormat::fp4_e8m0_k32 && weights.intermediate_size % 128 == 0;
  return packs ? WeightLayout::packed : WeightLayout::native;
}

Status check_w4a16(const Contract& contract, const MoeWeights& weights, bool trellis) {
  if (trellis) {
    if (contract.lean_executor && weights.activation != Activation::silu)
      return activation_mismatch(concat("Trellis W4A16 under ", contract.id), weights, "silu",
                                 "plan silu, or take the contract of an engine");
    if (!is_silu_or_situ(weights.activation))
      return activation_mismatch("Trellis W4A16", weights, "silu or situ");
    if (weights.weight_layout.value_or(LayoutOverride::trellis_native) != LayoutOverride::trellis_native)
      return layout_mismatch("Trellis W4A16 has only the trellis_native layout",
                             "drop weight_layout or write trellis_native");
  }
  if (weights.source_format == SourceFormat::compressed_tensors &&
      weights.weight_layout.value_or(LayoutOverride::mma_packed) != LayoutOverride::mma_packed)
    return layout_mismatch("compressed_tensors W4A16 has only the mma_packed layout",
                           "drop weight_layout or write mma_packed");
  return Ok{};
}

Status check_w4a8_mx(const MoeWeights& weights, bool trellis) {
  if (!is_silu_or_situ(weights.activation)) return activation_mismatch("w4a8_mx", weights, "silu or situ");
  if (!trellis) return check_multiples("w4a8_mx", weights, 256, 32);
  if (weights.trellis_codebook.value_or(TrellisCodebook::sqg_e4m3) != TrellisCodebook::sqg_e4m3)
    return Error{ErrorCode::trellis_codebook, "/weights/trellis_codebook",
                 "w4a8_mx reads Trellis weights of codebook sqg_e4m3 only", "write sqg_e4m3, or use w4a16"};
  if (weights.trellis_rate_structure.value_or(TrellisRates::uniform) != TrellisRates::uniform)
    return Error{ErrorCode::trellis_rates, "/weights/trellis_rate_structure",
                 "w4a8_mx reads Trellis weights of uniform rate only", "write uniform, or use w4a16"};
  return check_multiples("w4a8_mx from Trellis weights", weights, 128, 128);
}

// What one mode asks of the weights.
Status check_mode(const Contract& contract, const MoeWeights& weights, QuantMode mode) {
  const bool trellis = weights.source_format == contract.trellis_source;
  switch (mode) {
    case QuantMode::w4a16:
      return check_w4a16(contract, weights, trellis);
    case QuantMode::w4a8_mx:
      return check_w4a8_mx(weights, trellis);
    case QuantMode::w6a8_mx:
      if (weights.activation != Activation::silu) return activation_mismatch("w6a8_mx", weights, "silu");
      return check_multiples("w6a8_mx", weights, 128, 128);
    case QuantMode::nvfp4:
    case QuantMode::w4a8_nvfp4:
      return Ok{};
  }
  return Ok{};
}

Recipe recipe_of(const MoeWeights& weights, QuantMode mode, bool trellis) {
  switch (mode) {
    case QuantMode::w4a16:
      return w4a16_layout(weights, trellis) == WeightLayout::packed ? Recipe::model_sized_repack
                                                                    : Recipe::native_layout;
    case QuantMode::w4a8_mx:
      return trellis ? Recipe::native_layout : Recipe::model_sized_repack;
    case QuantMode::w6a8_mx:
      return Recipe::native_layout;
    case QuantMode::nvfp4:
    case QuantMode::w4a8_nvfp4:
      return Recipe::source_native;
  }
  return Recipe::native_layout;
}

Status check_combination(const MoeWeights& weights, std::span<const QuantMode> modes, bool trellis) {
  const auto repacks = std::count_if(modes.begin(), modes.end(), [&](QuantMode mode) {
    return recipe_of(weights, mode, trellis) == Recipe::model_sized_repack;
  });
  if (repacks == 0 || modes.size() == 1) return Ok{};
  return Error{ErrorCode::incompatible_modes, "/weights/weight_quant_modes",
               repacks > 1
                   ? "these modes need more than one repacked copy of the model"
                   : "one of these modes needs a repacked copy of the model, another the source's own",
               "keep modes that share one set of weights"};
}

// Bits and codebook of a Trellis source.
Status check_trellis_bits(const Contract& contract, const MoeWeights& weights) {
  const i64 bits = weights.bits();
  if (bits < contract.trellis_min_bits || bits > 6)
    return Error{
        ErrorCode::trellis_bits, "/weights/trellis_bits",
        concat("trellis_bits must be ", contract.trellis_min_bits, "..6 under ", contract.id, ", got ", bits),
        "state the checkpoint's own width, or the contract whose kernels read it: moeplan help contracts"};
  if (!contract.trellis_settings) return Ok{};

  struct CodebookBits {
    i64 low, high;
  };
  constexpr CodebookBits kBits[] = {{3, 6}, {2, 4}, {5, 6}};  // mcg, sqg_e4m3, sqg_fp16
  if (!weights.trellis_codebook)
    return Error{ErrorCode::trellis_codebook, "/weights/trellis_codebook",
                 concat(name_of(contract.trellis_source), " weights have to name their codebook"),
                 concat("write one of ", join(kTrellisCodebookNames, ", "))};
  const auto codebook = static_cast<int>(*weights.trellis_codebook);
  if (bits < kBits[codebook].low || bits > kBits[codebook].high)
    return Error{ErrorCode::trellis_bits, "/weights/trellis_bits",
                 concat("codebook ", kTrellisCodebookNames[codebook], " has ", kBits[codebook].low, "..",
                        kBits[codebook].high, " bits, got ", bits, weights.trellis_bits ? "" : " by default"),
                 "state trellis_bits, or another codebook"};
  return Ok{};
}

Status check_tile_config(const MoeWeights& weights) {
  if (!weights.trellis_tile_config) return Ok{};
  const auto& tiles = *weights.trellis_tile_config;
  const bool fine = tiles.size() == 4 &&
                    std::all_of(tiles.begin(), tiles.end(), [](i64 t) { return t > 0 && t % 16 == 0; });
  if (fine) return Ok{};
  return Error{ErrorCode::trellis_tile_config, "/weights/trellis_tile_config",
               "a Trellis tile is four positive multiples of 16: fc1 k, fc1 n, fc2 k, fc2 n",
               "for example [64, 256, 64, 256]"};
}

// Rate structure, pair kinds and coupled Hadamard: contracts with Trellis settings only.
Status check_trellis_rates(const MoeWeights& weights) {
  const auto rates = weights.trellis_rate_structure.value_or(TrellisRates::uniform);
  const bool coupled = weights.coupled_hadamard.value_or(false);
  if (coupled && (weights.trellis_codebook != TrellisCodebook::sqg_e4m3 || rates != TrellisRates::uniform))
    return Error{ErrorCode::trellis_coupled_hadamard, "/weights/coupled_hadamard",
                 "coupled Hadamard needs codebook sqg_e4m3 and uniform rates", "drop coupled_hadamard"};
  const auto& kinds = weights.trellis_pair_kinds;
  if (rates == TrellisRates::uniform) {
    if (kinds)
      return Error{ErrorCode::trellis_rates, "/weights/trellis_pair_kinds",
                   "uniform rates have no pair kinds",
                   "drop trellis_pair_kinds, or write per_expert_pair rates"};
    return Ok{};
  }
  const auto has = [&](TrellisPair pair) {
    return kinds && std::find(kinds->begin(), kinds->end(), pair) != kinds->end();
  };
  if (has(TrellisPair::P44))
    return Error{ErrorCode::trellis_rates, "/weights/trellis_pair_kinds",
                 "no fused kernel runs pair kind P44 (whole 4-bit experts)", "plan the tiers separately"};
  if (!has(TrellisPair::P33) || (has(TrellisPair::P24) && has(TrellisPair::P43)))
    return Error{ErrorCode::trellis_rates, "/weights/trellis_pair_kinds",
                 "per-expert-pair rates take the pair kinds P33, P33 with P24, or P33 with P43", ""};
  if (weights.bits() != kDefaultTrellisBits)
    return Error{ErrorCode::trellis_rates, "/weights/trellis_bits",
                 concat("per-expert-pair rates need trellis_bits 3, got ", *weights.trellis_bits), ""};
  return Ok{};
}

// Settings that only a Trellis source has; absent is fine everywhere.
Status check_no_trellis_settings(const MoeWeights& weights) {
  const std::pair<std::string_view, bool> given[] = {
      {"trellis_bits", weights.trellis_bits.has_value()},
      {"trellis_tile_config", weights.trellis_tile_config.has_value()},
      {"trellis_codebook", weights.trellis_codebook.has_value()},
      {"trellis_rate_structure", weights.trellis_rate_structure.has_value()},
      {"trellis_pair_kinds", weights.trellis_pair_kinds.has_value()},
      {"coupled_hadamard", weights.coupled_hadamard.value_or(false)},
  };
  for (const auto& [field, is_given] : given) {
    if (is_given)
      return Error{ErrorCode::trellis_setting_without_trellis, concat("/weights/", field),
                   concat(field, " needs a Trellis source, got ", name_of(weights.source_format)),
                   concat("drop ", field)};
  }
  return Ok{};
}

Status check_fields_of_contract(const Contract& contract, const MoeWeights& weights) {
  if (contract.trellis_settings) return Ok{};
  const std::pair<std::string_view, bool> given[] = {
      {"trellis_codebook", weights.trellis_codebook.has_value()},
      {"trellis_rate_structure", weights.trellis_rate_structure.has_value()},
      {"trellis_pair_kinds", weights.trellis_pair_kinds.has_value()},
      {"coupled_hadamard", weights.coupled_hadamard.has_value()},
  };
  for (const auto& [field, is_given] : given) {
    if (is_given)
      return Error{ErrorCode::field_not_in_contract, concat("/weights/", field),
                   concat("contract ", contract.id, " has no ", field), concat("drop ", field)};
  }
  return Ok{};
}

Status check_source_name(const Contract& contract, SourceFormat source) {
  const bool is_trellis_name = source == SourceFormat::exl3_trellis_mcg || source == SourceFormat::btx;
  if (!is_trellis_name || source == contract.trellis_source) return Ok{};
  return Error{ErrorCode::unsupported_source_format, "/weights/source_format",
               concat("contract ", contract.id, " does not read ", name_of(source)),
               concat("its Trellis source is called ", name_of(contract.trellis_source))};
}

}  // namespace

Status check_source_mode(const Contract& contract, SourceFormat source, QuantMode mode) {
  const bool trellis = source == contract.trellis_source;
  bool fits = false;
  switch (mode) {
    case QuantMode::w4a16:
      fits = source != SourceFormat::mxfp6_e2m3;
      break;
    case QuantMode::nvfp4:
    case QuantMode::w4a8_nvfp4:
      fits = source == SourceFormat::modelopt_nvfp4;
      break;
    case QuantMode::w4a8_mx:
      fits = source == SourceFormat::fp4_e8m0_k32 || (trellis && contract.trellis_w4a8_mx);
      break;
    case QuantMode::w6a8_mx:
      fits = source == SourceFormat::mxfp6_e2m3;
      break;
  }
  if (contract.lean_executor) fits = trellis && mode == QuantMode::w4a16;
  if (fits) return Ok{};
  return Error{ErrorCode::source_mode_mismatch, "/weights/source_format",
               concat("quant_mode ", name_of(mode), " does not read source_format ", name_of(source),
                      " under ", contract.id),
               contract.lean_executor ? concat("it plans ", name_of(contract.trellis_source),
                                               " weights in w4a16 alone: moeplan "
                                               "help contracts lists the others")
                                      : std::string("docs/contracts.md section 10 lists the pairs")};
}

Result<WeightPlan> plan_weights(const Contract& contract, const MoeWeights& weights) {
  const bool trellis = weights.source_format == contract.trellis_source;
  const auto modes = modes_of(weights);

  if (auto s = check_fields_of_contract(contract, weights); !s) return s.error();
  if (auto s = check_source_name(contract, weights.source_format); !s) return s.error();
  if (modes.empty())
    return Error{ErrorCode::empty_mode_list, "/weights/weight_quant_modes",
                 "the weights have to be prepared for at least one quant_mode",
                 "list a mode, or drop weight_quant_modes"};
  for (QuantMode mode : modes) {
    if (auto s = check_source_mode(contract, weights.source_format, mode); !s) return s.error();
  }
  if (auto s = check_positive(weights); !s) return s.error();
  if (!trellis && weights.weight_layout == LayoutOverride::trellis_native)
    return layout_mismatch(concat("trellis_native needs source_format ", name_of(contract.trellis_source)),
                           "drop weight_layout");
  for (QuantMode mode : modes) {
    if (auto s = check_mode(contract, weights, mode); !s) return s.error();
  }
  if (auto s = check_combination(weights, modes, trellis); !s) return s.error();
  if (trellis) {
    if (auto s = check_trellis_bits(contract, weights); !s) return s.error();
  }
  if (auto s = check_tile_config(weights); !s) return s.error();
  if (trellis) {
    if (auto s = check_trellis_rates(weights); !s) return s.error();
  } else {
    if (auto s = check_no_trellis_settings(weights); !s) return s.error();
  }
  for (std::size_t i = 0; i < modes.size(); ++i) {
    if (std::ranges::count(modes.first(i), modes[i]) > 0)
      return Error{ErrorCode::duplicate_mode, "/weights/weight_quant_modes",
                   concat("quant_mode ", name_of(modes[i]), " is listed twice"), "list it once"};
  }

  WeightPlan plan;
  plan.trellis = trellis;
  plan.coupled_hadamard = weights.coupled_hadamard.value_or(false);
  if (std::find(modes.begin(), modes.end(), QuantMode::w4a16) != modes.end()) {
    plan.layout = w4a16_layout(weights, trellis);
    plan.scale_format = trellis                                               ? ScaleFormat::e4m3_k32
                        : weights.source_format == SourceFormat::fp4_e8m0_k32 ? ScaleFormat::e8m0_k32
                                                                              : ScaleFormat::e4m3_k16;
  }
  const W13Layout order = weights.w13_layout.value_or(W13Layout::w13);
  const bool is_w31 = order == W13Layout::w31 || order == W13Layout::gate_up ||
                      weights.activation == Activation::swigluoai_uninterleave;
  plan.w13_layout = is_w31 ? W13Layout::w31 : W13Layout::w13;
  return plan;
}

std::string_view layout_name(const Contract& contract, WeightLayout layout) {
  switch (layout) {
    case WeightLayout::native:
      return "modelopt";
    case WeightLayout::packed:
      return "packed";
    case WeightLayout::trellis:
      return contract.trellis_layout_name;
  }
  return "";
}

}  // namespace moeplan
