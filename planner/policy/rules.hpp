// Policy rules: one row each. A rule looks at one config, and at what its baseline keeps of it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/report.hpp"
#include "planner/deployment/deployed_plans.hpp"
#include "planner/deployment/indexer_findings.hpp"
#include "planner/policy/difference.hpp"
#include "planner/policy/policy.hpp"

namespace moeplan {

// What rules look at.
struct CheckSubject {
  const Deployment& deployment;
  const std::vector<DeployedPlan>& plans;
  std::span<const PlanLaunches> launches;  // of `plans`, in their order; empty where the device's shared
                                           // memory is not stated
  std::span<const DeployedIndexer> indexer_plans;
  const Snapshot& now;
  const Snapshot* baseline;      // null: none is given
  const Difference* difference;  // of the baseline to now; null without one
  bool baseline_lacks_config;    // a baseline is given and does not know this config
};

struct PolicyRule {
  std::string_view id;     // "MP001"
  std::string_view title;  // what holds when the rule is silent
  std::string_view fires;  // what makes it fire
  std::string_view remedy;
  RuleLevel level;                           // without a policy
  std::span<const std::string_view> limits;  // members of RuleSettings that it takes
};
std::span<const PolicyRule> policy_rules();

// Index into policy_rules(), or -1.
int find_rule(std::string_view id);

// Findings of every rule that is not off, in the order of the rules. A waived finding is a note that says so;
// `used` notes, by index into policy.waivers, which waivers were needed.
std::vector<Finding> check_policy(const CheckSubject& subject, const Policy& policy, const Date& today,
                                  std::vector<bool>& used);

// What is wrong with the waivers themselves: expired ones are errors, ones that nothing needed notes.
// Pointers lead into the policy.
std::vector<Finding> waiver_findings(const Policy& policy, const Date& today, const std::vector<bool>& used);

}  // namespace moeplan
