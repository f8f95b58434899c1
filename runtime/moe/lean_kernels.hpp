// Which kernels a plan of the lean contract launches, for decoding or for prefill.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "runtime/moe/lean_decode.hpp"
#include "runtime/moe/lean_prefill.hpp"

namespace moeplan {

// Why our kernels do not run the plan; "": they do.
std::string missing_lean_kernels(const MoeRequest& request, const MoeLayout& layout);

// Of a request and its layout whose kernels are not missing.
LeanPlan lean_plan(const MoeRequest& request, const MoeLayout& layout);

// Elements of each tensor that the kernels of a launch of `tokens` write at most, as the planner reckons it
// (planner/moe/live_need.hpp).
CoreElements kernel_need(const LeanPlan& plan, i64 tokens, bool has_map);

// Every kernel that a launch of any live token count can need.
std::vector<KernelVariant> lean_variants(const LeanPlan& plan);

using LeanLaunches = std::variant<LeanDecodeLaunches, LeanPrefillLaunches>;
LeanLaunches lean_launches(const LeanPlan& plan, i64 tokens, const LeanTensors& tensors,
                           const TrellisWeights& weights, const TrellisInputs& inputs);

// Halves from a route's row of expert_rows to the next.
i64 lean_row_pitch(const LeanLaunches& launches);

// Calls `launch` for each, in order, until one fails.
template <class Launch>
Status launch_each(const LeanDecodeLaunches& launches, Launch launch) {
  if (Status done = launch(launches.fc1); !done) return done;
  if (Status done = launch(launches.activate); !done) return done;
  for (const LeanDecodeSlice& slice : launches.slices) {
    if (Status done = launch(slice.fc2); !done) return done;
    if (Status done = launch(slice.sum); !done) return done;
  }
  return Ok{};
}
template <class Launch>
Status launch_each(const LeanPrefillLaunches& launches, Launch launch) {
  if (Status done = launch(launches.route_pack); !done) return done;
  if (Status done = launch(launches.fc1); !done) return done;
  if (Status done = launch(launches.activate); !done) return done;
  for (const LeanPrefillSlice& slice : launches.slices) {
    if (Status done = launch(slice.fc2); !done) return done;
    if (Status done = launch(slice.sum); !done) return done;
  }
  return Ok{};
}

}  // namespace moeplan
