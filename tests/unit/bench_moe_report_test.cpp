// What moeplan bench moe says of timings: the verdict, its tables, notes and picture, and JSON that fits its
// schema; and how executors find their plans.
#include "cli/commands/bench_moe_report.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "cli/commands/moe_executors.hpp"
#include "cli/commands/recorded_command.hpp"
#include "cli/io/schema.hpp"
#include "cli/render/render.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/fit.hpp"
#include "tests/catch.hpp"
#include "tests/schema_fit.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

constexpr MoeShape kShape = {6144, 512, 160, 8, 3};
const MoeMachine kH200 = {"NVIDIA H200", 132, {{4260, true}, std::nullopt, std::nullopt}, ""};

MoeTiming timing_of(const std::string& executor, i64 tokens, i64 call_ns, i64 capacity = 64) {
  MoeTiming timing{.executor = executor,
                   .contract = executor == "faithful" ? "sparkinfer-de04125" : "other-1",
                   .plan_id = capacity == 64 ? "decode" : "prefill",
                   .capacity = capacity,
                   .shape = kShape,
                   .tokens = tokens,
                   .calls = 2,
                   .layers = 2,
                   .work = work_of(kShape, 2 * tokens, 2 * min_of(8 * tokens, 160)),
                   .distinct_experts = 2 * min_of(8 * tokens, 160),
                   .sm_mhz = executor == "faithful" ? 1980 : 1755};
  for (i64 i = -10; i <= 10; ++i) timing.replays.push_back(2 * (call_ns + 10 * i));
  return timing;
}

MoeTimings some_timings() {
  return {.by_tokens = {{timing_of("faithful", 1, 60'000), timing_of("other", 1, 40'000)},
                        {timing_of("faithful", 64, 900'000), timing_of("other", 64, 900'100)},
                        {timing_of("faithful", 3072, 4'000'000, 3072),
                         timing_of("other", 3072, 4'400'000, 3072)}},
          .capacities = {},
          .chunk_tokens = std::nullopt,
          .moe_layers = 75};
}

