// What an operator should know of a deployment's launches: kernels that compile mid-serve, prewarmed ones
// that nothing launches, captures that rely on their warm-up, plans that cannot be launched. Source:
// docs/launches.md.
#pragma once

#include <span>
#include <vector>

#include "planner/core/report.hpp"
#include "planner/deployment/deployed_plans.hpp"

namespace moeplan {

// Of plans and their launches, in the same order; rules in the order of their table.
std::vector<Finding> launch_findings(const Deployment& deployment, std::span<const DeployedPlan* const> plans,
                                     std::span<const PlanLaunches* const> launches);

// The plans that cannot be launched at all.
std::vector<Finding> launch_failures(const std::vector<DeployedPlan>& plans, i64 shared_memory);

// "plan decode"; an id that says plan itself stays as it is.
std::string plan_name(std::string_view id);

// When a key is compiled: "with the plan, before capture", "at first use, mid-serve".
std::string compiled_text(const Warmth& warmth);

// "65..128, 700": counts as people read them.
std::string ranges_text(const std::vector<LiveRange>& ranges);
std::string range_text(i64 first, i64 last);

}  // namespace moeplan
