#include "runtime/device/moe_bench.hpp"

#include <algorithm>
#include <optional>
#include <random>
#include <variant>

#include "kernels/bench/arguments.hpp"
#include "planner/core/check.hpp"
#include "runtime/bench/uniform_routes.hpp"
#include "runtime/device/device_values.hpp"
#include "runtime/device/recording_backend.hpp"
#include "runtime/device/timed_replays.hpp"
#include "runtime/device/trellis_bench.hpp"
#include "runtime/nvml.hpp"

namespace moeplan {
namespace {

// Left free beside layers: what a graph, a context and other programs take meanwhile.
constexpr i64 kSpareBytes = i64{1} << 28;
// Replays that are queued behind each other while the clock is asked.
constexpr int kReplaysPerClock = 4;

// Of replays that warm up: clocks fall while kernels are compiled, and take a while to rise again.
constexpr i64 kWarmUpNs = 50'000'000;
constexpr i64 kLeastReplayNs = 10'000;  // that a replay counts for, so that the wait ends

// Enough warps to keep every tensor core busy, for a few milliseconds.
constexpr i64 kMmaBlocksPerSm = 2;
constexpr i64 kMmaRounds = 16'384;

// What one launch brings, on the device.
struct LaunchInputs {
  i64 tokens;
  const HalfBits* x;
  const int* ids;
  const float* weights;
};

Status queue_launch(const TrellisPlan& plan, const MoeLayout& layout, std::byte* arena,
                    const TrellisLayer& layer, const LaunchInputs& brought, Launches& launches) {
  const TrellisInputs inputs{
      .x = brought.x, .topk_ids = brought.ids, .id_bytes = sizeof(int), .topk_weights = brought.weights};
  const TrellisLaunches planned =
      trellis_launches(plan, brought.tokens, trellis_tensors(layout, arena), layer.weights, inputs);
  return run_launches(planned, {.live_tokens = brought.tokens, .block = planned.block}, launches);
}

Status queue_launch(const LeanPlan& plan, const MoeLayout& layout, std::byte* arena,
                    const TrellisLayer& layer, const LaunchInputs& brought, Launches& launches) {
  const TrellisInputs inputs{
      .x = brought.x, .topk_ids = brought.ids, .id_bytes = sizeof(int), .topk_weights = brought.weights};
  const LeanLaunches planned =
      lean_launches(plan, brought.tokens, lean_tensors(layout, arena), layer.weights, inputs);
  return run_launches(planned, {.live_tokens = brought.tokens}, launches);
}

Status queue_launch(const PackedPlan&, const MoeLayout&, std::byte*, const TrellisLayer&, const LaunchInputs&,
                    Launches&) {
  MOEPLAN_CHECK(false, "cases are of Trellis plans alone");
}

Result<TrellisLayer> timed_layer(const TrellisLayerPlan& plan, Launches& launches) {
  return make_layer(plan, nullptr, launches, LayerUse::timed);
}
Result<TrellisLayer> timed_layer(const PackedPlan&, Launches&) {
  MOEPLAN_CHECK(false, "cases are of Trellis plans alone");
}

// What the calls of a replay bring, one after the other in each allocation.
struct Inputs {
  DeviceMemory x, ids, weights;
  std::vector<int> routes;  // the ids, on the host

  static Result<Inputs> create(const MoeCase& of, i64 tokens, i64 calls, Launches& launches) {
    std::mt19937_64 engine{static_cast<std::uint64_t>(tokens)};
    const MoeShape& shape = of.shape;
    std::vector<int> routes = uniform_routes(engine, calls * tokens, shape.top_k, shape.experts);
    auto ids = uploaded(routes, "routes");
    if (!ids) return ids.error();
    const auto evenly = 1 / static_cast<float>(shape.top_k);
    auto weights =
        uploaded(std::vector<float>(static_cast<std::size_t>(tokens * shape.top_k), evenly), "weights");
    if (!weights) return weights.error();
    const i64 elements = calls * tokens * shape.hidden;
    auto x = DeviceMemory::allocate(2 * elements, "tokens");
    if (!x) return x.error();
    const Status filled =
        launches.fill(fill_of_tokens(At(x->data()), elements, fused_plan(of.plan).is_bfloat16));
    if (!filled) return filled.error();
    return Inputs{std::move(*x), std::move(*ids), std::move(*weights), std::move(routes)};
  }
};

// A case with its arena and its calls as a graph.
struct Queued {
  DeviceMemory arena;
  std::optional<CapturedWork> graph;
};

class CudaMoeBench final : public MoeBench {
 public:
  CudaMoeBench(Launcher launcher, Stream stream, Compiler& compiler, i64 threads)
      : launcher_(std::move(launcher)),
        stream_(std::move(stream)),
        resolver_(recording_backend(launcher_, compiler, threads, compiled_)) {
    open_clock();
  }

