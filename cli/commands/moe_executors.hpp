// Who runs a config's fused MoE, and in which of its plans: what moeplan bench moe compares.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/planned_config.hpp"
#include "planner/deployment/deployed_plans.hpp"
#include "runtime/bench/moe_timing.hpp"

namespace moeplan {

// A name for kernels in plans of a contract.
struct MoeExecutor {
  std::string name;
  std::string contract;  // "": the config's own
  bool operator==(const MoeExecutor&) const = default;
};

// Of "faithful,lean": names of executors, or ids of contracts, each once. None given: faithful. Error: a name
// that is none, or one whose contract this build does not have.
Result<std::vector<MoeExecutor>> read_executors(const std::optional<std::string>& list);
std::vector<std::string> executor_names();

// A plan whose capacity is chosen, as the deployment would have it, and what that costs a rank.
struct CapacityCase {
  MoeCase timed;
  i64 arena_bytes = 0;    // of the plan
  i64 scratch_bytes = 0;  // of all of the deployment's MoE runtimes
};

// The Trellis plans that a config has under an executor's contract.
class ExecutorPlans {
 public:
  // `planned` has to outlive it. `choice`: this plan alone; "" is all. Error: the config cannot be planned
  // under the contract, or none of those plans is a Trellis plan that kernels of ours run.
  static Result<ExecutorPlans> create(const MoeExecutor& executor, const PlannedConfig& planned,
                                      const ConfigOverrides& overrides, const std::string& choice);

  const MoeExecutor& executor() const { return executor_; }
  const Contract& contract() const { return *deployment_->contract; }
  // A warning for each fused-MoE plan that is meant and not timed.
  const std::vector<Finding>& left_out() const { return left_out_; }
  i64 largest_capacity() const { return plans_.back().request().capacity.tokens(); }

  // In the smallest plan that holds the tokens, made for so many multiprocessors; none: of the config's own.
  Result<MoeCase> case_of(i64 tokens, std::optional<i64> multiprocessors) const;
  // In the prefill plan of that capacity.
  Result<CapacityCase> case_of_capacity(i64 capacity, std::optional<i64> multiprocessors) const;

 private:
  ExecutorPlans(MoeExecutor executor, const Deployment& deployment)
      : executor_(std::move(executor)), deployment_(&deployment) {}
  Status find_plans(const std::string& choice);
  Result<MoeCase> made(const DeployedPlan& plan, std::optional<i64> multiprocessors) const;
  // " or ...": what makes the engine plan for more tokens; "": nothing that the deployment states.
  std::string how_to_hold(i64 tokens) const;

  MoeExecutor executor_;
  std::unique_ptr<Config> own_config_;  // planned under another contract than the command's
  const Deployment* deployment_;
  std::vector<DeployedPlan> plans_;  // by capacity, rising
  std::vector<Finding> left_out_;
};

}  // namespace moeplan
