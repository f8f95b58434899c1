#include "runtime/device/validator.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <variant>

#include "runtime/device/device_arena.hpp"
#include "runtime/device/indexer_measurer.hpp"
#include "runtime/device/launch_measurer.hpp"
#include "runtime/device/launcher.hpp"
#include "runtime/device/packed_bench.hpp"
#include "runtime/device/stream.hpp"
#include "runtime/device/trellis_bench.hpp"

namespace moeplan {
namespace {

// Kernels of ours that measure a plan, beside the plan's own.
std::vector<KernelVariant> validation_kernels(const KernelPlan& plan) {
  const bool is_packed = std::holds_alternative<PackedPlan>(plan);
  return {kArenaFill, kArenaScan, kRandomFill, is_packed ? kPackedReference : kTrellisReference,
          kCompareLaunch};
}
constexpr KernelVariant kIndexerValidation[] = {kArenaFill, kArenaScan, kIndexerReference};

class CudaValidator final : public Validator {
 public:
  CudaValidator(Launcher launcher, Stream stream, Compiler& compiler, i64 threads)
      : launcher_(std::move(launcher)), stream_(std::move(stream)), compiler_(compiler), threads_(threads) {}

  const GpuProfile& gpu() const override { return launcher_.gpu(); }
  const Architecture& architecture() const override { return launcher_.architecture(); }
  const std::vector<std::pair<KernelVariant, CompiledKernel>>& compiled() const override { return compiled_; }

  void use_layer(const LayerWeights* weights) override {
    weights_ = weights;
    // Another file's may lie at the same address.
    if (const auto* known = std::get_if<TrellisLayer>(&layer_); known && known->source)
      layer_.emplace<std::monostate>();
  }

  Result<std::vector<Measurement>> measure(const KernelPlan& plan, const Placement& placement,
                                           std::span<const TestLaunch> launches, RoomCheck room_check,
                                           const Progress& progress) override {
    MOEPLAN_CHECK(!launches.empty(), "a plan is measured with launches");
    if (room_check == RoomCheck::on) {
      if (const Status fits = check_rooms(plan, placement, launches); !fits) return fits.error();
    }
    LaunchResolver resolver(backend());
    if (const Status done = resolve(resolver, validation_kernels(plan), variants_of(plan)); !done)
      return done.error();
    Launches launcher(launcher_, resolver, stream_);

    auto arena = DeviceArena::create(placement, resolver, launcher_);
    if (!arena) return arena.error();
    auto caller = caller_arena(plan, resolver);
    if (!caller) return caller.error();
    const i64 most = std::ranges::max_element(launches, {}, &TestLaunch::tokens)->tokens;
    auto room = CompareRoom::create(fused_plan(plan), most);
    if (!room) return room.error();
    const BenchArenas arenas{*arena, *caller ? &**caller : nullptr};
    auto bench = std::visit(
        [&](const auto& of_kind) { return bench_of(of_kind, most, arenas, room->expected, launcher); }, plan);
    if (!bench) return bench.error();

    LaunchMeasurer measurer(plan, *bench, *room, *arena, *caller ? &**caller : nullptr, launcher);
    return measure_each(measurer, launches, progress);
  }

  Result<std::vector<Measurement>> measure(const IndexerPlan& plan, const Placement& placement,
                                           std::span<const IndexerTestCall> calls, RoomCheck room_check,
                                           const Progress& progress) override {
    MOEPLAN_CHECK(!calls.empty(), "a plan is measured with calls");
    if (room_check == RoomCheck::on) {
      if (const Status fits = check_rooms(plan, placement, calls); !fits) return fits.error();
    }
    LaunchResolver resolver(backend());
    if (const Status done = resolve(resolver, kIndexerValidation, indexer_variants(plan)); !done)
      return done.error();
    Launches launcher(launcher_, resolver, stream_);
    layer_.emplace<std::monostate>();  // room for what calls bring

    auto arena = DeviceArena::create(placement, resolver, launcher_);
    if (!arena) return arena.error();
    auto room = ReferenceRoom::create(calls);
    if (!room) return room.error();
    IndexerMeasurer measurer(plan, indexer_tolerance(gpu().compute_capability), *room, *arena, launcher);
    return measure_each(measurer, calls, progress);
  }

 private:
  static Status resolve(LaunchResolver& resolver, std::span<const KernelVariant> of_ours,
                        std::span<const KernelVariant> of_plan) {
    for (const auto variants : {of_ours, of_plan}) {
      if (Status resolved = resolver.resolve(variants); !resolved) return resolved;
    }
    resolver.freeze();
    return Ok{};
  }