  const GpuProfile& gpu() const override { return launcher_.gpu(); }
  const Architecture& architecture() const override { return launcher_.architecture(); }
  const CompiledKernels& compiled() const override { return compiled_; }
  Result<Bandwidth> copy_bandwidth() override { return measured_copy(stream_, gpu().memory_bytes); }

  Result<FlopRate> flop_rate() override {
    const i64 blocks = kMmaBlocksPerSm * gpu().sm_count;
    if (const Status resolved = resolver_.resolve({&kMmaRate, 1}); !resolved) return resolved.error();
    const auto out =
        DeviceMemory::allocate(blocks * kMmaRateThreads * static_cast<i64>(sizeof(float)), "sums");
    if (!out) return out.error();
    Launches launches(launcher_, resolver_, stream_);
    const KernelLaunch<MmaRateArguments> launch{
        kMmaRate, blocks, {.out = pointer<float>(*out), .rounds = kMmaRounds}};
    const auto samples = time_each(stream_, [&] { return launches.run(launch, {}); });
    if (!samples) return samples.error();
    return FlopRate{max_of(mma_rate_flops(blocks, kMmaRounds) / max_of(median(*samples), 1), 1), true};
  }

  const std::string& clock_trouble() const override { return clock_trouble_; }

  Result<std::vector<MoeTiming>> time(std::span<const MoeCase> cases, i64 tokens) override {
    MOEPLAN_CHECK(!cases.empty() &&
                      std::ranges::count(cases, cases.front().shape, &MoeCase::shape) == std::ssize(cases),
                  "cases of one layer");
    if (const Status resolved = resolver_.resolve({&kRandomFill, 1}); !resolved) return resolved.error();
    std::vector<Queued> queued;
    for (const MoeCase& each : cases) {
      if (const Status resolved = resolver_.resolve(variants_of(each.plan)); !resolved)
        return resolved.error();
      auto arena = cleared_arena(each.layout.total_bytes);
      if (!arena) return arena.error();
      queued.push_back({std::move(*arena), std::nullopt});
    }
    Launches launches(launcher_, resolver_, stream_);
    const MoeShape& shape = cases.front().shape;
    // Of one call: what it is expected to read decides how many layers there are, and they how many calls.
    std::mt19937_64 engine{1};
    const i64 read =
        work_of(shape, tokens,
                distinct_experts(uniform_routes(engine, tokens, shape.top_k, shape.experts), shape.experts))
            .bytes;
    const i64 wanted = rotating_layers(read, gpu().l2_bytes);
    const auto inputs = Inputs::create(cases.front(), tokens, moe_calls(tokens, wanted), launches);
    if (!inputs) return inputs.error();
    if (const Status made = make_layers(cases.front(), wanted, launches); !made) return made.error();
    const i64 layers = min_of(wanted, std::ssize(layers_)), calls = moe_calls(tokens, wanted);

    std::vector<MoeTiming> timings;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      MoeTiming timing{.executor = cases[i].executor,
                       .contract = cases[i].contract,
                       .plan_id = cases[i].plan_id,
                       .capacity = cases[i].capacity,
                       .shape = shape,
                       .tokens = tokens,
                       .calls = calls,
                       .layers = layers};
      auto graph = captured(cases[i], queued[i].arena.data(), *inputs, timing, launches);
      if (!graph) return graph.error();
      queued[i].graph.emplace(std::move(*graph));
      timings.push_back(std::move(timing));
    }
    if (const Status timed = take_turns(queued, timings); !timed) return timed.error();
    return timings;
  }

 private:
  void open_clock() {
    char bus_id[32] = "";
    if (const Status known =
            check_cuda(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, 0), "asking for the bus id");
        !known) {
      clock_trouble_ = known.error().message;
      return;
    }
    auto opened = SmClock::open(bus_id);
    if (auto* why = std::get_if<std::string>(&opened))
      clock_trouble_ = std::move(*why);
    else
      clock_.emplace(std::get<SmClock>(std::move(opened)));
  }

  // Zeros: a workspace has to be, before the first launch.
  Result<DeviceMemory> cleared_arena(i64 bytes) {
    auto arena = DeviceMemory::allocate(bytes, "an arena");
    if (!arena) return arena;
    const Status cleared = check_cuda(
        cudaMemsetAsync(arena->data(), 0, static_cast<std::size_t>(bytes), stream_), "clearing an arena");
    if (!cleared) return cleared.error();
    return arena;
  }

