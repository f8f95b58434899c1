#include "runtime/bench/moe_timing.hpp"

#include <variant>

#include "planner/core/text.hpp"
#include "planner/moe/plan_moe.hpp"
#include "runtime/bench/quantile.hpp"

namespace moeplan {
namespace {

constexpr i64 kMostLayers = 8;
constexpr i64 kTimesOfCache = 2;  // what a turn of the layers reads

}  // namespace

Result<MoeCase> moe_case(std::string executor, std::string plan_id, MoeRequest request, i64 multiprocessors) {
  request.device.sm_count = multiprocessors;
  auto layout = plan_moe(request);
  if (!layout) return layout.error();
  const auto refused = [](std::string why, std::string_view remedy) {
    return Error{ErrorCode::no_kernels, "", std::move(why), std::string(remedy)};
  };
  if (layout->weight_layout != WeightLayout::trellis)
    return refused("it is no Trellis plan, and no others are timed",
                   "give a deployment of an EXL3 checkpoint");
  if (PlannedKernels kernels = planned_kernels(request, *layout); !kernels.missing.empty())
    return refused(std::move(kernels.missing), kernels.remedy);
  KernelPlan plan = kernel_plan(request, *layout);
  const FusedPlan& fused = fused_plan(plan);
  if (!fused.may_lack_map)
    return refused("its launches bring an expert map, and none is timed with one", "choose another plan");
  const MoeShape shape{fused.hidden, fused.intermediate, fused.experts, fused.top_k, request.weights.bits()};
  const i64 capacity = fused.capacity;
  return MoeCase{std::move(executor),
                 std::string(request.contract->id),
                 std::move(plan_id),
                 capacity,
                 shape,
                 std::move(*layout),
                 std::move(plan)};
}

MoeWork& MoeWork::operator+=(const MoeWork& other) {
  bytes += other.bytes;
  weights += other.weights;
  flops += other.flops;
  return *this;
}

MoeWork work_of(const MoeShape& shape, i64 tokens, i64 distinct) {
  const i64 weights = 3 * shape.hidden * shape.intermediate;   // gate, up, down of an expert
  const i64 scales = 3 * (shape.hidden + shape.intermediate);  // a half for each row and column of them
  return {.bytes = distinct * (weights * shape.bits / 8 + 2 * scales) + tokens * shape.hidden * (2 + 4),
          .weights = distinct * weights,
          .flops = 2 * tokens * shape.top_k * weights};
}

i64 rotating_layers(i64 call_bytes, i64 l2_bytes) {
  return max_of(min_of(ceil_div(kTimesOfCache * l2_bytes, max_of(call_bytes, 1)), kMostLayers), 2);
}

i64 moe_calls(i64 tokens, i64 layers) {
  const i64 wanted = tokens <= 64 ? 16 : tokens <= 1024 ? 6 : 2;
  return align_up(wanted, layers);
}

std::vector<i64> launch_tokens(i64 tokens, i64 capacity) {
  std::vector<i64> launches;
  for (i64 left = tokens; left > 0; left -= capacity) launches.push_back(min_of(left, capacity));
  return launches;
}

i64 MoeTiming::call_ns(i64 percent) const { return rounded_div(quantile(replays, percent), calls); }
i64 MoeTiming::gb_s() const { return rounded_div(work.bytes, max_of(median(replays), 1)); }
i64 MoeTiming::gflop_s() const { return rounded_div(work.flops, max_of(median(replays), 1)); }

i64 byte_floor_permille(const MoeTiming& timing, const MoeRates& rates) {
  return floor_permille(timing.work.bytes, rates.bandwidth.gb_s, median(timing.replays));
}
std::optional<i64> decode_floor_permille(const MoeTiming& timing, const MoeRates& rates) {
  if (!rates.decode_per_ns) return std::nullopt;
  return floor_permille(timing.work.weights, *rates.decode_per_ns, median(timing.replays));
}
std::optional<i64> flop_floor_permille(const MoeTiming& timing, const MoeRates& rates) {
  if (!rates.flops) return std::nullopt;
  return floor_permille(timing.work.flops, rates.flops->per_ns, median(timing.replays));
}

std::string name_of(const MoeTiming& timing) {
  return concat(timing.executor, ", ", timing.plan_id, " of ", timing.capacity, ", ", timing.tokens,
                timing.tokens == 1 ? " token" : " tokens");
}

void add_timing(Evidence& evidence, const MoeTiming& timing, const MoeRates& rates) {
  const std::string name = name_of(timing);
  const auto fact = [&](std::string_view what, double value) {
    evidence.facts.push_back({concat(name, ", ", what), value});
  };
  evidence.samples.push_back(
      {name, concat("ns a ", timing.calls, timing.calls == 1 ? " call" : " calls"), timing.replays});
  fact("median microseconds", static_cast<double>(timing.call_ns()) / 1000);
  fact("of its time for its bytes alone", static_cast<double>(byte_floor_permille(timing, rates)) / 1000);
  if (const auto permille = decode_floor_permille(timing, rates))
    fact("of its time for decoding alone", static_cast<double>(*permille) / 1000);
  if (const auto permille = flop_floor_permille(timing, rates))
    fact("of its time for multiplying alone", static_cast<double>(*permille) / 1000);
  if (timing.sm_mhz) evidence.facts.push_back({concat(name, ", SM MHz"), *timing.sm_mhz});
}

}  // namespace moeplan
