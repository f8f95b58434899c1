#include "cli/commands/plan_run.hpp"

#include "cli/progress.hpp"
#include "planner/core/text.hpp"
#include "planner/indexer/plan_indexer.hpp"
#include "planner/moe/plan_moe.hpp"

namespace moeplan {
namespace {

Result<MoeLayout> layout_of(const MoeRequest& request) { return plan_moe(request); }
Result<IndexerLayout> layout_of(const IndexerRequest& request) { return plan_indexer_paged(request); }
KernelPlan kernels_of(const MoeRequest& request, const MoeLayout& layout) {
  return kernel_plan(request, layout);
}
IndexerPlan kernels_of(const IndexerRequest& request, const IndexerLayout& layout) {
  return indexer_plan(request, layout, *request.device.sm_count);
}

// A plan as it runs here: the config's, or made anew for this GPU's multiprocessors.
template <class Request, class Layout, class Kernels>
struct Executed {
  Request request;
  Layout layout;
  Kernels kernels;
};
using ExecutedPlan = Executed<MoeRequest, MoeLayout, KernelPlan>;
using ExecutedIndexer = Executed<IndexerRequest, IndexerLayout, IndexerPlan>;

template <class Plan>
Result<Plan> executed_plan(const decltype(Plan::request)& planned, i64 sms) {
  auto request = planned;
  request.device.sm_count = sms;
  const auto layout = layout_of(request);
  if (!layout) return layout.error();
  if (std::string missing = planned_kernels(request, *layout).missing; !missing.empty())
    return Error{ErrorCode::no_kernels, "", std::move(missing), ""};
  return Plan{request, *layout, kernels_of(request, *layout)};
}

Placement placed(const PlannedArena& arena, GuardMode mode) {
  const auto& tensors = arena.layout.tensors;
  return place_guarded(std::span(tensors.begin(), tensors.size()), arena.total_bytes, mode);
}

// Runs one plan and notes what became of it.
class PlanRun {
 public:
  PlanRun(std::string id, const RunSettings& settings)
      : shared_limit_(settings.shared_limit), options_(settings.options), validator_(settings.validator) {
    result_.id = std::move(id);
  }
  virtual ~PlanRun() = default;

  ValidatedPlan run() {
    if (const Status done = run_all(); !done)
      result_.findings.push_back({rule_of(done.error().code), "error", result_.pointer,
                                  concat(plan_name(result_.id), " could not be run: ", done.error().message),
                                  done.error().help});
    return std::move(result_);
  }

 protected:
  virtual Status run_all() = 0;

  // As many as the plan is run with.
  i64 note_executed_sms() {
    result_.executed_sms = options_.emulate ? result_.planned_sms : validator_.gpu().sm_count;
    return result_.executed_sms;
  }

  template <class Plan, class Launch>
  Result<std::vector<Measurement>> measure(const Plan& kernels, const Placement& placement,
                                           const std::vector<Launch>& launches,
                                           RoomCheck room_check = RoomCheck::on) {
    ProgressLine line(std::ssize(launches), concat("launches of ", result_.id), !options_.no_progress);
    return validator_.measure(kernels, placement, std::span<const Launch>(launches), room_check,
                              [&](std::size_t done, std::size_t) { line.show(static_cast<i64>(done)); });
  }

  template <class Plan, class Launch>
  Status shrink(const Plan& executed, const std::vector<Launch>& launches, const std::string& tensor) {
    if (result_.shrunk.empty()) result_.shrunk = "the plan's own";
    auto shrinks =
        shrink_tensors(executed.layout, tensor, [&](const Placement& placement, RoomCheck room_check) {
          return measure(executed.kernels, placement, launches, room_check);
        });
    if (!shrinks) return shrinks.error();
    result_.shrinks = std::move(*shrinks);
    return Ok{};
  }

  void check_shared_memory(const std::vector<KernelVariant>& variants) {
    for (const KernelVariant& variant : variants) {
      const i64 bytes = shared_bytes_of(variant);
      if (bytes <= shared_limit_.bytes) continue;
      Finding finding =
          shared_memory_finding(text_of(variant), variant.kernel, bytes, shared_limit_, result_.pointer);
      finding.message = concat(plan_name(result_.id), ": ", finding.message);
      result_.findings.push_back(std::move(finding));
    }
  }

  const SharedLimit& shared_limit_;
  const ValidateOptions& options_;
  Validator& validator_;
  ValidatedPlan result_;

 private:
  static const char* rule_of(ErrorCode code) {
    if (code == ErrorCode::grid_not_resident) return "not-resident";
    return code == ErrorCode::scratch_too_small ? "refused" : "not-run";
  }
};

class MoeRun final : public PlanRun {
 public:
  MoeRun(const DeployedPlan& plan, const LayerWeights* weights, const RunSettings& settings)
      : PlanRun(plan.id(), settings), plan_(plan), weights_(weights) {
    const MoeRequest& request = plan_.request();
    result_.pointer = plan_.origin.config_pointer("");
    result_.capacity = request.capacity.tokens();
    result_.planned_sms = request.multiprocessors();
    result_.planned_bytes = plan_.layout.total_bytes;
    if (plan_.layout.weight_layout == WeightLayout::trellis) result_.bits = request.weights.bits();
    if (weights_) result_.weights = weights_->source();
  }

