// moeplan bench indexer: how long calls of the indexer take on this machine's GPU, of a config's plans or of
// shapes that the command line states.
#include <algorithm>

#include "cli/commands/bench_refusal.hpp"
#include "cli/commands/bench_report.hpp"
#include "cli/commands/bench_shapes.hpp"
#include "cli/commands/covered_plans.hpp"
#include "cli/commands/finish.hpp"
#include "cli/commands/machine.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/plan_choice.hpp"
#include "cli/commands/recorded_command.hpp"
#include "cli/import/engine_contracts.hpp"
#include "cli/io/text_file.hpp"
#include "cli/progress.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/indexer_requests.hpp"
#include "runtime/device/indexer_bench.hpp"
#include "runtime/jit/digest.hpp"

namespace moeplan {
namespace {

// A shape with the request of the plan that it runs in.
struct WantedShape {
  IndexerShape shape;
  std::string plan_id;
  IndexerRequest request;
  std::string pointer;  // of the plan in its config; "": of none
};

// Rows of the plan's calls that share pages, where --group says nothing.
i64 rows_per_request(const PlannedConfig& planned, const DeployedIndexer& plan) {
  const auto& engine = planned.config->deployment.engine;
  for (const PlannedRequest& each : planned.plans) {
    const bool is_engines = &each.origin.request == plan.request && each.origin.stated_index < 0;
    if (is_engines && engine) return decode_rows_per_request(*engine);
  }
  return 1;
}

// One run of the command, over one config or none.
class BenchRun {
 public:
  BenchRun(const BenchOptions& options, const ShapeLists& lists) : options_(options), lists_(lists) {}

  Result<Report> of_shapes() {
    const auto shapes = listed_shapes(lists_, options_.is_prefill);
    if (!shapes) return shapes.error();
    const std::string& chosen = options_.configs.overrides.contract;
    const Contract* contract = find_contract(chosen.empty() ? kAssumedContract : std::string_view(chosen));
    std::vector<WantedShape> wanted;
    for (const IndexerShape& shape : *shapes)
      wanted.push_back({shape, shape.is_prefill ? "prefill" : "decode", request_of(shape, *contract), ""});
    return timed(
        wanted,
        {.contract = std::string(contract->id), .text = "each shape in a paged indexer plan of its own"}, {});
  }

  Result<Report> of_config(const PlannedConfig& planned, const std::vector<DeployedPlan>& plans) {
    const Deployment& deployment = planned.config->deployment;
    auto covered = covered_plans(planned, plans, options_.plan, {"time", "timed"}, CoveredScope::indexers);
    if (!covered) return covered.error();
    std::vector<WantedShape> wanted;
    for (const DeployedIndexer* plan : covered->indexers) {
      const std::string& id = plan->request->id;
      const IndexerRequest& request = plan->request->indexer;
      const auto shapes = planned_shapes(lists_, id, indexer_plan(request, *plan->layout, 1),
                                         rows_per_request(planned, *plan));
      if (!shapes) return shapes.error();
      for (const IndexerShape& shape : *shapes)
        wanted.push_back({shape, id, request, config_pointer(planned, *plan)});
    }
    const bool has_groups =
        std::ranges::any_of(wanted, [](const WantedShape& each) { return !each.shape.is_prefill; });
    if (lists_.group && !has_groups)
      return Error{ErrorCode::invalid_value, "",
                   concat("--group ", *lists_.group,
                          ": rows of a prefill share the pages of one request, and no other plan is timed"),
                   "leave --group out, or choose a decode plan with --plan"};
    if (options_.configs.paths.front() != "-")
      config_ = Digest{options_.configs.paths.front(), sha256_hex(planned.config->text)};
    BenchSubject subject{
        .name = deployment.name, .contract = planned.contract_names(), .text = subject_of(deployment)};
    subject.rest = rest_text(covered->uncovered, covered->findings);
    return timed(wanted, subject, std::move(covered->findings));
  }

  // What the run comes to: a record that could not be written is worse than any answer.
  ExitCode code(ExitCode answer) const { return is_unwritten_ ? ExitCode::input : answer; }

 private:
  static Result<std::vector<IndexerCase>> cases_of(const std::vector<WantedShape>& wanted,
                                                   i64 multiprocessors) {
    std::vector<IndexerCase> cases;
    for (const WantedShape& each : wanted) {
      auto made = indexer_case(each.shape, each.plan_id, each.request, multiprocessors);
      if (!made)
        return Error{made.error().code, each.pointer, concat(name_of(each.shape), ": ", made.error().message),
                     made.error().help};
      cases.push_back(std::move(*made));
    }
    return cases;
  }

