#include "runtime/device/packed_bench.hpp"

#include <cmath>

#include "runtime/oracle/packed_reference.hpp"

namespace moeplan {
namespace {

// Scales as checkpoints have them lie between 1/4 and 4, and bf16 layers multiply them by a power of two
// before they become bytes, of which eight are a factor of two.
constexpr double kScaleFactor = 64;
constexpr int kLowestScale = 0xA0, kBehindHighestScale = 0xC0;
constexpr int kRaisedBytes = 8 * 6;

// Of weights: the four bits of e2m1 and scales of that range, in the root of the mean of their squares.
constexpr double kWeightSize = 4.8;
// Of an activation between the products: of gate and up near one.
constexpr double kActivatedSize = 0.6;

PackedReferenceArguments reference_of(const PackedLayer& layer) {
  const PackedWeights& w = layer.weights;
  return {.step = {},
          .hidden = layer.hidden,
          .intermediate = layer.intermediate,
          .experts = layer.experts,
          .is_bfloat16 = layer.is_bfloat16,
          .w13 = w.w13,
          .w2 = w.w2,
          .w13_scales = w.w13_scales,
          .w2_scales = w.w2_scales,
          .w13_globals = layer.w13_globals,
          .w2_globals = layer.w2_globals,
          .weights = layer.decoded};
}

Status compute_reference(PackedReferenceArguments reference, Launches& launches) {
  for (const auto step : {PackedReferenceStep::multiply_fc1, PackedReferenceStep::activate,
                          PackedReferenceStep::multiply_fc2, PackedReferenceStep::sum}) {
    reference.step = step;
    if (Status done = launches.step(kPackedReference, reference); !done) return done;
  }
  return Ok{};
}

Status run_launches(const PackedLaunches& planned, const LaunchSite& site, Launches& launches) {
  if (planned.route_pack) {
    if (Status done = launches.run(*planned.route_pack, site); !done) return done;
  }
  if (Status done = launches.run(planned.fused, site); !done) return done;
  return launches.run(planned.route_sum, site);
}

// An expert's differs from its neighbours', so that taking another's shows.
std::vector<double> globals_of(i64 experts, double size) {
  std::vector<double> globals;
  for (i64 expert = 0; expert < experts; ++expert)
    globals.push_back(size * (0.75 + static_cast<double>(expert * 5 % 8) / 16));
  return globals;
}

}  // namespace

bool PackedLayer::serves(const PackedPlan& plan) const {
  return hidden == plan.hidden && intermediate == plan.intermediate && experts == plan.experts &&
         is_bfloat16 == plan.is_bfloat16;
}

Result<PackedLayer> make_layer(const PackedPlan& plan, Launches& launches) {
  const i64 hidden = plan.hidden, intermediate = plan.intermediate, experts = plan.experts;
  const i64 matrix = experts * hidden * intermediate;
  Places places;
  const i64 w13 = places.take(matrix), w2 = places.take(matrix / 2);
  const i64 w13_scales = places.take(2 * matrix / 16), w2_scales = places.take(matrix / 16);
  const i64 decoded = places.take(2 * 3 * matrix);
  auto memory = DeviceMemory::allocate(places.end(), "a layer's weights, packed and as halves");
  if (!memory) return memory.error();
  const auto at = [base = memory->data()](i64 offset) { return At(base + offset); };

  const auto weights_at = [&](i64 offset, i64 bytes) {
    return RandomFillArguments{
        .out = at(offset), .count = bytes / 2, .width = bytes / 2, .kind = RandomKind::words};
  };
  const int raised = plan.is_bfloat16 ? kRaisedBytes : 0;
  const auto scales_at = [&](i64 offset, i64 bytes) {
    return RandomFillArguments{.out = at(offset),
                               .count = bytes / 2,
                               .width = bytes / 2,
                               .kind = RandomKind::scale_bytes,
                               .low = static_cast<double>(kLowestScale + raised),
                               .high = static_cast<double>(kBehindHighestScale + raised)};
  };
  if (const Status done =
          fill_all({weights_at(w13, matrix), weights_at(w2, matrix / 2),
                    scales_at(w13_scales, 2 * matrix / 16), scales_at(w2_scales, matrix / 16)},
                   launches);
      !done)
    return done.error();

  // Gate, up and output stay near one, whatever the shape.
  const double factor = plan.is_bfloat16 ? kScaleFactor : 1;
  const auto near_one = [&](i64 depth, double size) {
    return globals_of(experts, 1 / (kWeightSize * size * std::sqrt(static_cast<double>(depth)) * factor));
  };
  const std::vector<double> fc1 = near_one(hidden, 1), fc2 = near_one(intermediate, kActivatedSize);
  std::vector<double> globals = fc1;
  globals.insert(globals.end(), fc2.begin(), fc2.end());
  std::vector<float> folded;
  for (const double global : globals) folded.push_back(oracle::folded_global(global, plan.is_bfloat16));
  auto device_globals = uploaded(globals, "global scales");
  if (!device_globals) return device_globals.error();
  auto device_folded = uploaded(folded, "global scales");
  if (!device_folded) return device_folded.error();
  const auto* doubles = pointer<const double>(*device_globals);
  const auto* floats = pointer<const float>(*device_folded);

  const PackedWeights weights{.w13 = at(w13),
                              .w2 = at(w2),
                              .w13_scales = at(w13_scales),
                              .w2_scales = at(w2_scales),
                              .w13_globals = floats,
                              .w2_globals = floats + experts};
  PackedLayer layer{std::move(*memory),
                    std::move(*device_globals),
                    std::move(*device_folded),
                    hidden,
                    intermediate,
                    experts,
                    plan.is_bfloat16,
                    weights,
                    doubles,
                    doubles + experts,
                    at(decoded)};
  PackedReferenceArguments reference = reference_of(layer);
  reference.step = PackedReferenceStep::decode;
  if (const Status done = launches.step(kPackedReference, reference); !done) return done.error();
  return layer;
}

Result<TestBench> make_bench(const PackedPlan& plan, const PackedLayer& layer, i64 tokens,
                             const BenchArenas& arenas, double* expected, Launches& launches) {
  MOEPLAN_CHECK(arenas.caller, "a packed launch brings its output and workspace");
  const i64 routes = tokens * plan.top_k;
  Places places;
  const i64 x = places.take(2 * tokens * plan.hidden);
  const i64 fc1 = places.take(2 * routes * 2 * plan.intermediate);
  const i64 activated = places.take(2 * routes * plan.intermediate);
  const i64 fc2 = places.take(2 * routes * plan.hidden);
  auto memory = DeviceMemory::allocate(places.end(), "a reference's tensors");
  if (!memory) return memory.error();
  const auto at = [base = memory->data()](i64 offset) { return At(base + offset); };
  if (const Status done = launches.fill(fill_of_tokens(at(x), tokens * plan.hidden, plan.is_bfloat16)); !done)
    return done.error();

  PackedReferenceArguments reference = reference_of(layer);
  reference.top_k = plan.top_k;
  reference.weights_on_input = plan.weights_on_input;
  reference.x = at(x);
  reference.fc1 = at(fc1);
  reference.activated = at(activated);
  reference.fc2 = at(fc2);
  reference.output = expected;

  const PackedTensors tensors =
      packed_tensors([&](std::string_view name) { return arenas.arena.address(name); });
  HalfBits* const output = At(arenas.caller->address(kCallerOutput));
  int* const workspace = At(arenas.caller->address(kCallerWorkspace));
  const auto prepare = [&plan, &layer, &launches, tensors, reference, output,
                        workspace](const DeviceRoutes& routed) {
    const PackedInputs inputs{.x = reference.x,
                              .topk_ids = routed.ids,
                              .id_bytes = routed.id_bytes,
                              .topk_weights = routed.weights,
                              .expert_map = routed.map,
                              .output = output,
                              .kernel_workspace = workspace};
    const PackedLaunches planned = packed_launches(plan, routed.tokens, tensors, layer.weights, inputs);
    PackedReferenceArguments of_launch = reference;
    of_launch.tokens = routed.tokens;
    of_launch.route_experts = routed.experts;
    of_launch.topk_weights = routed.weights;
    const LaunchSite site{.live_tokens = routed.tokens, .block = planned.block};
    return PreparedLaunch{
        .block = planned.block,
        .run = [planned, site, &launches] { return run_launches(planned, site, launches); },
        .reference = [of_launch, &launches] { return compute_reference(of_launch, launches); },
        .output_type = plan.is_bfloat16 ? NumberType::bfloat16 : NumberType::half,
        .output = output,
        .route_rows = {rows_of_halves(tensors.intermediate_cache13, 2 * plan.intermediate, plan.hidden),
                       rows_of_halves(tensors.intermediate_cache2, plan.intermediate, plan.intermediate)},
        .workspace = workspace,
        .workspace_words = packed_workspace_words(plan.multiprocessors)};
  };
  return TestBench{std::move(*memory), prepare};
}

}  // namespace moeplan
