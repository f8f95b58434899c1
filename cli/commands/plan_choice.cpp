#include "cli/commands/plan_choice.hpp"

#include <algorithm>

#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"

namespace moeplan {

namespace {

// Of a plan that the config's indexer would have if more were stated.
std::optional<Error> unplanned_indexer(const Deployment& deployment, const std::string& choice) {
  const auto findings = indexer_not_planned(deployment);
  if (findings.empty() || !choice.starts_with("indexer ")) return std::nullopt;
  std::vector<std::string> fields;
  for (const Finding& finding : findings)
    fields.push_back(finding.pointer.substr(finding.pointer.rfind('/') + 1));
  const std::string names = join(fields, ", ", " and ");
  return Error{ErrorCode::missing_field, findings.front().pointer,
               concat("--plan ", choice, ": the indexer's arenas are not planned without ", names),
               concat("state ", names, " of the deployment; there are no defaults to guess")};
}

// The error where no plan is meant names those there are.
Status check_choice(const PlannedConfig& planned, const std::vector<DeployedPlan>& plans,
                    const std::string& choice, PlanScope scope) {
  std::vector<std::string_view> ids;
  for (const DeployedPlan& plan : plans) ids.push_back(plan.id());
  if (scope == PlanScope::kernels) {
    for (const DeployedIndexer& plan : planned.indexer_plans) ids.push_back(plan.request->id);
    for (const RuntimePart& part : planned.mixed_parts) ids.push_back(part.name);
  }
  if (choice.empty() || std::ranges::find(ids, choice) != ids.end()) return Ok{};
  if (scope == PlanScope::kernels) {
    if (auto error = unplanned_indexer(planned.config->deployment, choice)) return *std::move(error);
  }
  const auto near = did_you_mean(choice, ids);
  return Error{
      ErrorCode::unknown_value, "",
      concat("--plan ", choice, ": the config has no such ", scope == PlanScope::moe ? "MoE plan" : "plan"),
      near          ? concat("did you mean \"", *near, "\"?")
      : ids.empty() ? "it has none at all"
                    : concat("it has ", join(ids, ", "))};
}

}  // namespace

ExitCode exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::unsupported_architecture:
    case ErrorCode::no_nvrtc:
    case ErrorCode::no_device:
    case ErrorCode::no_sanitizer:
    case ErrorCode::cuda_failure:
      return ExitCode::no_device;
    case ErrorCode::kernel_source:
    case ErrorCode::no_kernels:
    case ErrorCode::unreadable:
    case ErrorCode::unwritable:
    case ErrorCode::weights_refused:
      return ExitCode::input;
    default:
      return ExitCode::usage;
  }
}

bool is_unavailable(const Error& error) {
  return error.code == ErrorCode::no_device || error.code == ErrorCode::no_nvrtc ||
         error.code == ErrorCode::unsupported_architecture;
}

bool is_chosen(std::string_view plan_id, const std::string& choice) {
  return choice.empty() || plan_id == choice;
}

ExitCode answer_plans(
    const ConfigOptions& options, const std::string& choice, PlanScope scope,
    const std::function<Result<Report>(const PlannedConfig&, const std::vector<DeployedPlan>&)>& report) {
  // Bad input is told whichever config comes last; of other errors the first decides.
  std::optional<ExitCode> other;
  std::size_t asked = 0;
  bool is_bad_input = false;
  const ExitCode code = answer_configs(options, [&](const PlannedConfig& planned) -> Result<Report> {
    const auto plans = deployed_plans(planned.config->deployment);
    if (!plans) return plans.error();
    const Status chosen = check_choice(planned, *plans, choice, scope);
    auto answer = chosen ? report(planned, *plans) : Result<Report>(chosen.error());
    ++asked;
    if (!answer) {
      const ExitCode of_error =
          answer.error().pointer.empty() ? exit_code_of(answer.error().code) : ExitCode::input;
      if (of_error == ExitCode::input) is_bad_input = true;
      if (!other) other = of_error;
    }
    return answer;
  });
  is_bad_input = is_bad_input || asked < options.paths.size();
  return other && !is_bad_input ? *other : code;
}

std::optional<KvCache> stated_kv_cache(const Deployment& deployment) {
  if (!check_described(deployment)) return std::nullopt;
  const auto cache = kv_cache_of(deployment);
  if (!cache) return std::nullopt;
  return *cache;
}

Cell kv_tokens_cell(const std::optional<KvCache>& cache, i64 bytes) {
  return cache ? Cell(tokens_of_bytes(*cache, bytes)) : Cell();
}

}  // namespace moeplan
