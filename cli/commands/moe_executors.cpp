#include "cli/commands/moe_executors.hpp"

#include <algorithm>

#include "cli/commands/plan_choice.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/exl3.hpp"
#include "planner/deployment/fit.hpp"

namespace moeplan {
namespace {

constexpr std::string_view kDefault = "faithful";

struct ExecutorRow {
  std::string_view name;
  std::string_view contract;  // "": the config's own
};
constexpr std::string_view kLeanContract = "moeplan-lean-1";
constexpr ExecutorRow kExecutors[] = {
    {kDefault, ""},
    {"lean", kLeanContract},
};

Error refused(std::string_view name, std::string what, std::string help) {
  return {ErrorCode::unknown_value, "", concat("--executor ", shortened(name, 40), ": ", what),
          std::move(help)};
}

Result<MoeExecutor> executor_named(std::string_view name) {
  if (const auto* row = std::ranges::find(kExecutors, name, &ExecutorRow::name);
      row != std::end(kExecutors)) {
    if (row->contract.empty() || find_contract(row->contract))
      return MoeExecutor{std::string(name), std::string(row->contract)};
    std::vector<std::string_view> ids;
    for (const Contract& contract : contracts()) ids.push_back(contract.id);
    Error error = refused(name, concat("this build has no contract ", row->contract, ", whose plans it runs"),
                          concat("its contracts are ", join(ids, ", ")));
    error.code = ErrorCode::unknown_contract;
    return error;
  }
  if (find_contract(name)) return MoeExecutor{std::string(name), std::string(name)};
  const std::vector<std::string> known = executor_names();
  const std::vector<std::string_view> words(known.begin(), known.end());
  const auto near = did_you_mean(name, words);
  return refused(name, "there is no such executor, and no contract of that id",
                 near ? concat("did you mean \"", *near, "\"?") : concat("there are ", join(words, ", ")));
}

}  // namespace

std::vector<std::string> executor_names() {
  std::vector<std::string> names;
  for (const ExecutorRow& row : kExecutors) names.emplace_back(row.name);
  for (const Contract& contract : contracts()) names.emplace_back(contract.id);
  return names;
}

Result<std::vector<MoeExecutor>> read_executors(const std::optional<std::string>& list) {
  constexpr std::size_t kMostExecutors = 8;
  const std::string text = list.value_or(std::string(kDefault));
  std::vector<MoeExecutor> executors;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view name = std::string_view(text).substr(at, end - at);
    if (name.empty())
      return refused(text, text.empty() ? "the list is empty" : "an item is empty",
                     "for example --executor faithful,lean");
    auto executor = executor_named(name);
    if (!executor) return executor.error();
    if (std::ranges::find(executors, *executor) != executors.end())
      return refused(text, concat(name, " is named twice"), "name each once");
    executors.push_back(std::move(*executor));
    if (executors.size() > kMostExecutors)
      return refused(text, concat("more than ", kMostExecutors, " executors"),
                     "compare them in several runs");
    at = end + 1;
  }
  return executors;
}

Result<ExecutorPlans> ExecutorPlans::create(const MoeExecutor& executor, const PlannedConfig& planned,
                                            const ConfigOverrides& overrides, const std::string& choice) {
  ExecutorPlans plans(executor, planned.config->deployment);
  if (!executor.contract.empty()) {
    ConfigOverrides of_executor = overrides;
    of_executor.contract = executor.contract;
    plans.own_config_ = parse_config(planned.config->name, planned.config->text, of_executor);
    if (!plans.own_config_->problems.empty()) {
      Error error = plans.own_config_->problems.front().error;
      error.message = concat("executor ", executor.name, ": ", error.message);
      return error;
    }
    plans.deployment_ = &plans.own_config_->deployment;
  }
  if (const Status found = plans.find_plans(choice); !found) return found.error();
  for (const RuntimePart& part : planned.mixed_parts) {
    if (is_chosen(part.name, choice))
      plans.left_out_.push_back({"no-kernels", "warning", "/quant/tiers",
                                 concat(part.name,
                                        " is not timed: this build has no kernels of its own for one "
                                        "grid of mixed bit widths"),
                                 ""});
  }
  return plans;
}

