#include "runtime/device/trellis_bench.hpp"

#include <cmath>

namespace moeplan {
namespace {

TrellisReferenceArguments reference_of(const TrellisLayer& layer) {
  const TrellisWeights& w = layer.weights;
  return {.step = {},
          .hidden = layer.hidden,
          .intermediate = layer.intermediate,
          .experts = layer.experts,
          .bits = layer.bits,
          .codebook = layer.codebook,
          .w13 = reinterpret_cast<const HalfBits*>(w.w13),
          .w2 = reinterpret_cast<const HalfBits*>(w.w2),
          .gate_suh = w.gate_suh,
          .up_suh = w.up_suh,
          .down_svh = w.down_svh,
          .intermediate_rotations = w.intermediate_rotations,
          .gate_suh_stride = layer.hidden,
          .up_suh_stride = layer.hidden,
          .down_svh_stride = layer.hidden,
          .weights = layer.decoded};
}

Status compute_reference(TrellisReferenceArguments reference, Launches& launches) {
  for (const auto step : {TrellisReferenceStep::rotate_inputs, TrellisReferenceStep::multiply_fc1,
                          TrellisReferenceStep::activate, TrellisReferenceStep::rotate_activated,
                          TrellisReferenceStep::multiply_fc2, TrellisReferenceStep::sum}) {
    reference.step = step;
    if (Status done = launches.step(kTrellisReference, reference); !done) return done;
  }
  return Ok{};
}

// Tokens, and what a reference leaves on the way from them to the output.
struct ReferenceRoom {
  DeviceMemory memory;
  TrellisReferenceArguments arguments;
};
Result<ReferenceRoom> reference_room(const TrellisLayerPlan& plan, const TrellisLayer& layer, i64 tokens,
                                     double* expected, Launches& launches) {
  const i64 routes = tokens * plan.top_k;
  Places places;
  const i64 x = places.take(2 * tokens * plan.hidden);
  const i64 rotated_gate = places.take(2 * routes * plan.hidden);
  const i64 rotated_up = places.take(2 * routes * plan.hidden);
  const i64 fc1 = places.take(2 * routes * 2 * plan.intermediate);
  const i64 activated_values = places.take(8 * routes * plan.intermediate);
  const i64 activated = places.take(2 * routes * plan.intermediate);
  const i64 fc2 = places.take(2 * routes * plan.hidden);
  auto memory = DeviceMemory::allocate(places.end(), "a reference's tensors");
  if (!memory) return memory.error();
  const auto at = [base = memory->data()](i64 offset) { return At(base + offset); };
  if (const Status done = launches.fill(fill_of_tokens(at(x), tokens * plan.hidden, plan.is_bfloat16)); !done)
    return done.error();

  TrellisReferenceArguments reference = reference_of(layer);
  reference.top_k = plan.top_k;
  reference.is_bfloat16 = plan.is_bfloat16;
  reference.x = at(x);
  reference.rotated_gate = at(rotated_gate);
  reference.rotated_up = at(rotated_up);
  reference.fc1 = at(fc1);
  reference.activated_values = at(activated_values);
  reference.activated = at(activated);
  reference.fc2 = at(fc2);
  reference.output = expected;
  return ReferenceRoom{std::move(*memory), reference};
}

// Of one launch.
TrellisReferenceArguments reference_of(const TrellisReferenceArguments& room, const DeviceRoutes& routed) {
  TrellisReferenceArguments reference = room;
  reference.tokens = routed.tokens;
  reference.route_experts = routed.experts;
  reference.topk_weights = routed.weights;
  return reference;
}
TrellisInputs inputs_of(const TrellisReferenceArguments& room, const DeviceRoutes& routed) {
  return {.x = room.x,
          .topk_ids = routed.ids,
          .id_bytes = routed.id_bytes,
          .topk_weights = routed.weights,
          .expert_map = routed.map};
}

Status copy_layer(const LayerWeights& source, const TrellisWeights& to) {
  const void* const starts[kLayerTensorCount] = {to.w13,    to.w2,       to.gate_suh,
                                                 to.up_suh, to.down_svh, to.intermediate_rotations};
  return source.read([&](LayerTensor tensor, i64 offset, std::span<const unsigned char> bytes) {
    auto* const start = static_cast<std::byte*>(const_cast<void*>(starts[static_cast<int>(tensor)]));
    return check_cuda(cudaMemcpy(start + offset, bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                      "copying a layer's weights");
  });
}

}  // namespace

Status run_launches(const TrellisLaunches& planned, const LaunchSite& site, Launches& launches) {
  if (Status done = launches.run(planned.route_pack, site); !done) return done;
  if (Status done = launches.run(planned.fused, site); !done) return done;
  return launches.run(planned.top_k_sum, site);
}

Status run_launches(const LeanLaunches& planned, const LaunchSite& site, Launches& launches) {
  return std::visit(
      [&](const auto& of_kind) {
        return launch_each(of_kind, [&](const auto& launch) { return launches.run(launch, site); });
      },
      planned);
}

bool TrellisLayer::serves(const TrellisLayerPlan& plan, const LayerWeights* wanted) const {
  return hidden == plan.hidden && intermediate == plan.intermediate && experts == plan.experts &&
         bits == plan.bits && codebook == plan.codebook && source == wanted;
}

Result<TrellisLayer> make_layer(const TrellisLayerPlan& plan, const LayerWeights* source, Launches& launches,
                                LayerUse use) {
  const i64 hidden = plan.hidden, intermediate = plan.intermediate, experts = plan.experts;
  const i64 matrix = experts * hidden * intermediate;
  const i64 words = matrix / 16 * plan.bits;  // of 16 bits
  const i64 row_halves = experts * hidden, rotation_halves = experts * 3 * intermediate;
  Places places;
  const i64 w13 = places.take(2 * 2 * words), w2 = places.take(2 * words);
  const i64 gate_suh = places.take(2 * row_halves), up_suh = places.take(2 * row_halves);
  const i64 down_svh = places.take(2 * row_halves), rotations = places.take(2 * rotation_halves);
  const i64 decoded = places.take(use == LayerUse::judged ? 2 * 3 * matrix : 0);
  auto memory =
      DeviceMemory::allocate(places.end(), use == LayerUse::judged ? "a layer's weights, packed and as halves"
                                                                   : "a layer's weights");
  if (!memory) return memory.error();
  const auto halves = [base = memory->data()](i64 offset) -> HalfBits* { return At(base + offset); };

  // A product over K decoded weights grows by about sqrt K, which scales of this size take back: gate, up and
  // output stay near one, whatever the shape.
  const double fc1_size = 1 / std::sqrt(static_cast<double>(hidden));
  const double fc2_size = 1 / std::sqrt(static_cast<double>(intermediate));
  const i64 pitch = 3 * intermediate, scales = experts * intermediate;
  const auto words_at = [&](i64 offset, i64 count) {
    return RandomFillArguments{
        .out = halves(offset), .count = count, .width = count, .kind = RandomKind::words};
  };
  const auto scales_at = [&](HalfBits* out, i64 count, i64 width, i64 row_pitch, double size) {
    return RandomFillArguments{.out = out,
                               .count = count,
                               .width = width,
                               .pitch = row_pitch,
                               .kind = RandomKind::half,
                               .low = 0.5 * size,
                               .high = 1.5 * size};
  };
  if (const Status done =
          fill_all({words_at(w13, 2 * words), words_at(w2, words),
                    scales_at(halves(gate_suh), row_halves, hidden, hidden, 1),
                    scales_at(halves(up_suh), row_halves, hidden, hidden, 1),
                    scales_at(halves(down_svh), row_halves, hidden, hidden, fc2_size),
                    scales_at(halves(rotations), scales, intermediate, pitch, fc1_size),
                    scales_at(halves(rotations) + intermediate, scales, intermediate, pitch, fc1_size),
                    scales_at(halves(rotations) + 2 * intermediate, scales, intermediate, pitch, 1)},
                   launches);
      !done)
    return done.error();
  const TrellisWeights weights{.w13 = reinterpret_cast<const unsigned char*>(halves(w13)),
                               .w2 = reinterpret_cast<const unsigned char*>(halves(w2)),
                               .gate_suh = halves(gate_suh),
                               .up_suh = halves(up_suh),
                               .down_svh = halves(down_svh),
                               .intermediate_rotations = halves(rotations)};
  // Over what was made up.
  if (source) {
    if (const Status copied = copy_layer(*source, weights); !copied) return copied.error();
  }
  TrellisLayer layer{std::move(*memory), hidden, intermediate, experts,        plan.bits,
                     plan.codebook,      source, weights,      halves(decoded)};
  if (use == LayerUse::timed) {
    layer.decoded = nullptr;
    return layer;
  }
  TrellisReferenceArguments reference = reference_of(layer);
  reference.step = TrellisReferenceStep::decode;
  if (const Status done = launches.step(kTrellisReference, reference); !done) return done.error();
  return layer;
}

Result<TestBench> make_bench(const TrellisPlan& plan, const TrellisLayer& layer, i64 tokens,
                             const BenchArenas& arenas, double* expected, Launches& launches) {
  auto room = reference_room(plan, layer, tokens, expected, launches);
  if (!room) return room.error();
  const TrellisTensors tensors =
      trellis_tensors([&](std::string_view name) { return arenas.arena.address(name); });
  const auto prepare = [&plan, &layer, &launches, tensors,
                        reference = room->arguments](const DeviceRoutes& routed) {
    const TrellisLaunches planned =
        trellis_launches(plan, routed.tokens, tensors, layer.weights, inputs_of(reference, routed));
    const TrellisReferenceArguments of_launch = reference_of(reference, routed);
    const LaunchSite site{.live_tokens = routed.tokens, .block = planned.block};
    return PreparedLaunch{
        .block = planned.block,
        .run = [planned, site, &launches] { return run_launches(planned, site, launches); },
        .reference = [of_launch, &launches] { return compute_reference(of_launch, launches); },
        .output_type = NumberType::float32,
        .output = tensors.full_rotation_output,
        .route_rows = {rows_of_halves(tensors.rotation_a_gate, plan.hidden, plan.hidden),
                       rows_of_halves(tensors.rotation_a_up, plan.hidden, plan.hidden),
                       rows_of_halves(tensors.intermediate_cache13, 2 * plan.intermediate, plan.hidden),
                       rows_of_halves(tensors.intermediate_cache2, plan.intermediate, plan.intermediate)},
        // Those that launches share; the others keep their poison, so that whoever reads them is seen.
        .workspace = planned.fused.arguments.tickets,
        .workspace_words = kTrellisSharedWords};
  };
  return TestBench{std::move(room->memory), prepare};
}

Result<TestBench> make_bench(const LeanPlan& plan, const TrellisLayer& layer, i64 tokens,
                             const BenchArenas& arenas, double* expected, Launches& launches) {
  auto room = reference_room(plan, layer, tokens, expected, launches);
  if (!room) return room.error();
  const LeanTensors tensors = lean_tensors([&](std::string_view name) { return arenas.arena.address(name); });
  const auto prepare = [&plan, &layer, &launches, tensors,
                        reference = room->arguments](const DeviceRoutes& routed) {
    const LeanLaunches planned =
        lean_launches(plan, routed.tokens, tensors, layer.weights, inputs_of(reference, routed));
    const TrellisReferenceArguments of_launch = reference_of(reference, routed);
    const i64 block = lean_route_block(plan.capacity);
    const LaunchSite site{.live_tokens = routed.tokens, .block = block};
    const i64 pitch = lean_row_pitch(planned);
    return PreparedLaunch{
        .block = block,
        .run = [planned, site, &launches] { return run_launches(planned, site, launches); },
        .reference = [of_launch, &launches] { return compute_reference(of_launch, launches); },
        .output_type = NumberType::float32,
        .output = tensors.output,
        .route_rows = {rows_of_halves(tensors.activated, plan.intermediate, plan.intermediate),
                       rows_of_halves(tensors.expert_rows, pitch, pitch)},
        .workspace = tensors.tickets,
        .workspace_words = tensors.tickets ? kLeanTickets : 0};
  };
  return TestBench{std::move(room->memory), prepare};
}

}  // namespace moeplan
