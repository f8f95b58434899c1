#include "planner/deployment/plan_requests.hpp"

#include "planner/core/text.hpp"
#include "planner/deployment/exl3.hpp"
#include "planner/deployment/indexer_requests.hpp"

namespace moeplan {
namespace {

// A deployment is described by all of these sections or by none.
Status check_sections(const Deployment& d, bool* described) {
  const std::pair<std::string_view, bool> sections[] = {{"model", d.model.has_value()},
                                                        {"quant", d.quant.has_value()},
                                                        {"parallel", d.parallel.has_value()},
                                                        {"deployment", d.engine.has_value()}};
  *described = false;
  for (const auto& [name, present] : sections) *described = *described || present;
  if (!*described && d.plans.empty())
    return Error{ErrorCode::missing_field, "/deployment",
                 "the config describes no deployment and states no plans",
                 "add model, quant, parallel, device and deployment, or plans"};
  if (!*described) return Ok{};
  for (const auto& [name, present] : sections) {
    if (!present)
      return Error{ErrorCode::missing_field, concat("/", name), concat(name, " is missing"),
                   "a deployment needs model, quant, parallel, device and deployment"};
  }
  if (!d.device)
    return Error{ErrorCode::missing_field, "/device", "device is missing", "add it with at least sm_count"};
  return Ok{};
}

}  // namespace

bool is_exl3(const Deployment& deployment) {
  const auto source = deployment.quant ? deployment.quant->source_format : std::nullopt;
  return source == SourceFormat::exl3_trellis_mcg || source == SourceFormat::btx;
}

Status check_described(const Deployment& deployment) {
  bool described = false;
  if (auto s = check_sections(deployment, &described); !s) return s;
  if (!described)
    return Error{ErrorCode::missing_field, "/deployment", "the config describes no deployment",
                 "add model, quant, parallel, device and deployment"};
  return Ok{};
}

std::string DeploymentRequest::config_pointer(std::string_view request_pointer) const {
  if (stated_index >= 0) return concat("/plans/", stated_index, request_pointer);
  return is_moe(request.kind) ? exl3_config_pointer(request.id, request_pointer)
                              : indexer_config_pointer(request_pointer);
}

Error located(const DeploymentRequest& origin, Error error) {
  error.message = concat("plan \"", origin.request.id, "\": ", error.message);
  error.pointer = origin.config_pointer(error.pointer);
  return error;
}

Result<std::vector<DeploymentRequest>> plan_requests(const Deployment& deployment) {
  bool described = false;
  if (auto s = check_sections(deployment, &described); !s) return s.error();
  std::vector<DeploymentRequest> requests;
  if (described) {
    if (!is_exl3(deployment)) {
      const Quantization& quant = *deployment.quant;
      return Error{ErrorCode::unsupported_deployment,
                   quant.source_format ? "/quant/source_format" : "/quant/weights",
                   concat("how an engine plans ",
                          quant.source_format ? name_of(*quant.source_format)
                          : quant.weights     ? kWeightFormatNames[static_cast<int>(*quant.weights)]
                                              : std::string_view("such"),
                          " deployments is not modelled"),
                   "state the plans themselves under \"plans\"; exl3_trellis_mcg deployments are modelled"};
    }
    auto made = exl3_requests(deployment);
    if (!made) return made.error();
    for (PlanRequest& request : *made) requests.push_back({std::move(request), -1});
    auto indexer = indexer_requests(deployment);
    if (!indexer) return indexer.error();
    for (PlanRequest& request : *indexer) requests.push_back({std::move(request), -1});
  }
  for (std::size_t i = 0; i < deployment.plans.size(); ++i) {
    requests.push_back({deployment.plans[i], static_cast<int>(i)});
    PlanRequest& request = requests.back().request;
    if (request.id.empty()) request.id = concat("plan ", i);
  }
  return requests;
}

}  // namespace moeplan
