#include "cli/commands/plan_choice.hpp"

#include <algorithm>

#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"

namespace moeplan {

namespace {

// The error where no plan is meant names those there are.
Status check_choice(const std::vector<DeployedPlan>& plans, const std::string& choice) {
  std::vector<std::string_view> ids;
  for (const DeployedPlan& plan : plans) ids.push_back(plan.id());
  if (choice.empty() || std::ranges::find(ids, choice) != ids.end()) return Ok{};
  const auto near = did_you_mean(choice, ids);
  return Error{ErrorCode::unknown_value, "", concat("--plan ", choice, ": the config has no such MoE plan"),
               near          ? concat("did you mean \"", *near, "\"?")
               : ids.empty() ? "it has none at all"
                             : concat("it has ", join(ids, ", "))};
}

}  // namespace

bool is_chosen(std::string_view plan_id, const std::string& choice) {
  return choice.empty() || plan_id == choice;
}

ExitCode answer_plans(
    const ConfigOptions& options, const std::string& choice,
    const std::function<Result<Report>(const PlannedConfig&, const std::vector<DeployedPlan>&)>& report) {
  bool wrong_option = false;
  const ExitCode code = answer_configs(options, [&](const PlannedConfig& planned) -> Result<Report> {
    const auto plans = deployed_plans(planned.config->deployment);
    if (!plans) return plans.error();
    if (auto s = check_choice(*plans, choice); !s) {
      wrong_option = true;
      return s.error();
    }
    auto answer = report(planned, *plans);
    wrong_option = wrong_option || (!answer && answer.error().pointer.empty());
    return answer;
  });
  return wrong_option ? ExitCode::usage : code;
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
