// How long the launches of a Trellis layer take: route packing, the fused kernel and the top-k sum, replayed
// as a graph. Weights are random bits, all of them legal; routes are uniform, and every launch of a graph has
// others, so that no launch finds its weights in the L2 cache of the one before.
#include <random>

#include "planner/core/text.hpp"
#include "planner/moe/w4a16.hpp"
#include "runtime/bench/uniform_routes.hpp"
#include "runtime/device/device_memory.hpp"
#include "runtime/moe/trellis_kernels.hpp"
#include "runtime/oracle/half.hpp"
#include "tests/gpu/records.hpp"

namespace moeplan::test {
namespace {

constexpr i64 kDecodeTokens[] = {1, 2, 4, 8, 16, 32, 64};
constexpr i64 kPrefillTokens[] = {512, 1024, 3072};
constexpr int kReplays = 41;
constexpr int kWarmUps = 3;

template <class T>
Result<DeviceMemory> upload(const std::vector<T>& values, std::string_view what) {
  auto memory = DeviceMemory::allocate(static_cast<i64>(values.size() * sizeof(T)), what);
  if (!memory) return memory.error();
  const cudaError_t error =
      cudaMemcpy(memory->data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
  if (const Status copied = check_cuda(error, "copying inputs"); !copied) return copied.error();
  return memory;
}

// Random halves of one size either way, so that nothing overflows and nothing is zero.
std::vector<HalfBits> halves(std::mt19937_64& engine, i64 count, double size) {
  std::vector<HalfBits> values(static_cast<std::size_t>(count));
  for (HalfBits& value : values)
    value =
        oracle::half_of((engine() % 2 ? size : -size) * (0.5 + static_cast<double>(engine() % 1024) / 1024));
  return values;
}

std::vector<std::uint64_t> random_words(std::mt19937_64& engine, i64 bytes) {
  std::vector<std::uint64_t> words(static_cast<std::size_t>(bytes / 8));
  for (std::uint64_t& word : words) word = engine();
  return words;
}

// One layer on the device.
struct Layer {
  DeviceMemory w13, w2, gate_suh, up_suh, down_svh, rotations;

  static Result<Layer> create(const TrellisPlan& plan) {
    std::mt19937_64 engine{7};
    const i64 matrix = plan.experts * plan.hidden * plan.intermediate * plan.bits / 8;
    auto w13 = upload(random_words(engine, 2 * matrix), "w13");
    auto w2 = upload(random_words(engine, matrix), "w2");
    auto gate = upload(halves(engine, plan.experts * plan.hidden, 1.0), "gate_suh");
    auto up = upload(halves(engine, plan.experts * plan.hidden, 1.0), "up_suh");
    auto down = upload(halves(engine, plan.experts * plan.hidden, 0.04), "down_svh");
    auto rotations = upload(halves(engine, plan.experts * 3 * plan.intermediate, 0.05), "rotations");
    for (const auto* part : {&w13, &w2, &gate, &up, &down, &rotations}) {
      if (!*part) return part->error();
    }
    return Layer{std::move(*w13), std::move(*w2),   std::move(*gate),
                 std::move(*up),  std::move(*down), std::move(*rotations)};
  }

  TrellisWeights weights() const {
    const auto at = [](const DeviceMemory& memory) {
      return reinterpret_cast<const HalfBits*>(memory.data());
    };
    return {.w13 = reinterpret_cast<const unsigned char*>(w13.data()),
            .w2 = reinterpret_cast<const unsigned char*>(w2.data()),
            .gate_suh = at(gate_suh),
            .up_suh = at(up_suh),
            .down_svh = at(down_svh),
            .intermediate_rotations = at(rotations)};
  }
};

class Timed {
 public:
  Timed(const RecordContext& context, LaunchResolver& resolver, const TrellisPlan& plan,
        const MoeLayout& layout, const Layer& layer)
      : context_(context), resolver_(resolver), plan_(plan), layout_(layout), layer_(layer) {}

  // Nanoseconds of a replay of `launches` launches, one value a replay.
  Result<EvidenceSamples> run(DeviceMemory& arena, i64 tokens, i64 launches) {
    std::mt19937_64 engine{static_cast<std::uint64_t>(tokens)};
    const i64 routes = tokens * plan_.top_k;
    std::vector<DeviceMemory> ids;
    for (i64 i = 0; i < launches; ++i) {
      auto routed = upload(uniform_routes(engine, tokens, plan_.top_k, plan_.experts), "ids");
      if (!routed) return routed.error();
      ids.push_back(std::move(*routed));
    }
    const auto x = upload(halves(engine, tokens * plan_.hidden, 1.0), "x");
    const auto weights = upload(std::vector<float>(static_cast<std::size_t>(routes), 0.125f), "weights");
    if (!x) return x.error();
    if (!weights) return weights.error();

    const Stream stream;
    if (const Status begun = Graph::begin(stream); !begun) return begun.error();
    Status launched = Ok{};
    for (i64 i = 0; i < launches && launched; ++i) {
      const TrellisInputs inputs{.x = reinterpret_cast<const HalfBits*>(x->data()),
                                 .topk_ids = ids[static_cast<std::size_t>(i)].data(),
                                 .topk_weights = reinterpret_cast<const float*>(weights->data())};
      launched = launch_all(
          trellis_launches(plan_, tokens, trellis_tensors(layout_, arena.data()), layer_.weights(), inputs),
          tokens, stream);
    }
    const auto graph = Graph::end(stream);
    if (!launched) return launched.error();
    if (!graph) return graph.error();

    EvidenceSamples samples{.name = concat("m=", tokens), .unit = concat("ns a ", launches, " launches")};
    auto timer = StreamTimer::create(stream);
    if (!timer) return timer.error();
    for (int i = -kWarmUps; i < kReplays; ++i) {
      if (const Status started = timer->start(); !started) return started.error();
      if (const Status queued = graph->queue(stream); !queued) return queued.error();
      const auto nanoseconds = timer->stop();
      if (!nanoseconds) return nanoseconds.error();
      if (i >= 0) samples.values.push_back(*nanoseconds);
    }
    return samples;
  }

 private:
  template <class Arguments>
  Status launch_one(const KernelLaunch<Arguments>& launch, i64 tokens, i64 block, cudaStream_t stream) {
    const auto kernel =
        resolver_.find(launch.variant, {.live_tokens = tokens, .block = block, .stream = stream});
    if (!kernel) return kernel.error();
    const Launcher& launcher = context_.gpu.launcher;
    return launcher.launch(**kernel, launcher.grid_of(**kernel, launch), launch.arguments, stream);
  }

  Status launch_all(const TrellisLaunches& launches, i64 tokens, cudaStream_t stream) {
    if (const Status s = launch_one(launches.route_pack, tokens, launches.block, stream); !s) return s;
    if (const Status s = launch_one(launches.fused, tokens, launches.block, stream); !s) return s;
    return launch_one(launches.top_k_sum, tokens, launches.block, stream);
  }

  const RecordContext& context_;
  LaunchResolver& resolver_;
  const TrellisPlan& plan_;
  const MoeLayout& layout_;
  const Layer& layer_;
};

// The plan of the config, for this GPU.
Result<RecordPlan> plan_for(const RecordPlan& planned, const GpuProfile& gpu) {
  RecordPlan own = planned;
  own.request.device.sm_count = gpu.sm_count;
  const auto layout = plan_moe(own.request);
  if (!layout) return layout.error();
  own.layout = *layout;
  return own;
}

Status record_plan(Evidence& evidence, const RecordContext& context, const RecordPlan& planned,
                   std::span<const i64> token_counts, i64 launches) {
  const auto own = plan_for(planned, context.gpu.launcher.gpu());
  if (!own) return own.error();
  const TrellisPlan plan = trellis_plan(own->request, own->layout);
  LaunchResolver resolver = context.gpu.resolver();
  if (const Status resolved = resolver.resolve(trellis_variants(plan)); !resolved) return resolved;
  resolver.freeze();
  const auto layer = Layer::create(plan);
  if (!layer) return layer.error();
  auto arena = DeviceMemory::allocate(own->layout.total_bytes, "the arena");
  if (!arena) return arena.error();
  if (const Status cleared = set_bytes(arena->data(), 0, own->layout.total_bytes); !cleared) return cleared;
  Timed timed(context, resolver, plan, own->layout, *layer);
  for (const i64 tokens : token_counts) {
    auto samples = timed.run(*arena, tokens, launches);
    if (!samples) return samples.error();
    evidence.facts.push_back(
        {concat(samples->name, ", median microseconds"),
         static_cast<double>(median(samples->values)) / 1000 / static_cast<double>(launches)});
    evidence.samples.push_back(std::move(*samples));
  }
  return Ok{};
}

}  // namespace

Result<Evidence> record_trellis_speed(const RecordContext& context) {
  Evidence evidence{.is_pass = true};
  evidence.facts.push_back({"planned for multiprocessors", context.gpu.launcher.gpu().sm_count});
  if (const Status done = record_plan(evidence, context, context.decode, kDecodeTokens, 32); !done)
    return done.error();
  if (const Status done = record_plan(evidence, context, context.prefill, kPrefillTokens, 4); !done)
    return done.error();
  return evidence;
}

}  // namespace moeplan::test
