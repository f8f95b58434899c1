#include "cli/commands/covered_plans.hpp"

#include <algorithm>

#include "cli/commands/plan_choice.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/launch_findings.hpp"
#include "runtime/planned_kernels.hpp"

namespace moeplan {

std::string config_pointer(const PlannedConfig& planned, const DeployedIndexer& indexer) {
  for (const PlannedRequest& plan : planned.plans)
    if (&plan.origin.request == indexer.request) return plan.origin.config_pointer("");
  return "";
}

Result<CoveredPlans> covered_plans(const PlannedConfig& planned, const std::vector<DeployedPlan>& plans,
                                   const std::string& choice, PlanVerb verb, CoveredScope scope) {
  const bool is_all = scope == CoveredScope::all;
  CoveredPlans covered;
  const auto lacks = [&](const std::string& id, std::string_view name, std::string pointer,
                         const PlannedKernels& kernels) {
    covered.findings.push_back({"no-kernels", "warning", std::move(pointer),
                                concat(name, " is not ", verb.participle, ": ", kernels.missing),
                                std::string(kernels.remedy)});
    covered.uncovered.push_back(id);
  };
  for (const DeployedPlan& plan : plans) {
    if (!is_all || !is_chosen(plan.id(), choice)) continue;
    const PlannedKernels kernels = planned_kernels(plan.request(), plan.layout);
    if (kernels.missing.empty())
      covered.plans.push_back(&plan);
    else
      lacks(plan.id(), plan_name(plan.id()), plan.origin.config_pointer(""), kernels);
  }
  for (const DeployedIndexer& plan : planned.indexer_plans) {
    const std::string& id = plan.request->id;
    if (!is_chosen(id, choice)) continue;
    const PlannedKernels kernels = planned_kernels(plan.request->indexer, *plan.layout);
    if (kernels.missing.empty())
      covered.indexers.push_back(&plan);
    else
      lacks(id, plan_name(id), config_pointer(planned, plan), kernels);
  }
  for (const RuntimePart& part : planned.mixed_parts) {
    if (is_all && is_chosen(part.name, choice))
      lacks(part.name, part.name, "/quant/tiers",
            {{}, "this build has no kernels of its own for one grid of mixed bit widths", ""});
  }
  if (choice.empty()) {
    for (Finding& finding : indexer_not_planned(planned.config->deployment))
      covered.findings.push_back(std::move(finding));
  }
  if (!covered.plans.empty() || !covered.indexers.empty()) return covered;
  Finding nothing{.message = "it has neither a fused-MoE plan nor a paged indexer plan",
                  .remedy = "state model, quant, parallel, device and deployment, or plans"};
  if (!is_all) {
    std::vector<std::string_view> ids;
    for (const DeployedIndexer& plan : planned.indexer_plans) ids.push_back(plan.request->id);
    nothing = ids.empty()
                  ? Finding{.pointer = "/model",
                            .message = "the config has no paged indexer plan",
                            .remedy = "state the model's index_topk and index_n_heads, or indexer plans"}
                  : Finding{.message = concat(plan_name(choice), " is no paged indexer plan"),
                            .remedy = concat("the config's paged indexer plans are ", join(ids, ", "))};
  }
  const Finding& why = covered.findings.empty() ? nothing : covered.findings.front();
  return Error{ErrorCode::no_kernels, why.pointer,
               concat(choice.empty() ? "no plan of this config has kernels in this build, so " : "",
                      "there is nothing to ", verb.infinitive, ": ", why.message),
               why.remedy.empty() ? "moeplan help no-kernels says what has" : why.remedy};
}

std::string rest_text(const std::vector<std::string>& uncovered, const std::vector<Finding>& findings) {
  const bool lacks_indexer =
      std::ranges::find(findings, kIndexerNotPlanned, &Finding::rule) != findings.end();
  return concat(uncovered.empty() ? "" : concat(" · no kernels for ", join(uncovered, ", ")),
                lacks_indexer ? " · indexer not planned" : "");
}

}  // namespace moeplan
