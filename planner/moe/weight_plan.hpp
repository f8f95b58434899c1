// WeightPlan: how a checkpoint's expert weights are laid out for the requested kernels, or why they cannot
// be.
#pragma once

#include <optional>

#include "planner/core/result.hpp"
#include "planner/moe/request.hpp"

namespace moeplan {

struct WeightPlan {
  bool trellis = false;                   // the source is the contract's Trellis format
  std::optional<WeightLayout> layout;     // of w4a16; none when no mode of the plan is w4a16
  ScaleFormat scale_format{};             // of w4a16
  W13Layout w13_layout = W13Layout::w13;  // w13 or w31
  bool coupled_hadamard = false;
};

// Checks the weights of a request in the order of docs/contracts.md section 10 and chooses their layout.
Result<WeightPlan> plan_weights(const Contract& contract, const MoeWeights& weights);

// The response's name of a weight layout under `contract`.
std::string_view layout_name(const Contract& contract, WeightLayout layout);

// Whether `mode` reads checkpoints of `source`; the error says which it reads.
Status check_source_mode(const Contract& contract, SourceFormat source, QuantMode mode);

}  // namespace moeplan
