#include "runtime/device/launch_measurer.hpp"

#include <algorithm>

#include "runtime/device/stream.hpp"
#include "runtime/environment.hpp"

namespace moeplan {
namespace {

i64 bytes_of(NumberType type) { return type == NumberType::float32 ? 4 : 2; }

// What launches bring is as large as they say for the capacity; a launch writes its rows, and the workspace
// was cleared.
i64 caller_need(const FusedPlan& plan, const TestLaunch& launch, const HighWater& use) {
  return use.tensor == kCallerOutput ? launch.tokens * plan.hidden * 2 : use.planned_bytes;
}

}  // namespace

Result<CompareRoom> CompareRoom::create(const FusedPlan& plan, i64 tokens) {
  const i64 elements = tokens * plan.hidden;
  Places places;
  const i64 first = places.take(4 * elements), expected = places.take(8 * elements);
  const i64 rows = places.take(tokens * static_cast<i64>(sizeof(ComparedRow)));
  const i64 masked_bytes = places.take(8);
  auto memory = DeviceMemory::allocate(places.end(), "what a launch is compared with");
  if (!memory) return memory.error();
  std::byte* const base = memory->data();
  return CompareRoom{std::move(*memory), base + first, At(base + expected), At(base + rows),
                     At(base + masked_bytes)};
}

Result<Measurement> LaunchMeasurer::measure(const TestLaunch& launch) {
  const FusedPlan& plan = fused_plan(plan_);
  const LiveRuntime& runtime = plan.runtime(launch.has_map);
  const i64 block = live_need(runtime, plan.planned, launch.tokens).block_size;
  const Routes routes = routes_of(launch, {plan.top_k, runtime.experts, plan.experts, block});
  const auto wide_ids = uploaded(routes.ids, "ids of routes");
  const auto narrow_ids = uploaded(std::vector<int>(routes.ids.begin(), routes.ids.end()), "ids of routes");
  const auto weights = uploaded(routes.weights, "weights of routes");
  const auto map = uploaded(routes.map, "an expert map");
  const auto experts = uploaded(routes.experts, "experts of routes");
  for (const auto* memory : {&wide_ids, &narrow_ids, &weights, &map, &experts})
    if (!*memory) return memory->error();

  const PreparedLaunch prepared =
      bench_.prepare({.tokens = launch.tokens,
                      .id_bytes = routes.id_bytes,
                      .ids = routes.id_bytes == 8 ? wide_ids->data() : narrow_ids->data(),
                      .weights = pointer<const float>(*weights),
                      .map = launch.has_map ? pointer<const int>(*map) : nullptr,
                      .experts = pointer<const int>(*experts)});
  CompareArguments compared{.hidden = plan.hidden,
                            .tokens = launch.tokens,
                            .top_k = plan.top_k,
                            .type = prepared.output_type,
                            .found = prepared.output,
                            .first = room_.first,
                            .expected = room_.expected,
                            .rows = room_.rows,
                            .route_experts = pointer<const int>(*experts),
                            .masked_bytes = room_.masked_bytes};
  std::ranges::copy(prepared.route_rows, compared.tensors);
  if (const Status done = prepared.reference(); !done) return done.error();

  Measurement m{.tokens = launch.tokens,
                .routing = routing_name(launch),
                .block = prepared.block,
                .mode = arena_.placement().mode,
                .tolerance = tolerance_of(plan_)};
  ArenaFindings in_arena, of_caller;
  for (const ArenaPattern& poison : kValidationRounds) {
    if (const Status done = run_poisoned(prepared, poison); !done) return done.error();
    if (const Status done = note_output(m, compared, &poison == kValidationRounds, m.replay_differences);
        !done)
      return done.error();
    if (const Status done = note_masked(m, compared, poison); !done) return done.error();
    if (const Status done = note_workspace(m, prepared); !done) return done.error();
    if (const Status done = scan(in_arena, of_caller); !done) return done.error();
  }
  // In what the last run left, as in an engine: without any reset. A barrier that was not left at its start
  // would wait for ever.
  if (m.is_workspace_zero) {
    const i64 reads = environment_reads();
    const auto graph = CapturedWork::capture(launches_.stream(), prepared.run);
    if (!graph) return graph.error();
    m.environment_reads = environment_reads() - reads;
    if (const Status done = graph->replay(launches_.stream()); !done) return done.error();
    if (const Status done = note_output(m, compared, false, m.graph_differences); !done) return done.error();
    if (const Status done = note_workspace(m, prepared); !done) return done.error();
  }

  m.stray_writes = std::move(in_arena.stray_writes);
  m.stray_writes.insert(m.stray_writes.end(), of_caller.stray_writes.begin(), of_caller.stray_writes.end());
  const CoreElements need = kernel_need(plan_, launch.tokens, launch.has_map);
  for (const HighWater& use : in_arena.high_water) m.tensors.push_back({use, need_bytes(need, use.tensor)});
  for (const HighWater& use : of_caller.high_water)
    m.caller_tensors.push_back({use, caller_need(plan, launch, use)});
  return m;
}

Status LaunchMeasurer::run_poisoned(const PreparedLaunch& prepared, const ArenaPattern& poison) {
  if (Status filled = arena_.fill(poison, launches_.stream()); !filled) return filled;
  if (caller_) {
    if (Status filled = caller_->fill(poison, launches_.stream()); !filled) return filled;
  }
  if (prepared.workspace_words == 0) return prepared.run();
  const cudaError_t error = cudaMemsetAsync(
      prepared.workspace, 0, static_cast<std::size_t>(4 * prepared.workspace_words), launches_.stream());
  if (Status cleared = check_cuda(error, "clearing kernel_workspace"); !cleared) return cleared;
  return prepared.run();
}

Status LaunchMeasurer::note_output(Measurement& m, CompareArguments compared, bool is_first,
                                   i64& differences) {
  if (is_first) {
    const i64 bytes = compared.tokens * compared.hidden * bytes_of(compared.type);
    const cudaError_t error = cudaMemcpyAsync(room_.first, compared.found, static_cast<std::size_t>(bytes),
                                              cudaMemcpyDeviceToDevice, launches_.stream());
    if (Status kept = check_cuda(error, "keeping an output"); !kept) return kept;
  }
  compared.step = CompareStep::output;
  if (Status done = launches_.step(kCompareLaunch, compared); !done) return done;
  const auto rows = downloaded<ComparedRow>(compared.rows, compared.tokens, launches_.stream());
  if (!rows) return rows.error();
  merge(m.output, output_difference(*rows));
  for (const ComparedRow& row : *rows) differences += row.different_words;
  return Ok{};
}

Status LaunchMeasurer::note_masked(Measurement& m, CompareArguments compared, const ArenaPattern& poison) {
  const cudaError_t error =
      cudaMemsetAsync(compared.masked_bytes, 0, sizeof *compared.masked_bytes, launches_.stream());
  if (Status cleared = check_cuda(error, "clearing a count"); !cleared) return cleared;
  compared.step = CompareStep::masked_bytes;
  compared.poison = poison.poison;
  if (Status done = launches_.step(kCompareLaunch, compared); !done) return done;
  const auto bytes = downloaded<unsigned long long>(compared.masked_bytes, 1, launches_.stream());
  if (!bytes) return bytes.error();
  m.masked_bytes = max_of(m.masked_bytes, static_cast<i64>(bytes->front()));
  return Ok{};
}

Status LaunchMeasurer::note_workspace(Measurement& m, const PreparedLaunch& prepared) {
  if (prepared.workspace_words == 0) return Ok{};
  const auto words = downloaded<int>(prepared.workspace, prepared.workspace_words, launches_.stream());
  if (!words) return words.error();
  m.is_workspace_zero =
      m.is_workspace_zero && std::ranges::all_of(*words, [](int word) { return word == 0; });
  return Ok{};
}

Status LaunchMeasurer::scan(ArenaFindings& arena, ArenaFindings& caller) {
  auto found = arena_.scan(launches_.stream());
  if (!found) return found.error();
  add(arena, std::move(*found));
  if (!caller_) return Ok{};
  auto beside = caller_->scan(launches_.stream());
  if (!beside) return beside.error();
  add(caller, std::move(*beside));
  return Ok{};
}

}  // namespace moeplan
