// moeplan validate: runs the kernels of every plan that has some in an arena of exactly its bytes, against a
// reference.
#include <algorithm>

#include "cli/commands/covered_plans.hpp"
#include "cli/commands/finish.hpp"
#include "cli/commands/machine.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/plan_choice.hpp"
#include "cli/commands/plan_run.hpp"
#include "cli/commands/recorded_command.hpp"
#include "cli/commands/sanitizer.hpp"
#include "cli/commands/validate_report.hpp"
#include "cli/io/text_file.hpp"
#include "cli/log.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"
#include "runtime/device/validator.hpp"
#include "runtime/jit/digest.hpp"
#include "runtime/moe/trellis_layer_plan.hpp"
#include "runtime/weights/layer_weights.hpp"

namespace moeplan {
namespace {

// The layer of --weights, opened once for every shape that plans have.
class WeightsOfShapes {
 public:
  WeightsOfShapes(std::string path, i64 layer) : path_(std::move(path)), layer_(layer) {}

  // Null: plans run layers that are made up. Error: the file does not hold what the plan runs.
  Result<const LayerWeights*> of(const MoeRequest& request, const MoeLayout& layout) {
    if (path_.empty() || layout.weight_layout != WeightLayout::trellis) return nullptr;
    const ExpertsShape shape = experts_shape(trellis_layer_plan(request, layout));
    for (const auto& known : opened_)
      if (known->shape() == shape) return known.get();
    auto weights = LayerWeights::open(path_, layer_, shape);
    if (!weights) return weights.error();
    opened_.push_back(std::make_unique<LayerWeights>(std::move(*weights)));
    return opened_.back().get();
  }

 private:
  std::string path_;
  i64 layer_;
  std::vector<std::unique_ptr<const LayerWeights>> opened_;
};

Status write_evidence(const ValidateOptions& options, const Config& config,
                      const std::vector<ValidatedPlan>& plans, bool is_valid,
                      const Machine<Validator>& machine) {
  Evidence evidence{.name = "validate", .command = evidence_command(options), .is_pass = is_valid};
  const std::string& path = options.configs.paths.front();
  if (path != "-") evidence.config = Digest{path, sha256_hex(config.text)};
  const Status described = describe_run(evidence, machine.evidence_run());
  if (!described) return described;
  add_samples(evidence, plans);
  return write_file(options.evidence, evidence_json(evidence));
}

// --shrink has to name a tensor of a plan that is run.
Status check_shrink(const CoveredPlans& covered, const std::string& tensor) {
  std::vector<std::string_view> names;
  const auto add = [&](const ArenaLayout& arena) {
    for (const TensorSpec& spec : arena.tensors) {
      if (spec.offset != kOutsideArena && std::ranges::find(names, spec.name) == names.end())
        names.push_back(spec.name);
    }
  };
  for (const DeployedPlan* plan : covered.plans) add(plan->layout.arena);
  for (const DeployedIndexer* plan : covered.indexers) add(plan->layout->arena);
  if (tensor.empty() || std::ranges::find(names, tensor) != names.end()) return Ok{};
  const auto near = did_you_mean(tensor, names);
  return Error{ErrorCode::unknown_value, "", concat("--shrink ", tensor, ": no plan that is run has it"),
               near ? concat("did you mean \"", *near, "\"?") : concat("they have ", join(names, ", "))};
}

Result<Report> answer(const PlannedConfig& planned, const std::vector<DeployedPlan>& deployed,
                      const ValidateOptions& options, WeightsOfShapes& weights,
                      std::optional<Result<std::unique_ptr<Machine<Validator>>>>& machine, bool& unwritten) {
  auto some = covered_plans(planned, deployed, options.plan, {"run", "run"});
  if (!some) return some.error();
  CoveredPlans& covered = *some;
  if (const Status known = check_shrink(covered, options.shrink); !known) return known.error();
  std::vector<const LayerWeights*> layers;
  for (const DeployedPlan* plan : covered.plans) {
    const auto layer = weights.of(plan->request(), plan->layout);
    if (!layer) return layer.error();
    layers.push_back(*layer);
  }
  if (!options.weights.empty() && std::ranges::count(layers, nullptr) == std::ssize(layers))
    return Error{ErrorCode::weights_refused, "",
                 concat("--weights ", options.weights, ": no plan that is run has Trellis weights"),
                 "leave --weights and --layer out"};

  if (!options.evidence.empty()) {
    if (const Status writable = may_write_file(options.evidence); !writable) return writable.error();
  }

  // Behind the mistakes that are told without a GPU; returns when there is no compute-sanitizer.
  if (!options.sanitizer.empty()) {
    const Error error = run_sanitized(options.sanitizer);
    return options.if_available ? Result<Report>(skipped_report(planned, options, covered, error)) : error;
  }
  if (!machine) machine.emplace(open_machine(open_validator));
  if (!*machine) {
    const Error& error = machine->error();
    if (options.if_available && is_unavailable(error))
      return skipped_report(planned, options, covered, error);
    return error;
  }
  Machine<Validator>& opened = ***machine;
  const GpuProfile& gpu = opened.runner->gpu();
  const DeviceSettings device = planned.config->deployment.device.value_or(DeviceSettings{});
  const RunSettings settings{
      shared_limit(gpu.shared_bytes_per_block, gpu.name,
                   options.emulate ? device.shared_memory_per_block_optin : std::nullopt),
      options, *opened.runner};
  std::vector<ValidatedPlan> plans;
  for (std::size_t i = 0; i < covered.plans.size(); ++i)
    plans.push_back(run_plan(*covered.plans[i], layers[i], settings));
  for (const DeployedIndexer* plan : covered.indexers)
    plans.push_back(run_plan(*plan, config_pointer(planned, *plan), settings));

  Report report = validate_report(planned, {gpu.name, gpu.sm_count, options.emulate}, plans,
                                  covered.uncovered, std::move(covered.findings));
  note_kernel_dir(report, opened.compiler);
  if (!options.evidence.empty()) {
    // What was seen is told all the same.
    if (const Status written = write_evidence(options, *planned.config, plans, !report.answered_no, opened);
        !written) {
      complain(written.error());
      unwritten = true;
    }
  }
  return report;
}

}  // namespace

ExitCode run_validate(const ValidateOptions& options) {
  if (!options.evidence.empty() && options.configs.paths.size() != 1) {
    complain({ErrorCode::invalid_value, "", "--evidence is a record of one config",
              "run moeplan validate once for each"});
    return ExitCode::usage;
  }
  if (!options.sanitizer.empty() && std::ranges::count(options.configs.paths, "-") > 0) {
    complain({ErrorCode::invalid_value, "",
              "--sanitizer reads the config again, and standard input is read once", "name a file"});
    return ExitCode::usage;
  }
  // Looked for when the first config is read: a mistake in it is told ahead of a missing GPU.
  std::optional<Result<std::unique_ptr<Machine<Validator>>>> machine;
  WeightsOfShapes weights(options.weights, options.layer);
  bool unwritten = false;  // the record
  const ExitCode code =
      answer_plans(options.configs, options.plan, PlanScope::kernels,
                   [&](const PlannedConfig& planned, const std::vector<DeployedPlan>& plans) {
                     return answer(planned, plans, options, weights, machine, unwritten);
                   });
  return unwritten ? ExitCode::input : code;
}

}  // namespace moeplan