MoeTimings some_capacities() {
  return {.by_tokens = {},
          .capacities = {{timing_of("faithful", 3072, 4'000'000, 3072), 1'105'369'560, 1'150'998'080, 0},
                         {timing_of("faithful", 3072, 5'000'000, 1000), 434'214'360, 479'842'880, 41'978}},
          .chunk_tokens = 3072,
          .moe_layers = 75};
}

BenchSubject subject() { return {.name = "glm", .contract = "sparkinfer-de04125", .text = "a model"}; }

std::string table_of(const Report& report) { return render_table({&report, 1}, {}, {.width = 400}); }

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string line_with(const std::string& text, std::string_view part) {
  const auto at = text.find(part);
  if (at == std::string::npos) return "";
  const auto begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

Json json_of(const Report& report) { return Json::parse(render_json({&report, 1}, {}, {})); }

const PlannedConfig& glm() {
  static const PlannedConfig planned =
      plan_config(read_config(MOEPLAN_SOURCE_DIR "/configs/glm52-e160.json", {}));
  return planned;
}

}  // namespace

TEST_CASE("the verdict of bench moe counts what was timed, compares executors, and names the Trellis peer") {
  const Report report = bench_moe_report(subject(), kH200, some_timings(), {});
  CHECK(report.verdict ==
        "glm: TIMED · 3 token counts · NVIDIA H200, 132 SMs · other against faithful: FASTER at 1, SLOWER at "
        "1, "
        "SAME at 1 · faster than exllamav3 at 3 of 3");
  CHECK_FALSE(report.answered_no);
  const Report capacities = bench_moe_report(subject(), kH200, some_capacities(), {});
  CHECK(capacities.verdict ==
        "glm: TIMED · 2 capacities · NVIDIA H200, 132 SMs · capacity 1,000 takes 1.250 of the time of 3,072 "
        "for "
        "41,978 KV tokens more");
}

TEST_CASE("no floor has a percentage whose rate was neither measured nor given, and a note says why") {
  const Report report = bench_moe_report(subject(), kH200, some_timings(), {});
  const std::string text = table_of(report);
  // 28,667,904 bytes take 6,730 ns at 4,260 GB/s.
  std::istringstream row(line_with(text, "faithful  decode"));
  const std::vector<std::string> cells(std::istream_iterator<std::string>(row), {});
  CHECK(cells == std::vector<std::string>{"faithful", "decode", "1", "8", "60.0", "59.9-60.1", "478", "2.5",
                                          "11.2", "-", "-", "1,980"});
  CHECK(contains(text, "no decode floor: no rate was measured here, and none is given; --decode-rate"));
  CHECK(contains(text, "no flop floor: no rate was measured here, and none is given; --flop-rate"));
  for (const Json& timing : json_of(report)["timings"]) {
    CHECK(timing["decode_floor_permille"].is_null());
    CHECK(timing["flop_floor_permille"].is_null());
  }
  MoeMachine given = kH200;
  given.rates.decode_per_ns = 4'100;
  given.rates.flops = FlopRate{630'000, true};
  const Report floors = bench_moe_report(subject(), given, some_timings(), {});
  const Json json = json_of(floors);
  CHECK(json["timings"][0]["decode_floor_permille"] == 307);  // 18,414 ns of 60,000
  CHECK(json["timings"][4]["flop_floor_permille"] == 184);    // 736 us of 4,000
  CHECK(contains(table_of(floors), "at 4.100 T weights/s, given: --decode-rate"));
  CHECK(contains(table_of(floors), "at 630.0 TFLOP/s, measured: mma.sync of halves out of registers"));
  CHECK_FALSE(contains(table_of(floors), "no flop floor"));
  CHECK(json["flops_from"] == "mma");
  CHECK(json["decode_from"] == "given");
  CHECK(json_of(report)["flops_from"].is_null());
}

TEST_CASE("executors are compared with the first at equal tokens, with the interval of the ratio") {
  const Json json = json_of(bench_moe_report(subject(), kH200, some_timings(), {}));
  REQUIRE(json["comparisons"].size() == 3);
  const Json& first = json["comparisons"][0];
  CHECK(first["executor"] == "other");
  CHECK(first["against"] == "faithful");
  CHECK(first["verdict"] == "FASTER");
  CHECK(first["ratio_ppm"] == 666'667);
  CHECK(first["low_ppm"].get<i64>() < first["ratio_ppm"].get<i64>());
  CHECK(first["high_ppm"].get<i64>() > first["ratio_ppm"].get<i64>());
  CHECK(first["pairs"] == 21);
  CHECK(json["comparisons"][1]["verdict"] == "SAME");
  CHECK(json["comparisons"][2]["verdict"] == "SLOWER");
  MoeTimings alone = some_timings();
  for (auto& of_tokens : alone.by_tokens) of_tokens.resize(1);
  CHECK(json_of(bench_moe_report(subject(), kH200, alone, {}))["comparisons"].empty());
}

TEST_CASE("peers stand where shape and GPU are those recorded, and 4-bit ones say what they read") {
  const Report here = bench_moe_report(subject(), kH200, some_timings(), {});
  const Json peers = json_of(here)["peers"];
  REQUIRE(peers.size() == 9);
  CHECK(peers[0]["peer"] == "exllamav3");
  CHECK(peers[0]["executor"] == "other");
  CHECK(peers[0]["permille"] == 473);  // 40.0 of 84.6
  CHECK(contains(line_with(table_of(here), "vLLM Marlin int4"), "no Trellis decode"));
  MoeMachine elsewhere = kH200;
  elsewhere.gpu = "NVIDIA L40S";
  const Report there = bench_moe_report(subject(), elsewhere, some_timings(), {});
  CHECK(json_of(there)["peers"].empty());
  CHECK_FALSE(contains(there.verdict, "exllamav3"));
  CHECK(contains(table_of(there), "no peers: they were recorded on an NVIDIA H200"));
  MoeTimings other = some_timings();
  for (auto& of_tokens : other.by_tokens)
    for (MoeTiming& timing : of_tokens) timing.shape.top_k = 4;
  CHECK(json_of(bench_moe_report(subject(), kH200, other, {}))["peers"].empty());
}

TEST_CASE("a capacity's row has launches, tail, bytes, KV tokens, the time of all layers and a verdict") {
  const Report report = bench_moe_report(subject(), kH200, some_capacities(), {});
  const Json json = json_of(report);
  CHECK(json["chunk_tokens"] == 3072);
  CHECK(json["moe_layers"] == 75);
  const Json& row = json["capacities"][1];
  CHECK(row["launches"] == 4);
  CHECK(row["tail_tokens"] == 72);
  CHECK(row["median_ns"] == 5'000'000);
  CHECK(row["arena_bytes"] == 434'214'360);
  CHECK(row["gained_kv_tokens"] == 41'978);
  CHECK(row["all_layers_ns"] == i64{75} * 5'000'000);
  CHECK(row["verdict"] == "SLOWER");
  CHECK(row["ratio_ppm"] == 1'250'000);
  CHECK(json["capacities"][0]["verdict"] == "SAME");
  const std::string text = line_with(table_of(report), "434,214,360");
  CHECK(contains(text, "+41,978"));
  CHECK(contains(text, "375,000.0"));
  MoeTimings unstated = some_capacities();
  unstated.moe_layers.reset();
  for (CapacityTiming& each : unstated.capacities) each.gained_tokens.reset();
  const Report bare = bench_moe_report(subject(), kH200, unstated, {});
  CHECK(json_of(bare)["capacities"][1]["all_layers_ns"].is_null());
  CHECK(json_of(bare)["capacities"][1]["gained_kv_tokens"].is_null());
  CHECK(contains(table_of(bare), "no time of all layers: the config states no num_hidden_layers"));
  CHECK(contains(table_of(bare), "no KV tokens: the config's KV cache is not stated"));
  CHECK_FALSE(contains(bare.verdict, "KV tokens"));
}

TEST_CASE("clocks of all timings are told as a range, or why there are none") {
  const Json json = json_of(bench_moe_report(subject(), kH200, some_timings(), {}));
  CHECK(json["sm_mhz_lowest"] == 1755);
  CHECK(json["sm_mhz_highest"] == 1980);
  MoeTimings unknown = some_timings();
  for (auto& of_tokens : unknown.by_tokens)
    for (MoeTiming& timing : of_tokens) timing.sm_mhz.reset();
  MoeMachine machine = kH200;
  machine.clock_trouble = "no library";
  const Report report = bench_moe_report(subject(), machine, unknown, {});
  CHECK(json_of(report)["sm_mhz_lowest"].is_null());
  CHECK(contains(table_of(report), "no clocks: no library"));
}

TEST_CASE("what could not be timed is a finding and answers no: slow is no failure") {
  MoeTimings timings = some_timings();
  timings.by_tokens.pop_back();
  const Report report = bench_moe_report(subject(), kH200, timings,
                                         {{"not-timed", "error", "", "3,072 tokens: no memory", "fewer"}});
  CHECK(report.answered_no);
  CHECK(report.verdict.starts_with("glm: NOT ALL TIMED · 2 token counts · "));
  CHECK(json_of(report)["totals"]["failed"] == 1);
  BenchSubject some = subject();
  some.rest = " · not timed: 1 plan";
  const Report rest =
      bench_moe_report(some, kH200, some_timings(), {{"no-kernels", "warning", "/quant", "a", "b"}});
  CHECK_FALSE(rest.answered_no);
  CHECK(rest.verdict.ends_with(" at 3 of 3 · not timed: 1 plan"));
  CHECK(bench_moe_report(subject(), kH200, {}, {}).verdict == "glm: TIMED · nothing · NVIDIA H200, 132 SMs");
}

TEST_CASE("the picture of bench moe has logarithmic axes and a line for each executor and peer") {
  const Report report = bench_moe_report(subject(), kH200, some_timings(), {});
  REQUIRE(report.chart);
  CHECK(report.chart->places == std::vector<i64>{1, 64, 3072});
  std::vector<std::string> names;
  for (const ChartSeries& series : report.chart->series) names.push_back(series.name);
  CHECK(names ==
        std::vector<std::string>{"faithful", "other", "exllamav3", "vLLM Marlin int4", "vLLM Marlin nvfp4"});
  CHECK(report.chart->series[0].values == std::vector<std::optional<i64>>{60'000, 900'000, 4'000'000});
  const std::string svg = render_svg({&report, 1}, {}, {});
  CHECK(contains(svg, "tokens, logarithmic, as the times are"));
  CHECK(contains(svg, ">10 us</text>"));
  CHECK(contains(svg, ">100,000 us</text>"));
  CHECK(contains(svg, "<title>64: 900.0 us</title>"));
  CHECK_FALSE(contains(svg, " MiB"));
  // Asked for in another order, they are drawn in their own.
  MoeTimings falling = some_timings();
  std::ranges::reverse(falling.by_tokens);
  const Report turned = bench_moe_report(subject(), kH200, falling, {});
  CHECK(turned.chart->places == report.chart->places);
  CHECK(turned.chart->series[0].values == report.chart->series[0].values);
  CHECK(turned.chart->series[2].values == report.chart->series[2].values);
  // One place makes no curve.
  MoeTimings one = some_timings();
  one.by_tokens.resize(1);
  CHECK_FALSE(bench_moe_report(subject(), kH200, one, {}).chart);
}

TEST_CASE("capacities alone are drawn over their tokens, a line an executor") {
  MoeTimings timings = some_capacities();
  timings.capacities.push_back({timing_of("other", 3072, 3'000'000, 3072), 1, 1, 0});
  const auto chart = bench_moe_report(subject(), kH200, timings, {}).chart;
  REQUIRE(chart);
  CHECK(chart->title == "microseconds of a chunk of 3,072 tokens in a layer on NVIDIA H200");
  CHECK(chart->places == std::vector<i64>{1000, 3072});
  REQUIRE(chart->series.size() == 2);
  CHECK(chart->series[0].values == std::vector<std::optional<i64>>{5'000'000, 4'000'000});
  CHECK(chart->series[1].values == std::vector<std::optional<i64>>{std::nullopt, 3'000'000});
}

TEST_CASE("JSON of bench moe fits its published schema") {
  const Json schema = Json::parse(schema_named("bench_moe"));
  CHECK(schema == Json::parse(read_source("configs/schema/moeplan.bench_moe.v1.schema.json")));
  MoeTimings both = some_timings();
  both.capacities = some_capacities().capacities;
  both.chunk_tokens = 3072;
  MoeMachine given = kH200;
  given.rates = {{4500, false}, FlopRate{630'000, false}, 4'100};
  const Report reports[] = {
      bench_moe_report(subject(), kH200, both, {}), bench_moe_report(subject(), given, both, {}),
      bench_moe_report({.contract = "a", .text = "b"}, kH200, {}, {{"not-timed", "error", "", "a", "b"}}),
      skipped_bench_moe_report(subject(), {}, {ErrorCode::no_device, "", "no GPU\nmore", ""})};
  for (const Report& report : reports) {
    const Json json = json_of(report);
    CHECK(misfit(schema, json) == "");
    Json broken = json;
    broken["totals"]["failed"] = 1.5;
    CHECK(misfit(schema, broken) == "/totals/failed is number");
    broken = json;
    broken.erase("capacities");
    CHECK(misfit(schema, broken) == "/capacities is missing");
  }
  CHECK(json_of(reports[3])["skipped"] == "no GPU");
  CHECK(json_of(reports[3])["verdict"] == "glm: SKIPPED · nothing was run: no GPU");
}

TEST_CASE("executors are names or contracts, each once: a name that is near is asked about") {
  const auto read = [](std::optional<std::string> list) { return read_executors(list); };
  CHECK(*read(std::nullopt) == std::vector<MoeExecutor>{{"faithful", ""}});
  CHECK(*read("faithful,sparkinfer-c2f135c") ==
        std::vector<MoeExecutor>{{"faithful", ""}, {"sparkinfer-c2f135c", "sparkinfer-c2f135c"}});
  CHECK(contains(read("faithful,sparkinfer-c2f135c,faithful").error().message, "faithful is named twice"));
  CHECK(read("faithfull").error().help == "did you mean \"faithful\"?");
  CHECK(read("sparkinfer-c2f135d").error().help == "did you mean \"sparkinfer-c2f135c\"?");
  CHECK(contains(read("zzz").error().help, "there are faithful, lean, "));
  CHECK(read("").error().message == "--executor : the list is empty");
  CHECK(contains(read("faithful,,lean").error().message, "an item is empty"));
  // Planned through the contract of that id: where a build does not have it, that is said.
  const auto lean = read("lean");
  if (find_contract("moeplan-lean-1")) {
    CHECK(*lean == std::vector<MoeExecutor>{{"lean", "moeplan-lean-1"}});
  } else {
    CHECK(lean.error().code == ErrorCode::unknown_contract);
    CHECK(contains(lean.error().message, "this build has no contract moeplan-lean-1"));
  }
}

TEST_CASE("an executor takes the smallest plan that holds the tokens, made for the GPU that is there") {
  const auto plans = ExecutorPlans::create({"faithful", ""}, glm(), {}, "");
  REQUIRE(plans);
  CHECK(plans->largest_capacity() == 3072);
  for (const auto& [tokens, plan] :
       {std::pair<i64, std::string>{1, "decode"}, {64, "decode"}, {65, "prefill"}, {3072, "prefill"}}) {
    const auto made = plans->case_of(tokens, 132);
    REQUIRE(made);
    CHECK(made->plan_id == plan);
    CHECK(made->shape == kShape);
    CHECK(made->executor == "faithful");
    CHECK(made->contract == "sparkinfer-de04125");
    CHECK(fused_plan(made->plan).multiprocessors == 132);
    CHECK(fused_plan(plans->case_of(tokens, std::nullopt)->plan).multiprocessors == 188);
  }
  const auto beyond = plans->case_of(3073, 132);
  REQUIRE_FALSE(beyond);
  CHECK(beyond.error().message ==
        "--tokens: 3,073 are more than plan prefill of executor faithful holds, 3,072");
  CHECK(contains(beyond.error().help, "--set /deployment/max_num_batched_tokens=3073"));
  CHECK(ExecutorPlans::create({"faithful", ""}, glm(), {}, "prefill")->case_of(1, 132)->plan_id == "prefill");
}

TEST_CASE("under another contract an executor plans the same text anew") {
  const auto own = ExecutorPlans::create({"faithful", ""}, glm(), {}, "");
  const auto other = ExecutorPlans::create({"b", "sparkinfer-c2f135c"}, glm(), {}, "");
  REQUIRE(own);
  REQUIRE(other);
  const auto made = other->case_of(3072, 132);
  REQUIRE(made);
  CHECK(made->contract == "sparkinfer-c2f135c");
  CHECK(made->shape == own->case_of(3072, 132)->shape);
}

TEST_CASE("a capacity's case is the prefill plan that the deployment would have, with all that it reserves") {
  const auto plans = ExecutorPlans::create({"faithful", ""}, glm(), {}, "");
  REQUIRE(plans);
  const Deployment& deployment = glm().config->deployment;
  for (const i64 capacity : {512, 1000, 3072}) {
    const auto made = plans->case_of_capacity(capacity, 132);
    REQUIRE(made);
    CHECK(made->timed.plan_id == "prefill");
    CHECK(made->timed.capacity == capacity);
    CHECK(made->scratch_bytes == *scratch_bytes_of(with_prefill_capacity(deployment, capacity)));
    CHECK(made->arena_bytes < made->scratch_bytes);
  }
  // What sweep prints for 512.
  CHECK(plans->case_of_capacity(512, 132)->arena_bytes == 266'400'232);
}

TEST_CASE("the record's command of bench moe holds every option that changes what is timed") {
  BenchOptions options;
  options.what = "moe";
  options.configs.paths = {"a.json"};
  options.executors = "faithful,lean";
  options.tokens = "1,64";
  options.capacities = "512";
  options.bandwidth_gb_s = "4500";
  options.decode_rate = "4.1";
  options.flop_rate = "630";
  options.evidence = "r.json";
  CHECK(evidence_command(options) ==
        "moeplan bench moe -c a.json --executor faithful,lean --tokens 1,64 --capacity 512 --bandwidth-gb-s "
        "4500 "
        "--decode-rate 4.1 --flop-rate 630 --evidence r.json");
}
