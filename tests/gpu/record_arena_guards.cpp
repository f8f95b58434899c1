// Guards of the decode plan catch a byte at every edge; how fast fill and scan run.
#include "planner/core/text.hpp"
#include "tests/gpu/records.hpp"

namespace moeplan::test {
namespace {

constexpr int kWarmUps = 5;
constexpr int kRepeats = 101;

// 1 where a byte directly at that edge of a tensor is the one finding, named with tensor, side and distance;
// one value a tensor whose edge is guarded.
Result<EvidenceSamples> plant(DeviceArena& arena, Side side) {
  EvidenceSamples caught{.name = concat(name_of(arena.placement().mode), ": byte ", name_of(side), " caught"),
                         .unit = "1 is yes"};
  for (const PlacedTensor& tensor : arena.placement().tensors) {
    if (tensor.guarded(side) == 0) continue;
    if (const Status filled = arena.fill(kArenaRounds[0], nullptr); !filled) return filled.error();
    const i64 offset = side == Side::before ? tensor.begin - 1 : tensor.end();
    if (const Status flipped = flip_byte(arena.allocation() + offset); !flipped) return flipped.error();
    const auto findings = arena.scan(nullptr);
    if (!findings) return findings.error();
    const auto& writes = findings->stray_writes;
    const bool is_caught = writes.size() == 1 && writes[0].tensor == tensor.name && writes[0].side == side &&
                           writes[0].distance == 1 && writes[0].bytes == 1;
    caught.values.push_back(is_caught ? 1 : 0);
  }
  return caught;
}

template <class Launch>
Result<EvidenceSamples> time_launches(const std::string& name, cudaStream_t stream, const Launch& launch) {
  EvidenceSamples samples{.name = name, .unit = "ns"};
  auto timer = StreamTimer::create(stream);
  if (!timer) return timer.error();
  for (int i = -kWarmUps; i < kRepeats; ++i) {
    if (const Status started = timer->start(); !started) return started.error();
    if (const Status launched = launch(); !launched) return launched.error();
    const auto nanoseconds = timer->stop();
    if (!nanoseconds) return nanoseconds.error();
    if (i >= 0) samples.values.push_back(*nanoseconds);
  }
  return samples;
}

bool are_all_caught(const EvidenceSamples& samples) {
  return !samples.values.empty() && std::ranges::count(samples.values, 1) == std::ssize(samples.values);
}

Status record_plants(Evidence& evidence, const RecordContext& context, LaunchResolver& resolver) {
  for (const GuardMode mode : {GuardMode::strict, GuardMode::packed}) {
    auto arena = DeviceArena::create(placed(context.decode.layout, mode), resolver, context.gpu.launcher);
    if (!arena) return arena.error();
    for (const Side side : {Side::before, Side::behind}) {
      auto caught = plant(*arena, side);
      if (!caught) return caught.error();
      evidence.is_pass = evidence.is_pass && are_all_caught(*caught);
      evidence.facts.push_back({concat(caught->name, ", edges"), std::ssize(caught->values)});
      evidence.samples.push_back(std::move(*caught));
    }
    if (mode == GuardMode::packed) continue;
    std::vector<std::string_view> names;
    for (const PlacedTensor& tensor : arena->placement().tensors) names.push_back(tensor.name);
    evidence.facts.push_back({"tensors, in the order of the strict samples", join(names, ", ")});
  }
  return Ok{};
}

Status record_speed(Evidence& evidence, const RecordContext& context, LaunchResolver& resolver) {
  auto arena =
      DeviceArena::create(placed(context.prefill.layout, GuardMode::packed), resolver, context.gpu.launcher);
  if (!arena) return arena.error();
  const i64 bytes = arena->placement().allocation_bytes;
  const ArenaPattern pattern = kArenaRounds[0];
  // Other poison under the same guards: as if kernels had written every byte that they may.
  const ArenaPattern all_touched{.poison = kArenaRounds[1].poison, .seed = pattern.seed};
  const Stream stream;
  evidence.facts.push_back({"bytes filled and scanned", bytes});

  const auto add = [&](Result<EvidenceSamples> samples) -> Status {
    if (!samples) return samples.error();
    // Bytes a nanosecond are GB/s.
    const double speed = static_cast<double>(bytes) / static_cast<double>(median(samples->values));
    evidence.facts.push_back({concat(samples->name, ", median GB/s"), speed});
    evidence.samples.push_back(std::move(*samples));
    return Ok{};
  };
  if (const Status done =
          add(time_launches("fill", stream, [&] { return arena->launch_fill(pattern, stream); }));
      !done)
    return done;
  if (const Status done = add(time_launches("scan of an untouched arena", stream,
                                            [&] { return arena->launch_scan(pattern, stream); }));
      !done)
    return done;
  if (const Status done = add(time_launches("scan of an arena touched all over", stream,
                                            [&] { return arena->launch_scan(all_touched, stream); }));
      !done)
    return done;

  if (const Status filled = arena->fill(pattern, stream); !filled) return filled;
  const auto findings = arena->scan(stream);
  if (!findings) return findings.error();
  const bool is_clean =
      findings->stray_writes.empty() &&
      std::ranges::all_of(findings->high_water, [](const HighWater& use) { return use.end_touched == 0; });
  evidence.is_pass = evidence.is_pass && is_clean;
  evidence.facts.push_back({"findings in a clean arena", std::string(is_clean ? "none" : "some")});
  return Ok{};
}

}  // namespace

Result<Evidence> record_arena_guards(const RecordContext& context) {
  Evidence evidence{.is_pass = true};
  evidence.facts.push_back({"plan of the planted bytes", std::string("decode")});
  evidence.facts.push_back({"plan of the speeds", std::string("prefill")});
  LaunchResolver resolver = context.gpu.resolver();
  if (const Status resolved = resolver.resolve(kArenaKernels); !resolved) return resolved.error();
  if (const Status done = record_plants(evidence, context, resolver); !done) return done.error();
  if (const Status done = record_speed(evidence, context, resolver); !done) return done.error();
  return evidence;
}

}  // namespace moeplan::test
