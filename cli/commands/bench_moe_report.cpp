#include "cli/commands/bench_moe_report.hpp"

#include <algorithm>

#include "cli/commands/skip.hpp"
#include "cli/commands/thousandths.hpp"
#include "planner/core/text.hpp"
#include "runtime/bench/quantile.hpp"

namespace moeplan {
namespace {

constexpr Audience kPrograms = Audience::programs, kPeople = Audience::people;
constexpr ColumnKind kCount = ColumnKind::count;

// What people see where a number is not known.
std::string or_dash(const std::optional<i64>& value, std::string (*show)(i64)) {
  return value ? show(*value) : "-";
}
// "1.042" of millionths.
std::string ratio_text(i64 ppm) { return decimal(rounded_div(ppm, 1000), 3); }
std::string spread_text(const MoeTiming& timing) {
  return concat(microseconds(timing.call_ns(10)), "-", microseconds(timing.call_ns(90)));
}

Table timings_table(const MoeRates& rates, const MoeTimings& timings) {
  Table table;
  table.key = "timings";
  table.title = "microseconds of a layer, uniform routing; of its time what a floor takes by itself";
  table.columns = {{"executor", "EXECUTOR"},
                   {"contract", "", ColumnKind::text, kPrograms},
                   {"plan", "PLAN"},
                   {"capacity", "", kCount, kPrograms},
                   {"tokens", "TOKENS", kCount},
                   {"distinct_experts", "EXPERTS", kCount},
                   {"calls", "", kCount, kPrograms},
                   {"layers", "", kCount, kPrograms},
                   {"median_ns", "", kCount, kPrograms},
                   {"median", "MEDIAN", kCount, kPeople},
                   {"p10_ns", "", kCount, kPrograms},
                   {"p90_ns", "", kCount, kPrograms},
                   {"p10_p90", "P10-P90", kCount, kPeople},
                   {"bytes", "", kCount, kPrograms},
                   {"weights", "", kCount, kPrograms},
                   {"flops", "", kCount, kPrograms},
                   {"gb_s", "GB/S", kCount},
                   {"gflop_s", "", kCount, kPrograms},
                   {"tflop_s", "TFLOP/S", kCount, kPeople},
                   {"byte_floor_permille", "", kCount, kPrograms},
                   {"byte_floor", "BYTES %", kCount, kPeople},
                   {"decode_floor_permille", "", kCount, kPrograms},
                   {"decode_floor", "DECODE %", kCount, kPeople},
                   {"flop_floor_permille", "", kCount, kPrograms},
                   {"flop_floor", "FLOPS %", kCount, kPeople},
                   {"sm_mhz", "", kCount, kPrograms},
                   {"mhz", "SM MHZ", kCount, kPeople}};
  for (const auto& of_tokens : timings.by_tokens) {
    for (const MoeTiming& timing : of_tokens) {
      const auto a_call = [&](i64 of_replay) { return rounded_div(of_replay, timing.calls); };
      const i64 bytes = byte_floor_permille(timing, rates);
      const auto decode = decode_floor_permille(timing, rates), flops = flop_floor_permille(timing, rates);
      table.rows.push_back({{timing.executor,
                             timing.contract,
                             timing.plan_id,
                             timing.capacity,
                             timing.tokens,
                             a_call(timing.distinct_experts),
                             timing.calls,
                             timing.layers,
                             timing.call_ns(),
                             microseconds(timing.call_ns()),
                             timing.call_ns(10),
                             timing.call_ns(90),
                             spread_text(timing),
                             a_call(timing.work.bytes),
                             a_call(timing.work.weights),
                             a_call(timing.work.flops),
                             timing.gb_s(),
                             timing.gflop_s(),
                             decimal(timing.gflop_s(), 1),
                             bytes,
                             percent(bytes),
                             optional_cell(decode),
                             or_dash(decode, percent),
                             optional_cell(flops),
                             or_dash(flops, percent),
                             optional_cell(timing.sm_mhz),
                             or_dash(timing.sm_mhz, grouped)},
                            {}});
    }
  }
  return table;
}

std::vector<Column> comparison_columns() {
  return {{"verdict", "VERDICT"},
          {"ratio_ppm", "", kCount, kPrograms},
          {"ratio", "RATIO", kCount, kPeople},
          {"low_ppm", "", kCount, kPrograms},
          {"high_ppm", "", kCount, kPrograms},
          {"interval", "95 %", kCount, kPeople},
          {"pairs", "", kCount, kPrograms}};
}
std::vector<Cell> comparison_cells(const PairedComparison& of) {
  return {std::string(name_of(of.verdict)),
          of.ratio_ppm,
          ratio_text(of.ratio_ppm),
          of.low_ppm,
          of.high_ppm,
          concat(ratio_text(of.low_ppm), "-", ratio_text(of.high_ppm)),
          of.pairs};
}
template <class T>
void append(std::vector<T>& to, std::vector<T> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// Every executor but the first against that one.
Table comparisons_table(const MoeTimings& timings) {
  Table table;
  table.key = "comparisons";
  table.title = "executors against the first: ratios of replays that took turns";
  table.columns = {{"tokens", "TOKENS", kCount}, {"executor", "EXECUTOR"}, {"against", "AGAINST"}};
  append(table.columns, comparison_columns());
  for (const auto& of_tokens : timings.by_tokens) {
    const MoeTiming& first = of_tokens.front();
    for (std::size_t i = 1; i < of_tokens.size(); ++i) {
      Row row{{first.tokens, of_tokens[i].executor, first.executor}, {}};
      append(row.cells, comparison_cells(compare_paired(first.replays, of_tokens[i].replays)));
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

// The executor that was fastest.
const MoeTiming& fastest(const std::vector<MoeTiming>& of_tokens) {
  return *std::ranges::min_element(of_tokens, {}, [](const MoeTiming& timing) { return timing.call_ns(); });
}

std::vector<MoePeerTime> comparable_peers(const MoeMachine& machine, const MoeTiming& timing) {
  return machine.gpu == kMoePeerGpu ? moe_peers(timing.shape, timing.tokens) : std::vector<MoePeerTime>();
}

i64 permille_of_peer(const MoeTiming& timing, const MoePeerTime& peer) {
  return rounded_div(timing.call_ns() * 1000, peer.nanoseconds);
}

Table peers_table(const MoeMachine& machine, const MoeTimings& timings) {
  Table table;
  table.key = "peers";
  table.title = concat("public kernels for this layer, recorded on an ", kMoePeerGpu);
  table.columns = {{"tokens", "TOKENS", kCount},
                   {"peer", "PEER"},
                   {"reads", "READS"},
                   {"peer_ns", "", kCount, kPrograms},
                   {"peer_median", "MEDIAN", kCount, kPeople},
                   {"executor", "FASTEST OF OURS"},
                   {"permille", "", kCount, kPrograms},
                   {"of_peer", "OURS/PEER", kCount, kPeople}};
  for (const auto& of_tokens : timings.by_tokens) {
    const MoeTiming& ours = fastest(of_tokens);
    for (const MoePeerTime& peer : comparable_peers(machine, ours)) {
      const i64 permille = permille_of_peer(ours, peer);
      table.rows.push_back(
          {{ours.tokens, std::string(peer.peer.name), std::string(peer.peer.reads), peer.nanoseconds,
            microseconds(peer.nanoseconds), ours.executor, permille, decimal(permille, 3)},
           {}});
    }
  }
  return table;
}

Table capacities_table(const MoeTimings& timings) {
  Table table;
  table.key = "capacities";
  table.title = concat("a chunk of ", grouped(timings.chunk_tokens.value_or(0)),
                       " tokens in plans of other capacities, a layer; ratios are to the first row");
  table.columns = {{"executor", "EXECUTOR"},
                   {"contract", "", ColumnKind::text, kPrograms},
                   {"plan", "", ColumnKind::text, kPrograms},
                   {"capacity", "CAPACITY", kCount},
                   {"launches", "LAUNCHES", kCount},
                   {"tail_tokens", "TAIL", kCount},
                   {"median_ns", "", kCount, kPrograms},
                   {"median", "US/CHUNK", kCount, kPeople},
                   {"p10_ns", "", kCount, kPrograms},
                   {"p90_ns", "", kCount, kPrograms},
                   {"p10_p90", "P10-P90", kCount, kPeople},
                   {"arena_bytes", "ARENA BYTES", ColumnKind::bytes},
                   {"scratch_bytes", "", kCount, kPrograms},
                   {"gained_kv_tokens", "", kCount, kPrograms},
                   {"gained", "KV TOKENS", kCount, kPeople},
                   {"all_layers_ns", "", kCount, kPrograms},
                   {"all_layers", "US x LAYERS", kCount, kPeople}};
  append(table.columns, comparison_columns());
  for (const CapacityTiming& each : timings.capacities) {
    const MoeTiming& timing = each.timing;
    const auto layers =
        timings.moe_layers ? std::optional(timing.call_ns() * *timings.moe_layers) : std::nullopt;
    Row row{{timing.executor, timing.contract, timing.plan_id, timing.capacity, timing.launches(),
             timing.tokens % timing.capacity, timing.call_ns(), microseconds(timing.call_ns()),
             timing.call_ns(10), timing.call_ns(90), spread_text(timing), each.arena_bytes,
             each.scratch_bytes, optional_cell(each.gained_tokens),
             each.gained_tokens ? concat(*each.gained_tokens > 0 ? "+" : "", grouped(*each.gained_tokens))
                                : std::string("-"),
             optional_cell(layers), or_dash(layers, microseconds)},
            {}};
    append(row.cells,
           comparison_cells(compare_paired(timings.capacities.front().timing.replays, timing.replays)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// "lean against faithful: FASTER at 9, UNSURE at 1"
std::vector<std::string> comparison_texts(const MoeTimings& timings) {
  std::vector<std::string> texts;
  if (timings.by_tokens.empty()) return texts;
  const auto& named = timings.by_tokens.front();
  for (std::size_t i = 1; i < named.size(); ++i) {
    i64 counts[std::size(kPairedVerdictNames)] = {};
    for (const auto& of_tokens : timings.by_tokens)
      ++counts[static_cast<int>(compare_paired(of_tokens.front().replays, of_tokens[i].replays).verdict)];
    std::vector<std::string> parts;
    for (std::size_t v = 0; v < std::size(counts); ++v)
      if (counts[v] > 0) parts.push_back(concat(kPairedVerdictNames[v], " at ", counts[v]));
    texts.push_back(concat(named[i].executor, " against ", named.front().executor, ": ", join(parts, ", ")));
  }
  return texts;
}

// "faster than exllamav3 at 9 of 9": of peers that decode what ours decode.
std::string peers_text(const MoeMachine& machine, const MoeTimings& timings) {
  i64 compared = 0, faster = 0;
  std::string_view name;
  for (const auto& of_tokens : timings.by_tokens) {
    const MoeTiming& ours = fastest(of_tokens);
    for (const MoePeerTime& peer : comparable_peers(machine, ours)) {
      if (peer.peer.bits == 0) continue;
      name = peer.peer.name;
      ++compared;
      if (permille_of_peer(ours, peer) < 1000) ++faster;
    }
  }
  return compared == 0 ? "" : concat(" · faster than ", name, " at ", faster, " of ", compared);
}

// What the smallest capacity of the first executor costs and gains.
std::string capacity_text(const MoeTimings& timings) {
  if (timings.capacities.size() < 2) return "";
  const CapacityTiming& first = timings.capacities.front();
  const CapacityTiming* smallest = &first;
  for (const CapacityTiming& each : timings.capacities) {
    if (each.timing.executor == first.timing.executor && each.timing.capacity < smallest->timing.capacity)
      smallest = &each;
  }
  if (smallest == &first) return "";
  const i64 ratio = compare_paired(first.timing.replays, smallest->timing.replays).ratio_ppm;
  return concat(" · capacity ", grouped(smallest->timing.capacity), " takes ", ratio_text(ratio),
                " of the time of ", grouped(first.timing.capacity),
                smallest->gained_tokens
                    ? concat(" for ", grouped(*smallest->gained_tokens), " KV tokens more")
                    : std::string());
}

// The curve of that name, with as many points as the chart.
ChartSeries& series_named(Chart& chart, std::string_view name) {
  const auto known = std::ranges::find(chart.series, name, &ChartSeries::name);
  if (known != chart.series.end()) return *known;
  chart.series.push_back({std::string(name), std::vector<std::optional<i64>>(chart.places.size())});
  return chart.series.back();
}

void add_place(Chart& chart, i64 place) {
  chart.places.push_back(place);
  chart.points.push_back(grouped(place));
}

// Microseconds over tokens: a line an executor, and a peer where there is one.
Chart chart_over_tokens(const MoeMachine& machine, const MoeTimings& timings) {
  Chart chart{.title = concat("microseconds of a layer on ", machine.gpu), .axis = "tokens"};
  // As the axis has them, whatever order they were asked for in.
  std::vector<const std::vector<MoeTiming>*> rising;
  for (const auto& of_tokens : timings.by_tokens) rising.push_back(&of_tokens);
  std::ranges::sort(rising, {}, [](const auto* of_tokens) { return of_tokens->front().tokens; });
  for (const auto* of_tokens : rising) add_place(chart, of_tokens->front().tokens);
  for (std::size_t i = 0; i < rising.size(); ++i) {
    for (const MoeTiming& timing : *rising[i])
      series_named(chart, timing.executor).values[i] = timing.call_ns();
  }
  for (std::size_t i = 0; i < rising.size(); ++i) {
    for (const MoePeerTime& peer : comparable_peers(machine, rising[i]->front()))
      series_named(chart, peer.peer.name).values[i] = peer.nanoseconds;
  }
  return chart;
}

// Microseconds of a chunk over capacities: a line an executor.
Chart chart_over_capacities(const MoeMachine& machine, const MoeTimings& timings) {
  Chart chart{.title = concat("microseconds of a chunk of ", grouped(timings.chunk_tokens.value_or(0)),
                              " tokens in a layer on ", machine.gpu),
              .axis = "prefill capacity"};
  std::vector<i64> capacities;
  for (const CapacityTiming& each : timings.capacities) capacities.push_back(each.timing.capacity);
  std::ranges::sort(capacities);
  capacities.erase(std::ranges::unique(capacities).begin(), capacities.end());
  for (const i64 capacity : capacities) add_place(chart, capacity);
  for (const CapacityTiming& each : timings.capacities) {
    const auto at = std::ranges::find(capacities, each.timing.capacity) - capacities.begin();
    series_named(chart, each.timing.executor).values[static_cast<std::size_t>(at)] = each.timing.call_ns();
  }
  return chart;
}

// One place makes no curve.
std::optional<Chart> chart_of(const MoeMachine& machine, const MoeTimings& timings) {
  if (timings.by_tokens.size() > 1) return chart_over_tokens(machine, timings);
  Chart chart = chart_over_capacities(machine, timings);
  return chart.places.size() > 1 ? std::optional(std::move(chart)) : std::nullopt;
}

// All timings, in their order.
std::vector<const MoeTiming*> all_of(const MoeTimings& timings) {
  std::vector<const MoeTiming*> all;
  for (const auto& of_tokens : timings.by_tokens)
    for (const MoeTiming& timing : of_tokens) all.push_back(&timing);
  for (const CapacityTiming& each : timings.capacities) all.push_back(&each.timing);
  return all;
}

void add_notes(Report& report, const MoeMachine& machine, const MoeTimings& timings) {
  const auto all = all_of(timings);
  const auto note = [&](std::string text) { report.notes.push_back(std::move(text)); };
  note(
      "plans are made for this GPU's multiprocessors; calls of a replay go through layers in turn, each with "
      "routes of its own");
  note(
      concat("byte floor: weights and scales of the experts that are routed to, x and the output, each moved "
             "once, at ",
             text_of(machine.rates.bandwidth)));
  if (machine.rates.decode_per_ns)
    note(concat("decode floor: those experts' weights, each decoded once, at ",
                decimal(*machine.rates.decode_per_ns, 3), " T weights/s, given: --decode-rate"));
  else
    note("no decode floor: no rate was measured here, and none is given; --decode-rate states one");
  if (machine.rates.flops)
    note(concat("flop floor: two flops a weight and route, at ", text_of(*machine.rates.flops)));
  else
    note("no flop floor: no rate was measured here, and none is given; --flop-rate states one");
  if (!machine.clock_trouble.empty()) note(concat("no clocks: ", machine.clock_trouble));
  if (std::ranges::any_of(all, [](const MoeTiming* timing) { return timing->layers < 2; }))
    note("one layer is all that the GPU has memory for: its weights may be in the L2 cache still");
  if (!timings.capacities.empty()) {
    note(
        "bytes and KV tokens are of the config's device, gained against the first row; times are of this "
        "GPU");
    if (!timings.moe_layers) note("no time of all layers: the config states no num_hidden_layers");
    if (!timings.capacities.front().gained_tokens) note("no KV tokens: the config's KV cache is not stated");
  }
  if (machine.gpu != kMoePeerGpu)
    note(concat("no peers: they were recorded on an ", kMoePeerGpu, ", and the GPU here is ", machine.gpu));
}

Report base_report(const BenchSubject& subject) {
  Report report;
  report.schema = "moeplan.bench_moe/1";
  report.subject = subject.text;
  report.facts = {{"name", subject.name ? Cell(*subject.name) : Cell()}, {"contract", subject.contract}};
  return report;
}

std::string name_in_front(const BenchSubject& subject) {
  return subject.name ? concat(*subject.name, ": ") : "";
}

void add_tables(Report& report, const MoeMachine& machine, const MoeTimings& timings) {
  report.tables = {timings_table(machine.rates, timings), comparisons_table(timings),
                   peers_table(machine, timings), capacities_table(timings)};
}

}  // namespace

Report bench_moe_report(const BenchSubject& subject, const MoeMachine& machine, const MoeTimings& timings,
                        std::vector<Finding> findings) {
  Report report = base_report(subject);
  add_tables(report, machine, timings);
  report.chart = chart_of(machine, timings);
  const i64 failed = std::ranges::count(findings, kNotTimed, &Finding::rule);
  report.answered_no = failed > 0;
  std::vector<std::string> timed;
  const auto counted = [](i64 count, std::string_view one, std::string_view several) {
    return concat(count, " ", count == 1 ? one : several);
  };
  if (!timings.by_tokens.empty())
    timed.push_back(counted(std::ssize(timings.by_tokens), "token count", "token counts"));
  if (!timings.capacities.empty())
    timed.push_back(counted(std::ssize(timings.capacities), "capacity", "capacities"));
  report.verdict = concat(name_in_front(subject), failed > 0 ? "NOT ALL TIMED" : "TIMED", " · ",
                          timed.empty() ? "nothing" : join(timed, ", "), " · ", machine.gpu, ", ",
                          machine.gpu_sms, " SMs");
  for (const std::string& text : comparison_texts(timings)) report.verdict += concat(" · ", text);
  report.verdict += concat(peers_text(machine, timings), capacity_text(timings), subject.rest);
  std::optional<i64> lowest, highest;
  for (const MoeTiming* timing : all_of(timings)) {
    if (!timing->sm_mhz) continue;
    lowest = min_of(lowest.value_or(*timing->sm_mhz), *timing->sm_mhz);
    highest = max_of(highest.value_or(*timing->sm_mhz), *timing->sm_mhz);
  }
  const MoeRates& rates = machine.rates;
  const auto from = [](bool is_known, bool is_measured, std::string_view measured) {
    return is_known ? Cell(std::string(is_measured ? measured : "given")) : Cell();
  };
  report.facts.insert(
      report.facts.end(),
      {{"skipped", Cell()},
       {"gpu", machine.gpu},
       {"gpu_sms", machine.gpu_sms},
       {"bandwidth_gb_s", rates.bandwidth.gb_s},
       {"bandwidth_from", from(true, rates.bandwidth.is_measured, "copy")},
       {"decode_weights_per_ns", optional_cell(rates.decode_per_ns)},
       {"decode_from", from(rates.decode_per_ns.has_value(), false, "")},
       {"flops_per_ns", rates.flops ? Cell(rates.flops->per_ns) : Cell()},
       {"flops_from", from(rates.flops.has_value(), rates.flops && rates.flops->is_measured, "mma")},
       {"sm_mhz_lowest", optional_cell(lowest)},
       {"sm_mhz_highest", optional_cell(highest)},
       {"peers_gpu", std::string(kMoePeerGpu)},
       {"chunk_tokens", optional_cell(timings.chunk_tokens)},
       {"moe_layers", optional_cell(timings.moe_layers)}});
  report.totals = {{"timed_token_counts", std::ssize(timings.by_tokens)},
                   {"timed_capacities", std::ssize(timings.capacities)},
                   {"failed", failed}};
  report.findings = std::move(findings);
  add_notes(report, machine, timings);
  return report;
}

Report skipped_bench_moe_report(const BenchSubject& subject, std::vector<Finding> findings,
                                const Error& why) {
  Report report = base_report(subject);
  report.findings = std::move(findings);
  report.verdict =
      concat(name_in_front(subject), "SKIPPED · nothing was run: ", skip_reason(why), subject.rest);
  add_tables(report, {}, {});
  add_skip(report, why);
  for (const char* key : {"gpu", "gpu_sms", "bandwidth_gb_s", "bandwidth_from", "decode_weights_per_ns",
                          "decode_from", "flops_per_ns", "flops_from", "sm_mhz_lowest", "sm_mhz_highest"})
    report.facts.push_back({key, Cell()});
  report.facts.push_back({"peers_gpu", std::string(kMoePeerGpu)});
  report.facts.push_back({"chunk_tokens", Cell()});
  report.facts.push_back({"moe_layers", Cell()});
  report.totals = {{"timed_token_counts", i64{0}}, {"timed_capacities", i64{0}}, {"failed", i64{0}}};
  return report;
}

}  // namespace moeplan
