// Captured launches: what was not resolved is refused, replays equal eager launches, and what a launch costs.
#include <chrono>

#include "planner/core/text.hpp"
#include "tests/gpu/records.hpp"

namespace moeplan::test {
namespace {

constexpr int kRepeats = 101;
constexpr int kCallsPerSample = 1000;
// Fewer than a stream queues before the host has to wait.
constexpr int kLaunchesPerSample = 200;

template <class Work>
i64 host_nanoseconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
      .count();
}

void add_verdict(Evidence& evidence, const std::string& name, bool is_right) {
  evidence.facts.push_back({name, std::string(is_right ? "yes" : "no")});
  evidence.is_pass = evidence.is_pass && is_right;
}

// A miss while the stream is captured, and the capture's end.
Status record_miss(Evidence& evidence, Gpu& gpu) {
  LaunchResolver resolver = gpu.resolver();
  if (const Status resolved = resolver.resolve({&kArenaFill, 1}); !resolved) return resolved;
  const std::size_t compiled = gpu.compiled.size();
  const Stream stream;
  if (const Status begun = Graph::begin(stream); !begun) return begun;
  const auto missed = resolver.find(kArenaScan, {.live_tokens = 7, .block = 16, .stream = stream});
  const auto graph = Graph::end(stream);
  add_verdict(evidence, "a miss under capture is refused",
              !missed && missed.error().code == ErrorCode::launch_not_resolved);
  if (!missed) evidence.facts.push_back({"what it says", missed.error().message});
  add_verdict(evidence, "nothing was compiled for it", gpu.compiled.size() == compiled);
  add_verdict(evidence, "the capture ended whole", static_cast<bool>(graph));
  return Ok{};
}

Status record_replay(Evidence& evidence, LaunchResolver& resolver, const DeviceArena& arena) {
  const i64 bytes = arena.placement().allocation_bytes;
  const Stream stream;
  if (const Status launched = arena.launch_fill(kArenaRounds[0], stream); !launched) return launched;
  if (const Status done = check_cuda(cudaStreamSynchronize(stream), "an eager launch"); !done) return done;
  const auto eager = bytes_at(arena.allocation(), bytes);
  if (!eager) return eager.error();

  if (const Status begun = Graph::begin(stream); !begun) return begun;
  const auto found = resolver.find(kArenaFill, {.stream = stream});
  const Status captured = arena.launch_fill(kArenaRounds[0], stream);
  const auto graph = Graph::end(stream);
  add_verdict(evidence, "behind freeze() a captured launch finds its kernel", static_cast<bool>(found));
  if (!captured) return captured;
  if (!graph) return graph.error();
  if (const Status cleared = set_bytes(arena.allocation(), 0, bytes); !cleared) return cleared;
  if (const Status replayed = graph->replay(stream); !replayed) return replayed;
  const auto replayed = bytes_at(arena.allocation(), bytes);
  if (!replayed) return replayed.error();
  add_verdict(evidence, "a replay writes the bytes of the eager launch", *replayed == *eager);
  evidence.facts.push_back({"bytes compared", bytes});
  return Ok{};
}

Status record_find(Evidence& evidence, LaunchResolver& resolver) {
  EvidenceSamples samples{.name = "resolver hit", .unit = concat("ns a ", kCallsPerSample, " calls")};
  bool is_found = true;
  for (int repeat = 0; repeat < kRepeats; ++repeat)
    samples.values.push_back(host_nanoseconds([&] {
      for (int call = 0; call < kCallsPerSample; ++call) {
        const KernelVariant& variant = call % 2 == 0 ? kArenaFill : kArenaScan;
        is_found = static_cast<bool>(resolver.find(variant, {.live_tokens = call})) && is_found;
      }
    }));
  add_verdict(evidence, "every resolved launch is found", is_found);
  evidence.facts.push_back(
      {"resolver hit, median ns", static_cast<double>(median(samples.values)) / kCallsPerSample});
  evidence.samples.push_back(std::move(samples));
  return Ok{};
}

// The host's time for launches of a small kernel, without waiting for them.
Status record_launches(Evidence& evidence, const DeviceArena& arena) {
  EvidenceSamples samples{.name = "eager launch", .unit = concat("ns a ", kLaunchesPerSample, " launches")};
  const Stream stream;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    Status launched = Ok{};
    samples.values.push_back(host_nanoseconds([&] {
      for (int launch = 0; launch < kLaunchesPerSample && launched; ++launch)
        launched = arena.launch_fill(kArenaRounds[0], stream);
    }));
    if (!launched) return launched;
    if (const Status done = check_cuda(cudaStreamSynchronize(stream), "small launches"); !done) return done;
  }
  evidence.facts.push_back({"eager launch, median ns of the host",
                            static_cast<double>(median(samples.values)) / kLaunchesPerSample});
  evidence.samples.push_back(std::move(samples));
  return Ok{};
}

}  // namespace

Result<Evidence> record_launch_capture(const RecordContext& context) {
  Gpu& gpu = context.gpu;
  Evidence evidence{.is_pass = true};
  if (const Status done = record_miss(evidence, gpu); !done) return done.error();

  LaunchResolver resolver = gpu.resolver();
  if (const Status resolved = resolver.resolve(kArenaKernels); !resolved) return resolved.error();
  resolver.freeze();
  const auto arena =
      DeviceArena::create(placed(context.decode.layout, GuardMode::packed), resolver, gpu.launcher);
  if (!arena) return arena.error();
  if (const Status done = record_replay(evidence, resolver, *arena); !done) return done.error();
  if (const Status done = record_find(evidence, resolver); !done) return done.error();

  // One small tensor: the device is done sooner than the host launches.
  constexpr i64 kSmall = 256;
  const TensorSpec tensor{
      .name = "small", .dtype = DType::uint8, .shape = shape(kSmall), .offset = 0, .bytes = kSmall};
  const auto small = DeviceArena::create(place_guarded(std::span(&tensor, 1), kSmall, GuardMode::packed),
                                         resolver, gpu.launcher);
  if (!small) return small.error();
  if (const Status done = record_launches(evidence, *small); !done) return done.error();
  return evidence;
}

}  // namespace moeplan::test
