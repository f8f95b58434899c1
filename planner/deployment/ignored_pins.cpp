#include "planner/deployment/ignored_pins.hpp"

#include <algorithm>

#include "planner/core/text.hpp"
#include "planner/deployment/exl3_settings.hpp"

namespace moeplan {
namespace {

constexpr std::string_view kBlockSizes[] = {"VLLM_EXL3_TRELLIS_BLOCK_M", "VLLM_EXL3_PREFILL_BLOCK_M"};

Finding ignored(std::string pointer, std::string_view what, const Contract& contract) {
  return {std::string(kIgnoredPin), "note", std::move(pointer),
          concat(what, " is for an engine's kernels and changes nothing here: plans of ", contract.id,
                 " have blocks and tiles of their own"),
          "leave it for the contracts of engines, or drop it"};
}

}  // namespace

bool is_ignored_variable(const Deployment& d, std::string_view variable) {
  return d.engine && d.contract && d.contract->lean_executor &&
         std::ranges::find(kBlockSizes, variable) != std::end(kBlockSizes);
}

std::vector<Finding> ignored_pins(const Deployment& d) {
  std::vector<Finding> findings;
  for (const std::string_view variable : kBlockSizes) {
    if (is_ignored_variable(d, variable) && find_variable(d.engine->env, variable))
      findings.push_back(ignored(environment_pointer(variable), variable, *d.contract));
  }
  for (std::size_t i = 0; i < d.plans.size(); ++i) {
    const PlanRequest& plan = d.plans[i];
    if (!is_moe(plan.kind) || !plan.moe.contract || !plan.moe.contract->lean_executor) continue;
    if (plan.moe.capacity.block_size_m)
      findings.push_back(
          ignored(concat("/plans/", i, "/capacity/block_size_m"), "block_size_m", *plan.moe.contract));
    if (plan.moe.weights.trellis_tile_config)
      findings.push_back(ignored(concat("/plans/", i, "/weights/trellis_tile_config"), "trellis_tile_config",
                                 *plan.moe.contract));
  }
  return findings;
}

}  // namespace moeplan