  template <class Measurer, class Launch>
  static Result<std::vector<Measurement>> measure_each(Measurer& measurer, std::span<const Launch> launches,
                                                       const Progress& progress) {
    std::vector<Measurement> measurements;
    for (const Launch& launch : launches) {
      auto measured = measurer.measure(launch);
      if (!measured) return measured.error();
      measurements.push_back(std::move(*measured));
      if (progress) progress(measurements.size(), launches.size());
    }
    return measurements;
  }

  // Each of its tensors between guards of its own.
  Result<std::optional<DeviceArena>> caller_arena(const KernelPlan& plan, LaunchResolver& resolver) {
    const auto* packed = std::get_if<PackedPlan>(&plan);
    if (!packed) return std::optional<DeviceArena>();
    const std::vector<TensorSpec> tensors = caller_tensors(*packed);
    auto arena = DeviceArena::create(
        place_guarded(tensors, tensors.back().offset + tensors.back().bytes, GuardMode::strict), resolver,
        launcher_);
    if (!arena) return arena.error();
    return std::optional<DeviceArena>(std::move(*arena));
  }

  template <class Plan>
  Result<TestBench> bench_of(const Plan& plan, i64 tokens, const BenchArenas& arenas, double* expected,
                             Launches& launches) {
    const auto layer = layer_of(plan, launches);
    if (!layer) return layer.error();
    return make_bench(plan, **layer, tokens, arenas, expected, launches);
  }

  Result<const TrellisLayer*> layer_of(const TrellisLayerPlan& plan, Launches& launches) {
    const bool is_real = weights_ && weights_->shape() == experts_shape(plan);
    return known_or_made<TrellisLayer>(launches, plan, is_real ? weights_ : nullptr);
  }
  Result<const PackedLayer*> layer_of(const PackedPlan& plan, Launches& launches) {
    return known_or_made<PackedLayer>(launches, plan);
  }

  // The last plan's layer where it serves.
  template <class Layer, class... Described>
  Result<const Layer*> known_or_made(Launches& launches, const Described&... described) {
    if (const Layer* known = std::get_if<Layer>(&layer_); known && known->serves(described...)) return known;
    layer_.emplace<std::monostate>();  // frees it first
    auto layer = make_layer(described..., launches);
    if (!layer) return layer.error();
    return &layer_.emplace<Layer>(std::move(*layer));
  }

  // Compiles and loads each kernel once, whatever number of plans asks for it.
  LaunchBackend backend() {
    LaunchBackend backend = launcher_.backend(compiler_, threads_);
    backend.compile = [this, compile = backend.compile](
                          std::span<const KernelVariant> variants) -> Result<std::vector<CompiledKernel>> {
      std::vector<KernelVariant> missing;
      std::ranges::copy_if(variants, std::back_inserter(missing),
                           [&](const KernelVariant& variant) { return !find_compiled(variant); });
      if (!missing.empty()) {
        auto kernels = compile(missing);
        if (!kernels) return kernels.error();
        for (std::size_t i = 0; i < missing.size(); ++i)
          compiled_.emplace_back(missing[i], std::move((*kernels)[i]));
      }
      std::vector<CompiledKernel> all;
      for (const KernelVariant& variant : variants) all.push_back(*find_compiled(variant));
      return all;
    };
    backend.load = [this, load = backend.load](const KernelVariant& variant,
                                               const CompiledKernel& kernel) -> Result<ReadyKernel> {
      const auto known = std::ranges::find(loaded_, variant, &std::pair<KernelVariant, ReadyKernel>::first);
      if (known != loaded_.end()) return known->second;
      auto ready = load(variant, kernel);
      if (ready) loaded_.emplace_back(variant, *ready);
      return ready;
    };
    return backend;
  }

  const CompiledKernel* find_compiled(const KernelVariant& variant) const {
    const auto known =
        std::ranges::find(compiled_, variant, &std::pair<KernelVariant, CompiledKernel>::first);
    return known == compiled_.end() ? nullptr : &known->second;
  }

  Launcher launcher_;
  Stream stream_;
  Compiler& compiler_;
  i64 threads_;
  std::vector<std::pair<KernelVariant, CompiledKernel>> compiled_;
  std::vector<std::pair<KernelVariant, ReadyKernel>> loaded_;
  std::variant<std::monostate, TrellisLayer, PackedLayer> layer_;  // of the last plan
  const LayerWeights* weights_ = nullptr;                          // null: layers are made up
};

}  // namespace

Result<std::unique_ptr<Validator>> open_validator(Compiler& compiler, i64 threads) {
  auto launcher = Launcher::create();
  if (!launcher) return launcher.error();
  auto stream = Stream::create();
  if (!stream) return stream.error();
  return std::unique_ptr<Validator>(
      std::make_unique<CudaValidator>(std::move(*launcher), std::move(*stream), compiler, threads));
}

}  // namespace moeplan
