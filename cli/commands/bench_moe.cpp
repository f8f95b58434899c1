// moeplan bench moe: how long the fused MoE of a config takes on this machine's GPU, by token counts and by
// prefill capacities, executors beside each other.
#include <algorithm>

#include "cli/commands/bench_moe_report.hpp"
#include "cli/commands/bench_refusal.hpp"
#include "cli/commands/machine.hpp"
#include "cli/commands/moe_executors.hpp"
#include "cli/commands/number_lists.hpp"
#include "cli/commands/recorded_command.hpp"
#include "cli/io/decimal.hpp"
#include "cli/io/text_file.hpp"
#include "cli/progress.hpp"
#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"
#include "runtime/device/moe_bench.hpp"
#include "runtime/jit/digest.hpp"

namespace moeplan {
namespace {

// Timed where --tokens says nothing, as far as plans hold so many.
constexpr i64 kUsualTokens[] = {1, 2, 4, 8, 16, 32, 64, 512, 1024, 3072};

constexpr NumberRule kTokens = {"--tokens", "1,8,64,3072", 1, kMaxTokens};
constexpr NumberRule kCapacities = {"--capacity", "512,1024,3072", 1, kMaxTokens};

// A rate that people write in thousands of what passes in a nanosecond.
struct RateRule {
  std::string_view option;
  std::string_view unit;
  std::string_view example;
};
constexpr RateRule kDecodeRate = {"--decode-rate", "T weights/s", "4.1"};
constexpr RateRule kFlopRate = {"--flop-rate", "TFLOP/s", "630"};
constexpr i64 kMostRate = 1'000'000;

Result<std::optional<i64>> read_rate(const RateRule& rule, const std::optional<std::string>& text) {
  if (!text) return std::optional<i64>();
  const auto per_ns = scaled_decimal(*text, 1000);
  if (per_ns && *per_ns >= 1 && *per_ns <= 1000 * kMostRate) return per_ns;
  return Error{ErrorCode::invalid_value, "",
               concat(rule.option, text->empty() ? "" : " ", shortened(*text, 40), ": has to be ", rule.unit,
                      " from 0.001 to ", grouped(kMostRate)),
               concat("for example ", rule.option, " ", rule.example)};
}

// What the options ask for, read and within its limits.
struct Asked {
  std::vector<MoeExecutor> executors;
  std::vector<i64> tokens;      // empty: the usual ones, where no capacities are asked for
  std::vector<i64> capacities;  // empty: none
  std::optional<i64> bandwidth_gb_s, decode_per_ns, flops_per_ns;
};

Result<Asked> read_asked(const BenchOptions& options) {
  const auto executors = read_executors(options.executors);
  if (!executors) return executors.error();
  const auto tokens = read_list(kTokens, options.tokens),
             capacities = read_list(kCapacities, options.capacities);
  if (!tokens) return tokens.error();
  if (!capacities) return capacities.error();
  const auto bandwidth = read_number(kBandwidthRule, options.bandwidth_gb_s);
  if (!bandwidth) return bandwidth.error();
  const auto decode = read_rate(kDecodeRate, options.decode_rate),
             flops = read_rate(kFlopRate, options.flop_rate);
  if (!decode) return decode.error();
  if (!flops) return flops.error();
  return Asked{*executors, *tokens, *capacities, *bandwidth, *decode, *flops};
}

// The cases of one paired run: by token counts one an executor, of a chunk one a capacity.
struct PairedCases {
  i64 tokens;
  std::vector<MoeCase> cases;
};

// What a capacity costs, beside its case.
struct CapacityCost {
  i64 arena_bytes;
  i64 scratch_bytes;
};

// A config with its executors' plans.
class MoeConfig {
 public:
  static Result<MoeConfig> create(const Asked& asked, const PlannedConfig& planned,
                                  const BenchOptions& options) {
    MoeConfig config(asked, planned.config->deployment);
    for (const MoeExecutor& executor : asked.executors) {
      auto plans = ExecutorPlans::create(executor, planned, options.configs.overrides, options.plan);
      if (!plans) return plans.error();
      for (const ExecutorPlans& other : config.executors_)
        if (&other.contract() == &plans->contract()) return same_plans(other, *plans);
      config.executors_.push_back(std::move(*plans));
    }
    if (!asked.capacities.empty()) {
      if (!options.plan.empty())
        return Error{ErrorCode::invalid_value, "",
                     "--plan chooses one of the config's plans, and --capacity plans others",
                     "leave one of them out"};
      if (const Status checked = config.check_capacities(); !checked) return checked.error();
    }
    return config;
  }

