#include "runtime/device/validator.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "planner/core/text.hpp"
#include "planner/moe/w4a16.hpp"
#include "runtime/device/cuda_status.hpp"
#include "runtime/device/device_arena.hpp"
#include "runtime/device/device_memory.hpp"
#include "runtime/device/launcher.hpp"

namespace moeplan {
namespace {

// ---- The device, in short. ----

template <class T>
T* pointer(const DeviceMemory& memory) {
  return reinterpret_cast<T*>(memory.data());
}

Result<DeviceMemory> room_for(i64 bytes, std::string_view what) {
  return DeviceMemory::allocate(max_of(bytes, 16), what);
}

template <class T>
Result<DeviceMemory> uploaded(const std::vector<T>& values, std::string_view what) {
  const auto bytes = values.size() * sizeof(T);
  auto memory = room_for(static_cast<i64>(bytes), what);
  if (!memory || values.empty()) return memory;
  if (const Status copied = check_cuda(
          cudaMemcpy(memory->data(), values.data(), bytes, cudaMemcpyHostToDevice), concat("copying ", what));
      !copied)
    return copied.error();
  return memory;
}

template <class T>
Result<std::vector<T>> downloaded(const std::byte* from, i64 count, cudaStream_t stream) {
  std::vector<T> values(static_cast<std::size_t>(count));
  const cudaError_t error =
      cudaMemcpyAsync(values.data(), from, values.size() * sizeof(T), cudaMemcpyDeviceToHost, stream);
  if (const Status copied = check_cuda(error, "copying what a launch left"); !copied) return copied.error();
  if (const Status waited = check_cuda(cudaStreamSynchronize(stream), "waiting for a launch"); !waited)
    return waited.error();
  return values;
}

class Stream {
 public:
  static Result<Stream> create() {
    cudaStream_t stream = nullptr;
    if (const Status created = check_cuda(cudaStreamCreate(&stream), "cudaStreamCreate"); !created)
      return created.error();
    return Stream(stream);
  }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  ~Stream() {
    if (stream_) (void)cudaStreamDestroy(stream_);
  }
  operator cudaStream_t() const { return stream_; }

