#include "planner/deployment/deployed_audit.hpp"

#include <algorithm>

#include "planner/core/text.hpp"
#include "planner/deployment/exl3_reach.hpp"
#include "planner/deployment/launch_findings.hpp"
#include "planner/moe/plan_moe.hpp"

namespace moeplan {
namespace {

// The plan whose reserve its arena has: the largest that lies in it.
bool fills_arena(const AuditedPlan& audited, std::span<const AuditedPlan> all) {
  return std::ranges::none_of(all, [&](const AuditedPlan& other) {
    if (other.plan->arena != audited.plan->arena || &other == &audited) return false;
    const i64 bytes = audited.reserve.total_bytes;
    return other.reserve.total_bytes > bytes || (other.reserve.total_bytes == bytes && &other < &audited);
  });
}

}  // namespace

std::optional<i64> AuditedPlan::counter_example() const {
  std::optional<i64> smallest;
  for (const MoeAudit& audit : audits) {
    const auto found = audit.counter_example();
    if (found && (!smallest || *found < *smallest)) smallest = found;
  }
  return smallest;
}

Result<AuditedPlan> audit_plan(const DeployedPlan& plan, const AuditAssumptions& assumptions) {
  AuditedPlan audited{&plan, plan.layout, {}};
  if (plan.layout.implementation != Implementation::w4a16) return audited;
  MoeRequest reserved = plan.request();
  if (!reserved.capacity.block_size_m && reserved.kind == MoeKind::tensor_parallel)
    reserved.capacity.block_size_m = assumptions.block_size;
  reserved.assumed_blocks = assumptions.blocks;
  const auto reserve = plan_moe(reserved);
  if (!reserve) return located(plan.origin, reserve.error());
  audited.reserve = *reserve;
  // What a launch does is the request's affair: an assumed block size binds the reserve alone.
  MoeLayout launched = audited.reserve;
  launched.route_block_size_m = plan.layout.route_block_size_m;
  for (ExpertMap map : {ExpertMap::absent, ExpertMap::present}) {
    const bool wanted = plan.engine_made() || !assumptions.expert_map || *assumptions.expert_map == map;
    if (plan.may_have(map) && wanted)
      audited.audits.push_back(audit_moe(plan.request(), launched, map, assumptions.search));
  }
  if (audited.audits.empty())
    return Error{ErrorCode::invalid_value, "",
                 concat("launches of ", plan_name(plan.id()), " under ", plan.request().contract->id,
                        *assumptions.expert_map == ExpertMap::present ? " never come with an expert map"
                                                                      : " always come with an expert map"),
                 "leave --expert-map out"};
  return audited;
}

std::vector<UnusedOfPlan> unused_of(const Deployment& deployment, std::span<const AuditedPlan> audited) {
  std::vector<UnusedOfPlan> all;
  for (const AuditedPlan& a : audited) {
    if (a.audits.empty() || !fills_arena(a, audited)) continue;
    std::vector<UnusedBytes> unused;
    if (!is_unreached(*a.plan))
      unused = unused_bytes(a.plan->request(), a.reserve, a.audits, a.plan->engine_made());
    for (const auto& rows : {unused, unscheduled_bytes(*a.plan, unused)}) {
      for (const UnusedBytes& row : rows) all.push_back({a.plan->id(), row});
    }
  }
  if (deployment.engine && is_exl3(deployment)) {
    for (UnusedStaging& staging : unused_staging(deployment))
      all.push_back({std::move(staging.runtime), std::move(staging.unused)});
  }
  return all;
}

}  // namespace moeplan