  std::vector<i64> tokens() const {
    if (!asked_.tokens.empty() || !asked_.capacities.empty()) return asked_.tokens;
    i64 most = executors_.front().largest_capacity();
    for (const ExecutorPlans& plans : executors_) most = min_of(most, plans.largest_capacity());
    std::vector<i64> usual;
    for (const i64 tokens : kUsualTokens)
      if (tokens < most) usual.push_back(tokens);
    usual.push_back(most);
    return usual;
  }

  std::optional<i64> chunk() const {
    return asked_.capacities.empty() ? std::nullopt
                                     : std::optional(deployment_->engine->max_num_batched_tokens);
  }
  std::optional<i64> layers() const {
    return deployment_->model ? moe_layers(*deployment_->model) : std::nullopt;
  }

  // `multiprocessors`: that plans are made for; none: the config's own.
  Result<PairedCases> cases_of(i64 tokens, std::optional<i64> multiprocessors) const {
    PairedCases paired{tokens, {}};
    for (const ExecutorPlans& plans : executors_) {
      auto made = plans.case_of(tokens, multiprocessors);
      if (!made) return made.error();
      paired.cases.push_back(std::move(*made));
    }
    return same_layer(std::move(paired));
  }

  // Of each executor the largest capacity first. `costs`: one a case.
  Result<PairedCases> cases_of_capacities(std::optional<i64> multiprocessors,
                                          std::vector<CapacityCost>* costs = nullptr) const {
    std::vector<i64> falling = asked_.capacities;
    std::ranges::sort(falling, std::greater());
    PairedCases paired{*chunk(), {}};
    for (const ExecutorPlans& plans : executors_) {
      for (const i64 capacity : falling) {
        auto made = plans.case_of_capacity(capacity, multiprocessors);
        if (!made) {
          Error error = made.error();
          error.message = concat("--capacity ", grouped(capacity), " of executor ", plans.executor().name,
                                 ": ", error.message);
          return error;
        }
        if (costs) costs->push_back({made->arena_bytes, made->scratch_bytes});
        paired.cases.push_back(std::move(made->timed));
      }
    }
    return same_layer(std::move(paired));
  }

  // What of the config is not timed, and by which executor.
  std::vector<Finding> left_out() const {
    std::vector<Finding> all;
    for (const ExecutorPlans& plans : executors_) {
      for (Finding finding : plans.left_out()) {
        if (executors_.size() > 1)
          finding.message = concat("executor ", plans.executor().name, ": ", finding.message);
        all.push_back(std::move(finding));
      }
    }
    return all;
  }

  std::optional<i64> gained_tokens(i64 bytes) const {
    const auto cache = stated_kv_cache(*deployment_);
    return cache ? std::optional(tokens_of_bytes(*cache, bytes)) : std::nullopt;
  }

  // "sparkinfer-de04125, moeplan-lean-1": of all cases.
  static std::string contracts_of(const std::vector<PairedCases>& all) {
    std::vector<std::string> names;
    for (const PairedCases& paired : all)
      for (const MoeCase& each : paired.cases)
        if (std::ranges::find(names, each.contract) == names.end()) names.push_back(each.contract);
    return join(names, ", ");
  }

 private:
  MoeConfig(const Asked& asked, const Deployment& deployment) : asked_(asked), deployment_(&deployment) {}

  static Error same_plans(const ExecutorPlans& one, const ExecutorPlans& other) {
    return {ErrorCode::invalid_value, "",
            concat("--executor: ", one.executor().name, " and ", other.executor().name,
                   " both run the plans of ", one.contract().id, ", and there is nothing to compare"),
            concat("leave one of them out, or name another contract: for example --executor ",
                   contracts().front().id, ",lean")};
  }