 private:
  Status run_all() override {
    validator_.use_layer(weights_);
    const auto executed = executed_plan<ExecutedPlan>(plan_.request(), note_executed_sms());
    if (!executed) return executed.error();
    result_.executed_bytes = executed->layout.total_bytes;
    const KernelPlan& kernels = executed->kernels;
    const i64 capacity = fused_plan(kernels).capacity;
    result_.tolerance = tolerance_of(kernels);
    check_shared_memory(variants_of(kernels));

    const TestLaunches launches = launches_to_validate(fused_plan(kernels), plan_.may_have(ExpertMap::absent),
                                                       plan_.may_have(ExpertMap::present));
    result_.launches_left_out = launches.left_out;
    auto packed = measure(kernels, placed(executed->layout, GuardMode::packed), launches.launches);
    if (!packed) return packed.error();
    result_.packed = std::move(*packed);

    std::vector<TestLaunch> few;
    if (capacity > kStrictTokens) few.push_back({kStrictTokens, RoutingKind::uniform, has_map()});
    few.push_back({capacity, RoutingKind::uniform, has_map()});
    auto strict = measure(kernels, placed(executed->layout, GuardMode::strict), few);
    if (!strict) return strict.error();
    result_.strict = std::move(*strict);

    return options_.shrink.empty() ? shrink_all(*executed) : shrink_of(*executed, options_.shrink);
  }

  // Every tensor of a small plan of the same kind.
  Status shrink_all(const ExecutedPlan& executed) {
    const auto small = executed_plan<ExecutedPlan>(
        small_request(executed.request, *executed.layout.weight_layout), executed.request.multiprocessors());
    if (!small) return small.error();
    result_.shrunk = concat("small: ", small->request.capacity.tokens(), " tokens");
    result_.shrinks_made_up =
        weights_ && !(weights_->shape() == experts_shape(trellis_layer_plan(small->kernels)));
    return shrink_of(*small, "");
  }

  Status shrink_of(const ExecutedPlan& executed, const std::string& tensor) {
    return shrink(executed,
                  launches_to_shrink(fused_plan(executed.kernels), plan_.may_have(ExpertMap::absent),
                                     plan_.may_have(ExpertMap::present)),
                  tensor);
  }

  bool has_map() const { return !plan_.may_have(ExpertMap::absent); }

  // Of a small launch; the capacity is run beside it.
  static constexpr i64 kStrictTokens = 33;

  const DeployedPlan& plan_;
  const LayerWeights* weights_;  // null: made up
};

class IndexerRun final : public PlanRun {
 public:
  IndexerRun(const DeployedIndexer& plan, std::string pointer, const RunSettings& settings)
      : PlanRun(plan.request->id, settings), plan_(plan) {
    result_.pointer = std::move(pointer);
    const IndexerRequest& request = plan.request->indexer;
    result_.capacity = *request.caps.max_q_rows;
    result_.planned_sms = request.device.sm_count.value_or(validator_.gpu().sm_count);
    result_.planned_bytes = plan.layout->total_bytes;
  }

 private:
  Status run_all() override {
    const auto executed = executed_plan<ExecutedIndexer>(plan_.request->indexer, note_executed_sms());
    if (!executed) return executed.error();
    result_.executed_bytes = executed->layout.total_bytes;
    const IndexerPlan& kernels = executed->kernels;
    result_.tolerance = indexer_tolerance(validator_.gpu().compute_capability);
    check_shared_memory(indexer_variants(kernels));

    auto packed = measure(kernels, placed(executed->layout, GuardMode::packed), calls_to_validate(kernels));
    if (!packed) return packed.error();
    result_.packed = std::move(*packed);
    auto strict = measure(kernels, placed(executed->layout, GuardMode::strict), calls_to_shrink(kernels));
    if (!strict) return strict.error();
    result_.strict = std::move(*strict);

    if (!options_.shrink.empty()) return shrink(*executed, calls_to_shrink(kernels), options_.shrink);
    const auto small = executed_plan<ExecutedIndexer>(
        small_request(executed->request, executed->layout.route), result_.executed_sms);
    if (!small) return small.error();
    result_.shrunk = concat("small: ", small->kernels.rows, " rows, ", small->kernels.pages, " pages");
    return shrink(*small, calls_to_shrink(small->kernels), "");
  }

  const DeployedIndexer& plan_;
};

}  // namespace

ValidatedPlan run_plan(const DeployedPlan& plan, const LayerWeights* weights, const RunSettings& settings) {
  return MoeRun(plan, weights, settings).run();
}

ValidatedPlan run_plan(const DeployedIndexer& plan, std::string pointer, const RunSettings& settings) {
  return IndexerRun(plan, std::move(pointer), settings).run();
}

}  // namespace moeplan