  // `findings`: of plans that are not timed.
  Result<Report> timed(const std::vector<WantedShape>& wanted, const BenchSubject& subject,
                       std::vector<Finding> findings) {
    // Told without a GPU: what no GPU could time.
    if (const auto checked = cases_of(wanted, 1); !checked) return checked.error();
    if (!options_.evidence.empty()) {
      if (const Status writable = may_write_file(options_.evidence); !writable) return writable.error();
    }
    if (!machine_) machine_.emplace(open_machine(open_indexer_bench));
    if (!*machine_) {
      const Error& error = machine_->error();
      if (options_.if_available && is_unavailable(error))
        return skipped_bench_report(subject, std::move(findings), error);
      return error;
    }
    IndexerBench& bench = *(**machine_)->runner;
    const auto cases = cases_of(wanted, bench.gpu().sm_count);
    if (!cases) return cases.error();
    const auto bandwidth = lists_.bandwidth_gb_s ? Result<Bandwidth>(Bandwidth{*lists_.bandwidth_gb_s, false})
                                                 : bench.copy_bandwidth();
    if (!bandwidth) return bandwidth.error();
    const BenchMachine machine{bench.gpu().name, bench.gpu().sm_count, *bandwidth};

    std::vector<IndexerTiming> timings;
    bench.expect(*cases);
    ProgressLine progress(std::ssize(*cases), "shapes", !options_.no_progress);
    for (std::size_t i = 0; i < cases->size(); ++i) {
      const auto timing = bench.time((*cases)[i], TimedFolds::one);
      if (timing)
        timings.push_back(timing->front());
      else
        findings.push_back({std::string(kNotTimed), "error", wanted[i].pointer,
                            concat(name_of((*cases)[i].shape), ": ", first_line(timing.error().message)),
                            timing.error().help});
      progress.show(static_cast<i64>(i) + 1);
    }
    if (!options_.evidence.empty()) {
      const Status written = write_evidence(machine, timings, std::ssize(timings) == std::ssize(*cases));
      // What was measured is told all the same.
      if (!written) {
        complain(written.error());
        is_unwritten_ = true;
      }
    }
    Report report = bench_report(subject, machine, timings, std::move(findings));
    note_kernel_dir(report, (**machine_)->compiler);
    return report;
  }

  Status write_evidence(const BenchMachine& machine, const std::vector<IndexerTiming>& timings,
                        bool is_pass) const {
    Evidence evidence{
        .name = "bench", .command = evidence_command(options_), .config = config_, .is_pass = is_pass};
    const Status described = describe_run(evidence, (**machine_)->evidence_run());
    if (!described) return described;
    evidence.facts.push_back({"floors of bytes at", text_of(machine.bandwidth)});
    for (const IndexerTiming& timing : timings)
      add_timing(evidence, timing, machine.bandwidth, comparable_peer(timing.shape, machine));
    return write_file(options_.evidence, evidence_json(evidence));
  }

  const BenchOptions& options_;
  const ShapeLists& lists_;
  // Looked for when the first shapes are read: a mistake in them is told ahead of a missing GPU.
  std::optional<Result<std::unique_ptr<Machine<IndexerBench>>>> machine_;
  std::optional<Digest> config_;
  bool is_unwritten_ = false;  // the record
};

}  // namespace

ExitCode run_bench_indexer(const BenchOptions& options) {
  const std::vector<std::string>& paths = options.configs.paths;
  if (paths.empty() && !options.configs.overrides.sets.empty())
    return refuse({ErrorCode::invalid_value, "", "--set changes a config, and none is given", "add -c FILE"},
                  options);
  const auto lists = read_shape_lists(options);
  if (!lists) return refuse(lists.error(), options);
  BenchRun run(options, *lists);
  if (!paths.empty())
    return run.code(answer_plans(options.configs, options.plan, PlanScope::kernels,
                                 [&](const PlannedConfig& planned, const std::vector<DeployedPlan>& plans) {
                                   return run.of_config(planned, plans);
                                 }));
  const auto report = run.of_shapes();
  if (!report) return refuse(report.error(), options);
  return run.code(finish({&*report, 1}, {}, options.configs.report));
}

}  // namespace moeplan