  // Stated plans may differ: the same weights have to serve all that is compared.
  static Result<PairedCases> same_layer(PairedCases paired) {
    for (const MoeCase& each : paired.cases) {
      const MoeCase& first = paired.cases.front();
      if (each.shape == first.shape) continue;
      return Error{ErrorCode::invalid_value, "",
                   concat("plan ", each.plan_id, " of executor ", each.executor,
                          " is for another layer than plan ", first.plan_id, " of executor ", first.executor),
                   "choose one with --plan"};
    }
    return paired;
  }

  Status check_capacities() const {
    if (Status described = check_described(*deployment_); !described) return described;
    const i64 chunk = deployment_->engine->max_num_batched_tokens;
    const i64 most = std::ranges::max(asked_.capacities);
    if (most <= chunk) return Ok{};
    return refusal(kCapacities, std::to_string(most),
                   concat("a chunk has at most ", grouped(chunk),
                          " tokens, max_num_batched_tokens, and the engine refuses larger capacities"));
  }

  const Asked& asked_;
  const Deployment* deployment_;
  std::vector<ExecutorPlans> executors_;
};

// One run of the command, over its configs.
class BenchMoeRun {
 public:
  BenchMoeRun(const BenchOptions& options, const Asked& asked) : options_(options), asked_(asked) {}

  Result<Report> of_config(const PlannedConfig& planned) {
    const auto config = MoeConfig::create(asked_, planned, options_);
    if (!config) return config.error();
    // Told without a GPU: what no GPU could time.
    std::vector<PairedCases> all;
    for (const i64 tokens : config->tokens()) {
      auto paired = config->cases_of(tokens, std::nullopt);
      if (!paired) return paired.error();
      all.push_back(std::move(*paired));
    }
    if (config->chunk()) {
      auto paired = config->cases_of_capacities(std::nullopt);
      if (!paired) return paired.error();
      all.push_back(std::move(*paired));
    }
    if (!options_.evidence.empty()) {
      if (const Status writable = may_write_file(options_.evidence); !writable) return writable.error();
    }
    if (options_.configs.paths.front() != "-")
      digest_ = Digest{options_.configs.paths.front(), sha256_hex(planned.config->text)};
    const Deployment& deployment = planned.config->deployment;
    const std::vector<Finding> left_out = config->left_out();
    const BenchSubject subject{.name = deployment.name,
                               .contract = MoeConfig::contracts_of(all),
                               .text = subject_of(deployment),
                               .rest = left_out.empty() ? ""
                                                        : concat(" · not timed: ", left_out.size(),
                                                                 left_out.size() == 1 ? " plan" : " plans")};
    if (!machine_) machine_.emplace(open_machine(open_moe_bench));
    if (!*machine_) {
      const Error& error = machine_->error();
      if (options_.if_available && is_unavailable(error))
        return skipped_bench_moe_report(subject, left_out, error);
      return error;
    }
    return timed(*config, subject);
  }

  // What the run comes to: a record that could not be written is worse than any answer.
  ExitCode code(ExitCode answer) const { return is_unwritten_ ? ExitCode::input : answer; }

