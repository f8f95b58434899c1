#include "runtime/moe/trellis_layer_plan.hpp"

#include "planner/core/text.hpp"

namespace moeplan {

std::string missing_layer_kernels(const MoeRequest& request, const MoeLayout& layout) {
  const MoeWeights& weights = request.weights;
  if (layout.weight_layout != WeightLayout::trellis)
    return "this build's Trellis kernels run Trellis plans alone";
  if (request.kind != MoeKind::tensor_parallel)
    return "this build has no Trellis kernels for expert-parallel plans";
  if (weights.trellis_codebook.value_or(TrellisCodebook::mcg) != TrellisCodebook::mcg)
    return "this build has Trellis kernels for codebook mcg alone";
  if (weights.trellis_rate_structure.value_or(TrellisRates::uniform) != TrellisRates::uniform)
    return "this build has no Trellis kernels for rates that differ between projections";
  if (weights.bits() < kFewestTrellisBits || weights.bits() > kMostTrellisBits)
    return concat("this build has Trellis kernels for ", kFewestTrellisBits, " to ", kMostTrellisBits,
                  " bits, not for ", weights.bits());
  if (weights.activation != Activation::silu || request.capacity.swiglu_limit)
    return "this build has Trellis kernels for silu without a limit alone";
  if (request.capacity.apply_router_weight_on_input.value_or(false))
    return "Trellis kernels apply the router's weights to their output alone";
  return "";
}

TrellisLayerPlan trellis_layer_plan(const MoeRequest& request, const MoeLayout& layout) {
  return {fused_plan(request, layout), request.weights.bits(), Codebook::mcg};
}

}  // namespace moeplan