 private:
  explicit Stream(cudaStream_t stream) : stream_(stream) {}
  cudaStream_t stream_;
};

// Captures what `work` launches into the stream, in the mode that forbids most, and runs it once as a graph.
template <class Work>
Status run_as_graph(cudaStream_t stream, const Work& work) {
  if (const Status begun =
          check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
      !begun)
    return begun;
  const Status worked = work();
  cudaGraph_t graph = nullptr;
  const Status ended = check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  if (!worked || !ended) {
    if (graph) (void)cudaGraphDestroy(graph);
    return worked ? ended : worked;
  }
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  (void)cudaGraphDestroy(graph);
  if (const Status made = check_cuda(error, "cudaGraphInstantiate"); !made) return made;
  Status ran = check_cuda(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
  if (ran) ran = check_cuda(cudaStreamSynchronize(stream), "replaying a graph");
  (void)cudaGraphExecDestroy(executable);
  return ran;
}

// Allocations that are one: each is at a multiple of what engines' allocators give.
class Places {
 public:
  i64 take(i64 bytes) {
    const i64 at = end_;
    end_ = align_up(end_ + bytes, kAddressAlignment);
    return at;
  }
  i64 end() const { return end_; }

 private:
  i64 end_ = 0;
};

// ---- Launches. ----

class Launches {
 public:
  Launches(const Launcher& launcher, LaunchResolver& resolver, cudaStream_t stream)
      : launcher_(launcher), resolver_(resolver), stream_(stream) {}

  cudaStream_t stream() const { return stream_; }

  template <class Arguments>
  Status run(const KernelVariant& variant, i64 grid, const Arguments& arguments, LaunchSite site) {
    site.stream = stream_;
    const auto kernel = resolver_.find(variant, site);
    if (!kernel) return kernel.error();
    const Grid blocks =
        (*kernel)->has_grid_barrier ? launcher_.resident_grid(**kernel, grid) : Grid{.x = grid};
    return launcher_.launch(**kernel, blocks, arguments, stream_);
  }

  Status fill(const RandomFillArguments& arguments) {
    return run(kRandomFill, grid_of(arguments.count), arguments, {});
  }

  // `elements`: of the step; each is a thread's while there are not too many.
  Status reference(TrellisReferenceArguments arguments, ReferenceStep step, i64 elements) {
    arguments.step = step;
    return run(kTrellisReference, grid_of(elements), arguments, {});
  }

  Status plan(const TrellisLaunches& launches, i64 tokens) {
    const LaunchSite site{.live_tokens = tokens, .block = launches.block};
    const auto& [route_pack, fused, top_k_sum, block] = launches;
    if (Status done = run(route_pack.variant, route_pack.grid, route_pack.arguments, site); !done)
      return done;
    if (Status done = run(fused.variant, fused.grid, fused.arguments, site); !done) return done;
    return run(top_k_sum.variant, top_k_sum.grid, top_k_sum.arguments, site);
  }

 private:
  static i64 grid_of(i64 elements) {
    return max_of(min_of(ceil_div(elements, kOracleThreads), i64{1} << 16), 1);
  }

  const Launcher& launcher_;
  LaunchResolver& resolver_;
  cudaStream_t stream_;
};

// ---- The layer that all plans of a shape run. ----

struct LayerShape {
  i64 hidden, intermediate, experts, bits;
  Codebook codebook;
  const LayerWeights* source;  // null: made up
  bool operator==(const LayerShape&) const = default;
};

struct Layer {
  LayerShape shape;
  DeviceMemory memory;
  TrellisWeights weights;
  HalfBits* decoded;  // all of them as halves: the reference's
};

TrellisReferenceArguments reference_of(const Layer& layer) {
  const LayerShape& s = layer.shape;
  const TrellisWeights& w = layer.weights;
  return {.step = {},
          .hidden = s.hidden,
          .intermediate = s.intermediate,
          .experts = s.experts,
          .bits = s.bits,
          .codebook = s.codebook,
          .w13 = reinterpret_cast<const HalfBits*>(w.w13),
          .w2 = reinterpret_cast<const HalfBits*>(w.w2),
          .gate_suh = w.gate_suh,
          .up_suh = w.up_suh,
          .down_svh = w.down_svh,
          .intermediate_rotations = w.intermediate_rotations,
          .gate_suh_stride = s.hidden,
          .up_suh_stride = s.hidden,
          .down_svh_stride = s.hidden,
          .weights = layer.decoded};
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

Result<Layer> make_layer(const LayerShape& s, Launches& launches) {
  const i64 matrix = s.experts * s.hidden * s.intermediate;
  const i64 words = matrix / 16 * s.bits;  // of 16 bits
  const i64 row_halves = s.experts * s.hidden, rotation_halves = s.experts * 3 * s.intermediate;
  Places places;
  const i64 w13 = places.take(2 * 2 * words), w2 = places.take(2 * words);
  const i64 gate_suh = places.take(2 * row_halves), up_suh = places.take(2 * row_halves);
  const i64 down_svh = places.take(2 * row_halves), rotations = places.take(2 * rotation_halves);
  const i64 decoded = places.take(2 * 3 * matrix);
  auto memory = DeviceMemory::allocate(places.end(), "a layer's weights, packed and as halves");
  if (!memory) return memory.error();
  std::byte* const base = memory->data();
  const auto halves = [&](i64 offset) { return reinterpret_cast<HalfBits*>(base + offset); };

  // A product over K decoded weights grows by about sqrt K, which scales of this size take back: gate, up and
  // output stay near one, whatever the shape.
  const double fc1_size = 1 / std::sqrt(static_cast<double>(s.hidden));
  const double fc2_size = 1 / std::sqrt(static_cast<double>(s.intermediate));
  const i64 pitch = 3 * s.intermediate, scales = s.experts * s.intermediate;
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
  RandomFillArguments fills[] = {
      words_at(w13, 2 * words),
      words_at(w2, words),
      scales_at(halves(gate_suh), row_halves, s.hidden, s.hidden, 1),
      scales_at(halves(up_suh), row_halves, s.hidden, s.hidden, 1),
      scales_at(halves(down_svh), row_halves, s.hidden, s.hidden, fc2_size),
      scales_at(halves(rotations), scales, s.intermediate, pitch, fc1_size),
      scales_at(halves(rotations) + s.intermediate, scales, s.intermediate, pitch, fc1_size),
      scales_at(halves(rotations) + 2 * s.intermediate, scales, s.intermediate, pitch, 1)};
  i64 seed = 1;
  for (RandomFillArguments& fill : fills) {
    fill.seed = seed++;
    if (const Status done = launches.fill(fill); !done) return done.error();
  }
  const TrellisWeights weights{.w13 = reinterpret_cast<const unsigned char*>(halves(w13)),
                               .w2 = reinterpret_cast<const unsigned char*>(halves(w2)),
                               .gate_suh = halves(gate_suh),
                               .up_suh = halves(up_suh),
                               .down_svh = halves(down_svh),
                               .intermediate_rotations = halves(rotations)};
  // Over what was made up.
  if (s.source) {
    if (const Status copied = copy_layer(*s.source, weights); !copied) return copied.error();
  }
  Layer layer{s, std::move(*memory), weights, halves(decoded)};
  if (const Status done = launches.reference(reference_of(layer), ReferenceStep::decode, 3 * matrix); !done)
    return done.error();
  return layer;
}

// ---- What the launches of one plan read, and what they are compared with. ----

constexpr i64 kTokenSeed = 100;

// Rooms for the largest launch.
struct Bench {
  DeviceMemory memory;
  HalfBits* x;
  TrellisReferenceArguments reference;  // with all addresses but those of a launch's routes
  float* first;                         // the output of a launch's first run
};

Result<Bench> make_bench(const TrellisPlan& plan, const Layer& layer, i64 tokens, Launches& launches) {
  const i64 routes = tokens * plan.top_k;
  Places places;
  const i64 x = places.take(2 * tokens * plan.hidden);
  const i64 rotated_gate = places.take(2 * routes * plan.hidden);
  const i64 rotated_up = places.take(2 * routes * plan.hidden);
  const i64 fc1 = places.take(2 * routes * 2 * plan.intermediate);
  const i64 activated_values = places.take(8 * routes * plan.intermediate);
  const i64 activated = places.take(2 * routes * plan.intermediate);
  const i64 fc2 = places.take(2 * routes * plan.hidden);
  const i64 output = places.take(8 * tokens * plan.hidden);
  const i64 first = places.take(4 * tokens * plan.hidden);
  const i64 rows = places.take(tokens * static_cast<i64>(sizeof(ComparedRow)));
  const i64 masked_bytes = places.take(8);
  auto memory = DeviceMemory::allocate(places.end(), "what a launch is compared with");
  if (!memory) return memory.error();
  std::byte* const base = memory->data();
  const auto halves = [&](i64 offset) { return reinterpret_cast<HalfBits*>(base + offset); };

  const i64 elements = tokens * plan.hidden;
  if (const Status done = launches.fill({.out = halves(x),
                                         .count = elements,
                                         .width = elements,
                                         .seed = kTokenSeed,
                                         .kind = plan.is_bfloat16 ? RandomKind::bfloat16 : RandomKind::half,
                                         .low = 0.01,
                                         .high = 2});
      !done)
    return done.error();
  Bench bench{std::move(*memory), halves(x), reference_of(layer), reinterpret_cast<float*>(base + first)};
  TrellisReferenceArguments& r = bench.reference;
  r.top_k = plan.top_k;
  r.is_bfloat16 = plan.is_bfloat16;
  r.x = bench.x;
  r.rotated_gate = halves(rotated_gate);
  r.rotated_up = halves(rotated_up);
  r.fc1 = halves(fc1);
  r.activated_values = reinterpret_cast<double*>(base + activated_values);
  r.activated = halves(activated);
  r.fc2 = halves(fc2);
  r.output = reinterpret_cast<double*>(base + output);
  r.rows = reinterpret_cast<ComparedRow*>(base + rows);
  r.masked_bytes = reinterpret_cast<unsigned long long*>(base + masked_bytes);
  return bench;
}

Status compute_reference(const TrellisReferenceArguments& r, Launches& launches) {
  const i64 routes = r.tokens * r.top_k;
  const std::pair<ReferenceStep, i64> steps[] = {{ReferenceStep::rotate_inputs, routes * r.hidden},
                                                 {ReferenceStep::multiply_fc1, routes * 2 * r.intermediate},
                                                 {ReferenceStep::activate, routes * r.intermediate},
                                                 {ReferenceStep::rotate_activated, routes * r.intermediate},
                                                 {ReferenceStep::multiply_fc2, routes * r.hidden},
                                                 {ReferenceStep::sum, r.tokens * r.hidden}};
  for (const auto& [step, elements] : steps) {
    if (Status done = launches.reference(r, step, elements); !done) return done;
  }
  return Ok{};
}

// ---- One launch's measurement. ----

// What the kernels take of a tensor for `tokens`: the live need, but no split-K scratch.
i64 need_bytes(const TrellisPlan& plan, const CoreElements& needed, const PlacedTensor& tensor) {
  for (int i = 0; i < kCoreTensorCount; ++i) {
    const auto core = static_cast<CoreTensor>(i);
    if (tensor.name != name_of(core)) continue;
    if (core == CoreTensor::fc1_c_tmp || core == CoreTensor::fc2_c_tmp) return 0;
    const bool is_half = core == CoreTensor::intermediate_cache13 ||
                         core == CoreTensor::intermediate_cache2 || core == CoreTensor::rotation_a_gate ||
                         core == CoreTensor::rotation_a_up;
    MOEPLAN_CHECK(plan.planned[static_cast<std::size_t>(i)] >= 0, "a tensor that the plan does not have");
    return needed[static_cast<std::size_t>(i)] * (is_half ? 2 : 4);
  }
  return 0;
}

class LaunchMeasurer {
 public:
  LaunchMeasurer(const TrellisPlan& plan, const Layer& layer, const Bench& bench, DeviceArena& arena,
                 Launches& launches)
      : plan_(plan), layer_(layer), bench_(bench), arena_(arena), launches_(launches) {}

  Result<Measurement> measure(const TestLaunch& launch) {
    const LiveRuntime& runtime = plan_.runtime(launch.has_map);
    const LiveNeed need = live_need(runtime, plan_.planned, launch.tokens);
    const Routes routes = routes_of(launch, {plan_.top_k, runtime.experts, plan_.experts, need.block_size});
    const auto wide_ids = uploaded(routes.ids, "ids of routes");
    const auto narrow_ids = uploaded(std::vector<int>(routes.ids.begin(), routes.ids.end()), "ids of routes");
    const auto weights = uploaded(routes.weights, "weights of routes");
    const auto map = uploaded(routes.map, "an expert map");
    const auto experts = uploaded(routes.experts, "experts of routes");
    for (const auto* memory : {&wide_ids, &narrow_ids, &weights, &map, &experts})
      if (!*memory) return memory->error();

    const TrellisInputs inputs{.x = bench_.x,
                               .topk_ids = routes.id_bytes == 8 ? wide_ids->data() : narrow_ids->data(),
                               .id_bytes = routes.id_bytes,
                               .topk_weights = pointer<const float>(*weights),
                               .expert_map = launch.has_map ? pointer<const int>(*map) : nullptr};
    const TrellisTensors tensors =
        trellis_tensors([&](std::string_view name) { return arena_.address(name); });
    const TrellisLaunches planned = trellis_launches(plan_, launch.tokens, tensors, layer_.weights, inputs);

    TrellisReferenceArguments reference = bench_.reference;
    reference.tokens = launch.tokens;
    reference.route_experts = pointer<const int>(*experts);
    reference.topk_weights = inputs.topk_weights;
    reference.found = tensors.full_rotation_output;
    reference.rotation_a_gate = reinterpret_cast<const unsigned char*>(tensors.rotation_a_gate);
    reference.rotation_a_up = reinterpret_cast<const unsigned char*>(tensors.rotation_a_up);
    reference.intermediate_cache2 = reinterpret_cast<const unsigned char*>(tensors.intermediate_cache2);
    if (const Status done = compute_reference(reference, launches_); !done) return done.error();

    Measurement m{.tokens = launch.tokens,
                  .routing = routing_name(launch),
                  .block = planned.block,
                  .mode = arena_.placement().mode};
    ArenaFindings findings;
    for (const ArenaPattern& poison : kValidationRounds) {
      const bool is_first = &poison == kValidationRounds;
      if (const Status done = run_poisoned(planned, poison, launch.tokens); !done) return done.error();
      if (const Status done = note_output(m, reference, is_first, m.replay_differences); !done)
        return done.error();
      if (const Status done = note_masked(m, reference, poison); !done) return done.error();
      if (const Status done = note_workspace(m, planned); !done) return done.error();
      auto seen = arena_.scan(launches_.stream());
      if (!seen) return seen.error();
      if (is_first)
        findings = std::move(*seen);
      else
        merge(findings, *seen);
    }
    // In what the last run left, as in an engine: without any reset. A barrier that was not left at its start
    // would wait for ever.
    if (m.is_workspace_zero) {
      if (const Status done =
              run_as_graph(launches_.stream(), [&] { return launches_.plan(planned, launch.tokens); });
          !done)
        return done.error();
      if (const Status done = note_output(m, reference, false, m.graph_differences); !done)
        return done.error();
      if (const Status done = note_workspace(m, planned); !done) return done.error();
    }

    m.stray_writes = std::move(findings.stray_writes);
    for (std::size_t i = 0; i < findings.high_water.size(); ++i)
      m.tensors.push_back({std::move(findings.high_water[i]),
                           need_bytes(plan_, need.elements, arena_.placement().tensors[i])});
    return m;
  }

 private:
  // Of kernel_workspace the kernels take the barrier's words, which have to be zero before the first launch
  // in an arena; the others keep their poison, so that whoever reads them is seen.
  static constexpr i64 kBarrierBytes = 8;

  Status run_poisoned(const TrellisLaunches& planned, const ArenaPattern& poison, i64 tokens) {
    if (Status filled = arena_.fill(poison, launches_.stream()); !filled) return filled;
    if (Status cleared =
            check_cuda(cudaMemsetAsync(planned.fused.arguments.barrier, 0, kBarrierBytes, launches_.stream()),
                       "clearing kernel_workspace");
        !cleared)
      return cleared;
    return launches_.plan(planned, tokens);
  }

  // Compares with the reference, and with the first run's output; the first keeps it.
  Status note_output(Measurement& m, TrellisReferenceArguments reference, bool is_first, i64& differences) {
    const i64 elements = reference.tokens * reference.hidden;
    if (is_first) {
      const cudaError_t error =
          cudaMemcpyAsync(bench_.first, reference.found, static_cast<std::size_t>(4 * elements),
                          cudaMemcpyDeviceToDevice, launches_.stream());
      if (Status kept = check_cuda(error, "keeping an output"); !kept) return kept;
    }
    reference.first = bench_.first;
    if (Status done = launches_.reference(reference, ReferenceStep::compare, reference.tokens); !done)
      return done;
    const auto rows = downloaded<ComparedRow>(reinterpret_cast<const std::byte*>(reference.rows),
                                              reference.tokens, launches_.stream());
    if (!rows) return rows.error();
    merge(m.output, output_difference(*rows));
    for (const ComparedRow& row : *rows) differences += row.different_words;
    return Ok{};
  }

  Status note_masked(Measurement& m, TrellisReferenceArguments reference, const ArenaPattern& poison) {
    const cudaError_t error =
        cudaMemsetAsync(reference.masked_bytes, 0, sizeof *reference.masked_bytes, launches_.stream());
    if (Status cleared = check_cuda(error, "clearing a count"); !cleared) return cleared;
    reference.poison = poison.poison;
    if (Status done = launches_.reference(reference, ReferenceStep::find_masked_rows,
                                          reference.tokens * reference.top_k);
        !done)
      return done;
    const auto bytes = downloaded<unsigned long long>(
        reinterpret_cast<const std::byte*>(reference.masked_bytes), 1, launches_.stream());
    if (!bytes) return bytes.error();
    m.masked_bytes = max_of(m.masked_bytes, static_cast<i64>(bytes->front()));
    return Ok{};
  }

  Status note_workspace(Measurement& m, const TrellisLaunches& planned) {
    const auto words = downloaded<int>(reinterpret_cast<const std::byte*>(planned.fused.arguments.barrier),
                                       kBarrierBytes / 4, launches_.stream());
    if (!words) return words.error();
    m.is_workspace_zero =
        m.is_workspace_zero && std::ranges::all_of(*words, [](int word) { return word == 0; });
    return Ok{};
  }

  const TrellisPlan& plan_;
  const Layer& layer_;
  const Bench& bench_;
  DeviceArena& arena_;
  Launches& launches_;
};

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
    if (layer_ && layer_->shape.source) layer_.reset();
  }

  Result<std::vector<Measurement>> measure(const TrellisPlan& plan, const Placement& placement,
                                           std::span<const TestLaunch> launches,
                                           const Progress& progress) override {
    MOEPLAN_CHECK(!launches.empty(), "a plan is measured with launches");
    LaunchResolver resolver(backend());
    for (const auto& variants :
         {std::vector<KernelVariant>(kArenaKernels.begin(), kArenaKernels.end()),
          std::vector<KernelVariant>(kOracleKernels.begin(), kOracleKernels.end()), trellis_variants(plan)}) {
      if (const Status resolved = resolver.resolve(variants); !resolved) return resolved.error();
    }
    resolver.freeze();
    Launches launcher(launcher_, resolver, stream_);

    const bool is_real = weights_ && weights_->shape() == experts_shape(plan);
    const LayerShape shape{plan.hidden, plan.intermediate, plan.experts,
                           plan.bits,   plan.codebook,     is_real ? weights_ : nullptr};
    if (!layer_ || !(layer_->shape == shape)) {
      layer_.reset();
      auto layer = make_layer(shape, launcher);
      if (!layer) return layer.error();
      layer_.emplace(std::move(*layer));
    }
    const i64 most = std::ranges::max_element(launches, {}, &TestLaunch::tokens)->tokens;
    auto bench = make_bench(plan, *layer_, most, launcher);
    if (!bench) return bench.error();
    auto arena = DeviceArena::create(placement, resolver, launcher_);
    if (!arena) return arena.error();

    LaunchMeasurer measurer(plan, *layer_, *bench, *arena, launcher);
    std::vector<Measurement> measurements;
    for (const TestLaunch& launch : launches) {
      auto measured = measurer.measure(launch);
      if (!measured) return measured.error();
      measurements.push_back(std::move(*measured));
      if (progress) progress(measurements.size(), launches.size());
    }
    return measurements;
  }

 private:
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
  std::optional<Layer> layer_;  // of the last plan
  const LayerWeights* weights_ = nullptr;
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