 private:
  Result<Report> timed(const MoeConfig& config, const BenchSubject& subject) {
    MoeBench& bench = *(**machine_)->runner;
    const auto bandwidth = asked_.bandwidth_gb_s ? Result<Bandwidth>(Bandwidth{*asked_.bandwidth_gb_s, false})
                                                 : bench.copy_bandwidth();
    if (!bandwidth) return bandwidth.error();
    const auto flops =
        asked_.flops_per_ns ? Result<FlopRate>(FlopRate{*asked_.flops_per_ns, false}) : bench.flop_rate();
    if (!flops) return flops.error();
    const MoeMachine machine{bench.gpu().name,
                             bench.gpu().sm_count,
                             {*bandwidth, *flops, asked_.decode_per_ns},
                             bench.clock_trouble()};
    const std::vector<i64> counts = config.tokens();
    MoeTimings timings{.chunk_tokens = config.chunk(), .moe_layers = config.layers()};
    std::vector<Finding> findings = config.left_out();
    i64 runs_done = 0;
    bool is_pass = true;
    const auto note_failure = [&](const std::string& what, const Error& why) {
      is_pass = false;
      findings.push_back(
          {std::string(kNotTimed), "error", "", concat(what, ": ", first_line(why.message)), why.help});
    };
    const i64 runs = std::ssize(counts) + (config.chunk() ? 1 : 0);
    ProgressLine progress(runs, "token counts", !options_.no_progress);
    for (const i64 tokens : counts) {
      auto timing = time(bench, config.cases_of(tokens, bench.gpu().sm_count));
      if (timing)
        timings.by_tokens.push_back(std::move(*timing));
      else
        note_failure(concat(grouped(tokens), tokens == 1 ? " token" : " tokens"), timing.error());
      progress.show(++runs_done);
    }
    if (config.chunk()) {
      std::vector<CapacityCost> costs;
      auto timing = time(bench, config.cases_of_capacities(bench.gpu().sm_count, &costs));
      if (timing)
        timings.capacities = with_costs(config, std::move(*timing), costs);
      else
        note_failure("capacities", timing.error());
      progress.show(++runs_done);
    }
    if (!options_.evidence.empty()) {
      // What was measured is told all the same.
      if (const Status written = write_evidence(machine, timings, is_pass); !written) {
        complain(written.error());
        is_unwritten_ = true;
      }
    }
    Report report = bench_moe_report(subject, machine, timings, std::move(findings));
    note_kernel_dir(report, (**machine_)->compiler);
    return report;
  }

  static Result<std::vector<MoeTiming>> time(MoeBench& bench, const Result<PairedCases>& paired) {
    if (!paired) return paired.error();
    return bench.time(paired->cases, paired->tokens);
  }

  static std::vector<CapacityTiming> with_costs(const MoeConfig& config, std::vector<MoeTiming> timings,
                                                const std::vector<CapacityCost>& costs) {
    std::vector<CapacityTiming> all;
    for (std::size_t i = 0; i < timings.size(); ++i)
      all.push_back({std::move(timings[i]), costs[i].arena_bytes, costs[i].scratch_bytes,
                     config.gained_tokens(costs.front().scratch_bytes - costs[i].scratch_bytes)});
    return all;
  }

  Status write_evidence(const MoeMachine& machine, const MoeTimings& timings, bool is_pass) const {
    Evidence evidence{
        .name = "bench", .command = evidence_command(options_), .config = digest_, .is_pass = is_pass};
    if (Status described = describe_run(evidence, (**machine_)->evidence_run()); !described) return described;
    evidence.facts.push_back({"floors of bytes at", text_of(machine.rates.bandwidth)});
    evidence.facts.push_back({"floors of flops at", text_of(*machine.rates.flops)});
    for (const auto& of_tokens : timings.by_tokens)
      for (const MoeTiming& timing : of_tokens) add_timing(evidence, timing, machine.rates);
    for (const CapacityTiming& each : timings.capacities) add_timing(evidence, each.timing, machine.rates);
    return write_file(options_.evidence, evidence_json(evidence));
  }

  const BenchOptions& options_;
  const Asked& asked_;
  // Looked for when the first config is read: a mistake in it is told ahead of a missing GPU.
  std::optional<Result<std::unique_ptr<Machine<MoeBench>>>> machine_;
  std::optional<Digest> digest_;
  bool is_unwritten_ = false;  // the record
};

}  // namespace

ExitCode run_bench_moe(const BenchOptions& options) {
  if (options.configs.paths.empty())
    return refuse({ErrorCode::missing_field, "", "bench moe times the plans of a config, and none is given",
                   "for example moeplan bench moe -c configs/glm52-e160.json --tokens 1,8,64,3072"},
                  options);
  const auto asked = read_asked(options);
  if (!asked) return refuse(asked.error(), options);
  BenchMoeRun run(options, *asked);
  return run.code(answer_plans(options.configs, options.plan, PlanScope::kernels,
                               [&](const PlannedConfig& planned, const std::vector<DeployedPlan>&) {
                                 return run.of_config(planned);
                               }));
}

}  // namespace moeplan