  // As many as are wanted and there is memory for, one at least. They stay for later calls.
  Status make_layers(const MoeCase& of, i64 wanted, Launches& launches) {
    if (layers_shape_ != of.shape) layers_.clear();
    layers_shape_ = of.shape;
    while (std::ssize(layers_) < wanted) {
      const auto room = free_memory();
      if (!room) return room.error();
      if (!layers_.empty() && *room < layers_.front().memory.bytes() + kSpareBytes) break;
      auto layer = std::visit([&](const auto& plan) { return timed_layer(plan, launches); }, of.plan);
      if (!layer) return layer.error();
      layers_.push_back(std::move(*layer));
    }
    return Ok{};
  }

  // The calls of a case, each in the next layer; adds what they have to do to the timing.
  Result<CapturedWork> captured(const MoeCase& of, std::byte* arena, const Inputs& inputs, MoeTiming& timing,
                                Launches& launches) {
    const MoeShape& shape = of.shape;
    return CapturedWork::capture(launches.stream(), [&]() -> Status {
      i64 token = 0;
      for (i64 call = 0; call < timing.calls; ++call) {
        const TrellisLayer& layer = layers_[static_cast<std::size_t>(call % timing.layers)];
        for (const i64 tokens : launch_tokens(timing.tokens, of.capacity)) {
          const i64 route = token * shape.top_k;
          const LaunchInputs brought{.tokens = tokens,
                                     .x = pointer<const HalfBits>(inputs.x) + token * shape.hidden,
                                     .ids = pointer<const int>(inputs.ids) + route,
                                     .weights = pointer<const float>(inputs.weights)};
          const Status done = std::visit(
              [&](const auto& plan) {
                return queue_launch(plan, of.layout, arena, layer, brought, launches);
              },
              of.plan);
          if (!done) return done;
          const auto ids =
              std::span(inputs.routes)
                  .subspan(static_cast<std::size_t>(route), static_cast<std::size_t>(tokens * shape.top_k));
          const i64 distinct = distinct_experts(ids, shape.experts);
          timing.work += work_of(shape, tokens, distinct);
          timing.distinct_experts += distinct;
          token += tokens;
        }
      }
      return Ok{};
    });
  }

  // One replay of each case after the other, again and again, behind some that warm up; then the clock under
  // each.
  Status take_turns(const std::vector<Queued>& queued, std::vector<MoeTiming>& timings) {
    auto timer = StreamTimer::create(stream_);
    if (!timer) return timer.error();
    const auto replayed = [&](std::size_t i) {
      return time_once(*timer, [&] { return queued[i].graph->queue(stream_); });
    };
    i64 warmed = 0;
    for (int turn = 0; turn < kWarmUps || warmed < kWarmUpNs; ++turn) {
      for (std::size_t i = 0; i < queued.size(); ++i) {
        const auto nanoseconds = replayed(i);
        if (!nanoseconds) return nanoseconds.error();
        warmed += max_of(*nanoseconds, kLeastReplayNs);
      }
    }
    for (int turn = 0; turn < kReplays; ++turn) {
      for (std::size_t i = 0; i < queued.size(); ++i) {
        const auto nanoseconds = replayed(i);
        if (!nanoseconds) return nanoseconds.error();
        timings[i].replays.push_back(max_of(*nanoseconds, 1));
      }
    }
    for (std::size_t i = 0; clock_ && i < queued.size(); ++i) {
      for (int replay = 0; replay < kReplaysPerClock; ++replay) {
        if (Status done = queued[i].graph->queue(stream_); !done) return done;
      }
      timings[i].sm_mhz = clock_->mhz();
      if (Status done = check_cuda(cudaStreamSynchronize(stream_), "waiting for replays"); !done) return done;
    }
    return Ok{};
  }

  Launcher launcher_;
  Stream stream_;
  CompiledKernels compiled_;
  LaunchResolver resolver_;
  MoeShape layers_shape_;
  std::vector<TrellisLayer> layers_;
  std::optional<SmClock> clock_;
  std::string clock_trouble_;
};

}  // namespace

Result<std::unique_ptr<MoeBench>> open_moe_bench(Compiler& compiler, i64 threads) {
  auto launcher = Launcher::create();
  if (!launcher) return launcher.error();
  auto stream = Stream::create();
  if (!stream) return stream.error();
  return std::unique_ptr<MoeBench>(
      std::make_unique<CudaMoeBench>(std::move(*launcher), std::move(*stream), compiler, threads));
}

}  // namespace moeplan