Status ExecutorPlans::find_plans(const std::string& choice) {
  auto all = deployed_plans(*deployment_);
  if (!all) return all.error();
  for (DeployedPlan& plan : *all) {
    if (!is_chosen(plan.id(), choice)) continue;
    const auto made_here = made(plan, std::nullopt);
    // A tier of a mixed checkpoint is a part of a step, and its launches bring a map.
    if (made_here && plan.may_have(ExpertMap::absent)) {
      plans_.push_back(std::move(plan));
      continue;
    }
    left_out_.push_back({"no-kernels", "warning", plan.origin.config_pointer("/weights/source_format"),
                         concat("plan ", plan.id(), " is not timed: ",
                                made_here ? "its launches bring an expert map" : made_here.error().message),
                         made_here ? "" : made_here.error().help});
  }
  std::ranges::stable_sort(plans_, {},
                           [](const DeployedPlan& plan) { return plan.request().capacity.tokens(); });
  if (!plans_.empty()) return Ok{};
  Error why{
      ErrorCode::no_kernels, "",
      choice.empty() ? "the config has no fused-MoE plan" : concat("plan ", choice, " is no fused-MoE plan"),
      "give a deployment of an EXL3 checkpoint, as configs/glm52-e160.json is"};
  if (!left_out_.empty()) {
    const Finding& first = left_out_.front();
    why = {ErrorCode::no_kernels, first.pointer, first.message,
           first.remedy.empty() ? "moeplan help no-kernels says what has kernels" : first.remedy};
  }
  why.message = concat(executor_.contract.empty() ? "" : concat("executor ", executor_.name, ": "),
                       "there is no Trellis plan to time: ", why.message);
  return why;
}

Result<MoeCase> ExecutorPlans::made(const DeployedPlan& plan, std::optional<i64> multiprocessors) const {
  return moe_case(executor_.name, plan.id(), plan.request(),
                  multiprocessors.value_or(plan.request().multiprocessors()));
}

std::string ExecutorPlans::how_to_hold(i64 tokens) const {
  const DeployedPlan& largest = plans_.back();
  if (!largest.engine_made()) return "";
  if (largest_capacity() >= deployment_->engine->max_num_batched_tokens)
    return concat(", or --set /deployment/max_num_batched_tokens=", tokens);
  return is_exl3_decode(largest.id()) ? "" : ", or raise VLLM_EXL3_PREFILL_CAPACITY";
}

Result<MoeCase> ExecutorPlans::case_of(i64 tokens, std::optional<i64> multiprocessors) const {
  for (const DeployedPlan& plan : plans_) {
    if (plan.request().capacity.tokens() >= tokens) return made(plan, multiprocessors);
  }
  return Error{ErrorCode::invalid_value, "",
               concat("--tokens: ", grouped(tokens), " are more than plan ", plans_.back().id(),
                      " of executor ", executor_.name, " holds, ", grouped(largest_capacity())),
               concat("give at most ", grouped(largest_capacity()), how_to_hold(tokens))};
}

Result<CapacityCase> ExecutorPlans::case_of_capacity(i64 capacity, std::optional<i64> multiprocessors) const {
  const Deployment other = with_prefill_capacity(*deployment_, capacity);
  const auto plans = deployed_plans(other);
  if (!plans) return plans.error();
  for (const DeployedPlan& plan : *plans) {
    const bool is_prefill = plan.engine_made() && !is_exl3_decode(plan.id());
    if (!is_prefill || plan.request().capacity.tokens() != capacity || !plan.may_have(ExpertMap::absent))
      continue;
    auto timed = made(plan, multiprocessors);
    if (!timed) return timed.error();
    const auto scratch = scratch_bytes_of(other);
    if (!scratch) return scratch.error();
    return CapacityCase{std::move(*timed), plan.layout.total_bytes, *scratch};
  }
  return Error{ErrorCode::no_kernels, "/deployment",
               "the deployment has no prefill plan whose capacity could be another",
               "prefill plans are EXL3's, where VLLM_EXL3_PREFILL_TRELLIS is 1 and more tokens are scheduled "
               "than VLLM_EXL3_TRELLIS_MAX_M"};
}

}  // namespace moeplan
