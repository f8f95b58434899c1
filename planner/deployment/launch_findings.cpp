#include "planner/deployment/launch_findings.hpp"

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

struct Case {
  const Deployment& deployment;
  const DeployedPlan& plan;
  const PlanLaunches& launches;
};

Finding failure_finding(const DeployedPlan& plan, const Error& failure) {
  const bool modelled = failure.code != ErrorCode::launch_not_modelled;
  return {modelled ? "launch-fails" : "launch-not-modelled", modelled ? "error" : "note",
          plan.origin.config_pointer(failure.pointer), concat(plan_name(plan.id()), ": ", failure.message),
          failure.help};
}

Finding finding(const Case& c, std::string_view rule, std::string_view level,
                std::string_view request_pointer, std::string message, std::string remedy = "") {
  return {std::string(rule), std::string(level), c.plan.origin.config_pointer(request_pointer),
          concat(plan_name(c.plan.id()), ": ", message), std::move(remedy)};
}

void check_failure(const Case& c, std::vector<Finding>& out) {
  if (c.launches.failure) out.push_back(failure_finding(c.plan, *c.launches.failure));
}

std::string cold_remedy(const Case& c) {
  const i64 capacity = c.plan.request().capacity.tokens(), bucket = pow2_ceil(capacity);
  if (bucket != capacity && !bucket_fits(*c.launches.plan, capacity))
    return concat("the bucket of ", grouped(bucket), " tokens does not fit ", grouped(capacity), ": ",
                  c.plan.engine_made() ? "max_num_batched_tokens" : "a capacity", " of ", grouped(bucket / 2),
                  " or ", grouped(bucket), ", unsliced, leaves one kernel a power of two");
  if (c.plan.engine_made() && !c.deployment.engine->cudagraph_capture_sizes)
    return "state cudagraph_capture_sizes: the warm-up of each graph compiles its kernel";
  return "run one eager step of each bucket before serving";
}

void check_cold(const Case& c, std::vector<Finding>& out) {
  if (c.launches.failure) return;
  const Coverage coverage = coverage_of(c.launches.runs);
  if (coverage.cold_keys == 0) return;
  std::vector<LiveRange> cold;
  for (const KeyRun& run : c.launches.runs) {
    if (run.warmth.cold()) cold.push_back(run.tokens);
  }
  out.push_back(finding(
      c, "launch-cold", "warning", "/capacity/max_tokens",
      concat(coverage.cold_keys, " of ", coverage.keys, " kernels compile at first use, mid-serve: at ",
             ranges_text(united(cold)), " live tokens"),
      cold_remedy(c)));
}

void check_prewarm(const Case& c, std::vector<Finding>& out) {
  if (c.launches.failure || c.launches.runs.empty()) return;
  if (coverage_of(c.launches.runs).prewarmed_tokens > 0 || c.launches.plan->contract->launch_takes_pin)
    return;
  out.push_back(
      finding(c, "launch-prewarm-dead", "note", "/weights/trellis_tile_config",
              concat("what is compiled with it is never launched: launches differ in ",
                     join(key_differences(c.launches.runs.back().key, c.launches.prewarmed.back()), "; "))));
}

void check_capture(const Case& c, std::vector<Finding>& out) {
  if (c.launches.warmed_by_capture_alone.empty()) return;
  const std::string what = concat("graphs of ", join(c.launches.warmed_by_capture_alone, ", "),
                                  " rows rely on the warm-up before their capture");
  switch (c.launches.plan->contract->capture_miss) {
    case CaptureMiss::compiles:
      out.push_back(finding(
          c, "launch-capture-compile", "warning", "/capacity/max_tokens",
          concat(what, ": without it their kernels would compile inside the capture, which nothing guards"),
          "keep the eager warm-up of every captured size"));
      return;
    case CaptureMiss::raises:
      out.push_back(finding(c, "launch-capture-compile", "note", "/capacity/max_tokens",
                            concat(what, ": without it the capture raises")));
      return;
    case CaptureMiss::unknown:
      out.push_back(
          finding(c, "launch-capture-compile", "note", "/capacity/max_tokens",
                  concat(what, ": whether this revision compiles inside a capture or raises is not known")));
  }
}

// One row a rule, in the order in which findings of a plan are told.
constexpr void (*kRules[])(const Case&, std::vector<Finding>&) = {check_failure, check_cold, check_prewarm,
                                                                  check_capture};

}  // namespace

std::string compiled_text(const Warmth& warmth) {
  std::vector<std::string_view> by;
  if (warmth.prewarmed) by.push_back("with the plan");
  if (warmth.profiled) by.push_back("by the profile run");
  if (warmth.captured) by.push_back("before capture");
  return by.empty() ? "at first use, mid-serve" : join(by, ", ");
}

std::string plan_name(std::string_view id) {
  return id.starts_with("plan ") ? std::string(id) : concat("plan ", id);
}

std::string range_text(i64 first, i64 last) {
  return first == last ? grouped(first) : concat(grouped(first), "..", grouped(last));
}

std::string ranges_text(const std::vector<LiveRange>& ranges) {
  std::vector<std::string> parts;
  for (const LiveRange& range : ranges) parts.push_back(range_text(range.first, range.last));
  return join(parts, ", ");
}

std::vector<Finding> launch_findings(const Deployment& deployment, std::span<const DeployedPlan* const> plans,
                                     std::span<const PlanLaunches* const> launches) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    for (const auto& rule : kRules) rule({deployment, *plans[i], *launches[i]}, findings);
  }
  return findings;
}

std::vector<Finding> launch_failures(const std::vector<DeployedPlan>& plans, i64 shared_memory) {
  std::vector<Finding> findings;
  const auto views = stepped(plans);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const auto failure = launch_failure(views[i], shared_memory);
    if (failure && failure->code != ErrorCode::launch_not_modelled)
      findings.push_back(failure_finding(plans[i], *failure));
  }
  return findings;
}

}  // namespace moeplan
