#include "cli/commands/planned_config.hpp"

#include <algorithm>

#include "cli/log.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/exl3.hpp"

namespace moeplan {
namespace {

void plan_all(PlannedConfig& planned) {
  Config& config = *planned.config;
  auto requests = plan_requests(config.deployment);
  if (!requests) {
    // The first mistake stopped the plans; the others are as much the user's to mend.
    config.add(requests.error());
    if (check_described(config.deployment) && is_exl3(config.deployment)) {
      for (Error& error : exl3_errors(config.deployment)) config.add(std::move(error));
    }
    return;
  }
  for (DeploymentRequest& origin : *requests) {
    auto layout = plan(origin.request);
    if (layout) {
      planned.plans.push_back({std::move(origin), std::move(*layout)});
      continue;
    }
    config.add(located(origin, layout.error()));
  }
}

void plan_mixed_parts(PlannedConfig& planned) {
  const Deployment& deployment = planned.config->deployment;
  if (!is_exl3(deployment) || deployment.quant->tiers.empty()) return;
  auto runtimes = exl3_runtimes(deployment);
  if (!runtimes) return planned.config->add(runtimes.error());
  planned.mixed_parts = std::move(runtimes->front().parts);
}

// One plan stays within 62 bits, any number of them need not.
void check_total(PlannedConfig& planned) {
  constexpr i64 kMost = i64{1} << 62;
  i64 total = 0;
  for (const PlannedRequest& plan : planned.plans) {
    total += plan.moe() ? plan.moe()->total_bytes : plan.indexer()->total_bytes;
    if (total <= kMost) continue;
    return planned.config->add(Error{ErrorCode::out_of_range, "/plans",
                                     concat("these plans together pass ", kMost, " bytes"),
                                     "split the config"});
  }
}

void find_late_allocations(PlannedConfig& planned) {
  for (const PlannedRequest& plan : planned.plans) {
    const IndexerLayout* layout = plan.indexer();
    if (!layout || plan.origin.request.kind != RequestKind::indexer_paged) continue;
    const auto late = late_allocation(plan.origin.request, *layout);
    if (late) {
      planned.indexer_plans.push_back({&plan.origin.request, layout, *late});
      continue;
    }
    Error error = late.error();
    error.pointer = plan.origin.config_pointer(error.pointer);
    planned.config->add(std::move(error));
  }
}

}  // namespace

std::string PlannedConfig::contract_names() const {
  std::vector<std::string_view> names;
  for (const PlannedRequest& plan : plans) {
    const std::string_view id = plan.moe() ? plan.moe()->contract->id : plan.indexer()->contract->id;
    if (std::ranges::find(names, id) == names.end()) names.push_back(id);
  }
  return join(names, ", ");
}

PlannedConfig plan_config(std::unique_ptr<Config> config) {
  PlannedConfig planned;
  planned.config = std::move(config);
  log_info(concat("read ", planned.config->name, ": ", planned.config->text.size(), " bytes"));
  if (planned.ok()) plan_all(planned);
  if (planned.ok()) plan_mixed_parts(planned);
  if (planned.ok()) check_total(planned);
  if (planned.ok()) find_late_allocations(planned);
  log_info(concat("planned ", planned.plans.size(), " arenas"));
  return planned;
}

std::string subject_of(const Deployment& d) {
  std::vector<std::string> parts;
  if (d.model && d.model->name) parts.push_back(*d.model->name);
  if (d.quant && d.quant->source_format)
    parts.push_back(concat(name_of(*d.quant->source_format),
                           d.quant->bits ? concat(" ", *d.quant->bits, " bpw") : std::string()));
  if (d.parallel) parts.push_back(concat("TP", d.parallel->tp));
  if (d.model && d.parallel && d.model->hidden_size && d.model->moe_intermediate_size)
    parts.push_back(concat("k=", *d.model->hidden_size,
                           " n=", *d.model->moe_intermediate_size / d.parallel->tp,
                           "/rank E=", d.model->n_routed_experts.value_or(0),
                           " topk=", d.model->num_experts_per_tok.value_or(0)));
  if (d.device) {
    std::string device = concat(d.device->name.value_or("device"), ", ", d.device->sm_count, " SMs");
    if (d.device->compute_capability)
      device += concat(", compute capability ", *d.device->compute_capability);
    parts.push_back(std::move(device));
  }
  return join(parts, " · ");
}

}  // namespace moeplan
