// moeplan size: how many bytes does each rank reserve, arena by arena, tensor by tensor?
#pragma once

#include <span>

#include "planner/core/report.hpp"
#include "planner/deployment/plan_requests.hpp"
#include "planner/moe/layout.hpp"

namespace moeplan {

// A plan of a deployment with its arena.
struct SizedPlan {
  const PlanRequest* request;
  MoeLayout layout;
};

// Call after plan_requests and, for mixed bit widths, exl3_runtimes accepted the deployment.
Report size_report(const Deployment& deployment, std::span<const SizedPlan> plans);

}  // namespace moeplan
