// What moeplan bench says of timings: the verdict, its table and notes, and JSON that fits its schema.
#include "cli/commands/bench_report.hpp"
#include "cli/commands/recorded_command.hpp"

#include "cli/commands/bench_shapes.hpp"
#include "cli/commands/planned_config.hpp"
#include "cli/io/schema.hpp"
#include "cli/render/render.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/indexer_requests.hpp"
#include "tests/catch.hpp"
#include "tests/schema_fit.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

constexpr i64 kTokens = 1024;
const BenchMachine kH200 = {"NVIDIA H200", 132, {4260, true}};

IndexerTiming timing_of(const IndexerShape& shape, i64 chain_ns) {
  IndexerTiming timing{.shape = shape,
                       .plan_id = "decode",
                       .route = IndexerRoute::paged_tiled,
                       .fold = IndexerFold::two_level,
                       .calls = 3,
                       .logits = {3 * chain_ns / 2}};
  for (i64 i = -10; i <= 10; ++i) timing.chain.push_back(3 * (chain_ns + 10 * i));
  return timing;
}

std::vector<IndexerTiming> some_timings() {
  return {timing_of({32, 16, 1, 128 * kTokens}, 84'000), timing_of({32, 48, 1, 512 * kTokens}, 1'003'700),
          timing_of({32, 2, 2, 64}, 3'000)};
}

BenchSubject subject() { return {.contract = "sparkinfer-de04125", .text = "shapes"}; }

std::string table_of(const Report& report, bool ascii = false) {
  RenderOptions options;
  options.ascii = ascii;
  return render_table({&report, 1}, {}, options);
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the verdict of bench comes first and says how shapes compare with the recorded peers") {
  const Report report = bench_report(subject(), kH200, some_timings(), {});
  CHECK(report.verdict ==
        "TIMED · 3 shapes · NVIDIA H200, 132 SMs · faster than the recorded peer at 1 of 2 shapes, 0.880 to "
        "1.100 of its time");
  CHECK_FALSE(report.answered_no);
  CHECK(table_of(report).starts_with(report.verdict + "\n"));
  const Report none = bench_report(subject(), kH200, {some_timings()[2]}, {});
  CHECK(none.verdict == "TIMED · 1 shape · NVIDIA H200, 132 SMs · no peer is recorded for these shapes");
  const Report named =
      bench_report({.name = "glm52", .contract = "a", .text = "b"}, kH200, {some_timings()[0]}, {});
  CHECK(
      named.verdict ==
      "glm52: TIMED · 1 shape · NVIDIA H200, 132 SMs · faster than the recorded peer at 1 of 1 shape, 0.880 "
      "of its time");
}

TEST_CASE("a row of bench has the median, its spread, the logits, the floor and the peer") {
  const std::string text = table_of(bench_report(subject(), kH200, some_timings(), {}));
  CHECK(contains(text, "logits and top-2048; peers were recorded on an NVIDIA H200: DeepGEMM's"));
  // 48 rows of 512k: 3,523,215,360 B take 827,046 ns at 4,260 GB/s.
  CHECK(
      contains(text,
               "decode     32    48      1     512k  paged_tiled  two-level  1,003.7  1,003.6-1,003.8   501.9"
               "     82.4  912.5      1.100"));
  CHECK(contains(text,
                 "decode     32     2      2       64  paged_tiled  two-level      3.0          2.9-3.1"));
  CHECK_FALSE(contains(text, "logits + top-k"));
  CHECK(contains(text, "at 4,260 GB/s, measured: a device-to-device copy, read and written"));
  const Report given = bench_report(subject(), {"NVIDIA H200", 132, {4500, false}}, some_timings(), {});
  CHECK(contains(table_of(given), "at 4,500 GB/s, given: --bandwidth-gb-s"));
  const std::string ascii = table_of(given, true);
  CHECK(std::ranges::all_of(ascii, [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
}

TEST_CASE("a peer's time that is of other heads, or that adds two times, says so") {
  const Report report = bench_report(
      subject(), kH200,
      {timing_of({64, 16, 1, 128 * kTokens}, 95'500), timing_of({32, 48, 4, 128 * kTokens}, 117'900)}, {});
  const std::string text = table_of(report);
  CHECK(contains(text, " 95.5      1.000  of 32 heads\n"));
  CHECK(contains(text, "235.8      0.500  logits + top-k\n"));
  CHECK(contains(text, "logits + top-k: both of the peer were recorded alone, and are added\n"));
  const Json shapes = Json::parse(render_json({&report, 1}, {}, {}))["shapes"];
  CHECK(shapes[0]["peer_heads"] == 32);
  CHECK(shapes[0]["peer_is_sum"] == false);
  CHECK(shapes[1]["peer_is_sum"] == true);
}

TEST_CASE("on another GPU bench prints the peers' times, no ratio, and why") {
  const Report report = bench_report(subject(), {"NVIDIA L40S", 142, {800, true}}, some_timings(), {});
  CHECK(report.verdict ==
        "TIMED · 3 shapes · NVIDIA L40S, 142 SMs · not compared: peers were recorded on an NVIDIA H200");
  const std::string text = table_of(report);
  CHECK(contains(text, "95.5"));
  CHECK_FALSE(contains(text, "0.880"));
  CHECK(contains(text,
                 "no ratio to peers: they were recorded on an NVIDIA H200, and the GPU here is NVIDIA L40S"));
  const Json json = Json::parse(render_json({&report, 1}, {}, {}));
  CHECK(json["shapes"][0]["peer_ns"] == 95'500);
  CHECK(json["shapes"][0]["peer_permille"].is_null());
  CHECK(json["totals"]["compared_shapes"] == 0);
}

TEST_CASE("a shape that could not be timed is a finding, and answers no") {
  const Report report =
      bench_report(subject(), kH200, {some_timings()[0]},
                   {{"not-timed", "error", "", "32 heads 48x512k: no memory", "fewer rows"}});
  CHECK(report.answered_no);
  CHECK(report.verdict.starts_with("NOT ALL TIMED · 1 of 2 shapes · "));
  CHECK(contains(table_of(report), "error[not-timed] 32 heads 48x512k: no memory\n  fix: fewer rows\n"));
}

TEST_CASE("plans that are not timed are told of, and fail nothing") {
  BenchSubject some = subject();
  some.rest = " · no kernels for indexer decode";
  const Report report =
      bench_report(some, kH200, {some_timings()[0]}, {{"no-kernels", "warning", "/deployment", "a", "b"}});
  CHECK_FALSE(report.answered_no);
  CHECK(report.verdict.starts_with("TIMED · 1 shape · "));
  CHECK(report.verdict.ends_with(" of its time · no kernels for indexer decode"));
  CHECK(contains(table_of(report), "warning[no-kernels] a\n  fix: b\n"));
}

TEST_CASE("calls of a deployment's decode plan have requests of a token and its speculative ones") {
  const PlannedConfig planned = plan_config(read_config(MOEPLAN_SOURCE_DIR "/configs/glm52.json", {}));
  REQUIRE(planned.ok());
  const i64 group = decode_rows_per_request(*planned.config->deployment.engine);
  std::vector<std::string> names;
  for (const DeployedIndexer& plan : planned.indexer_plans) {
    const auto shapes =
        planned_shapes({}, plan.request->id, indexer_plan(plan.request->indexer, *plan.layout, 1), group);
    REQUIRE(shapes);
    for (const IndexerShape& shape : *shapes) names.push_back(name_of(shape));
  }
  REQUIRE(names.size() == 2);
  CHECK(names[0] == "32 heads 48x512k groups of 6");
  CHECK(names[1].starts_with("prefill 32 heads "));
}

TEST_CASE("top-k is a column where it varies, and stands in the title where it does not") {
  const Report one = bench_report(subject(), kH200, some_timings(), {});
  CHECK_FALSE(contains(table_of(one), "TOP-K"));
  CHECK(contains(table_of(one), "logits and top-2048;"));
  const Report two = bench_report(
      subject(), kH200, {timing_of({32, 1, 1, 64}, 3'000), timing_of({32, 1, 1, 64, 512}, 3'000)}, {});
  CHECK(contains(table_of(two), "TOP-K"));
  CHECK(contains(table_of(two), "logits and top-k;"));
}

TEST_CASE("the record's command holds every option that changes what is timed") {
  BenchOptions options;
  options.what = "indexer";
  options.configs.paths = {"a b.json"};
  options.configs.overrides = {
      .sets = {"/deployment/max_num_seqs=4"}, .contract = "b12x-36bce2c", .environment = {"B12X_X"}};
  options.plan = "indexer decode";
  options.rows = "1,4";
  options.context = "8k";
  options.group = "1";
  options.bandwidth_gb_s = "4500";
  options.evidence = "record.json";
  CHECK(evidence_command(options) ==
        "moeplan bench indexer -c 'a b.json' --set /deployment/max_num_seqs=4 --contract b12x-36bce2c "
        "--allow-env B12X_X --plan 'indexer decode' --rows 1,4 --context 8k --group 1 --bandwidth-gb-s 4500 "
        "--evidence record.json");
  BenchOptions shapes;
  shapes.what = "indexer";
  shapes.heads = "32";
  shapes.rows = "64";
  shapes.context = "8k";
  shapes.top_k = "512";
  shapes.is_prefill = true;
  shapes.evidence = "r.json";
  CHECK(evidence_command(shapes) ==
        "moeplan bench indexer --heads 32 --rows 64 --context 8k --top-k 512 --prefill --evidence r.json");
}

TEST_CASE("JSON of bench fits its published schema, and holds integers alone") {
  const Json schema = Json::parse(schema_named("bench"));
  CHECK(schema == Json::parse(read_source("configs/schema/moeplan.bench.v1.schema.json")));
  Report failing = bench_report(subject(), kH200, some_timings(), {{"not-timed", "error", "", "a", "b"}});
  const Report reports[] = {
      bench_report(subject(), kH200, some_timings(), {}),
      bench_report({.name = "glm52", .contract = "a", .text = "b"}, {"NVIDIA L40S", 142, {800, false}},
                   some_timings(), {}),
      failing, skipped_bench_report(subject(), {}, {ErrorCode::no_device, "", "no GPU\nmore", ""})};
  for (const Report& report : reports) {
    const Json json = Json::parse(render_json({&report, 1}, {}, {}));
    CHECK(misfit(schema, json) == "");
    // The judge refuses what does not fit.
    Json broken = json;
    broken["totals"]["shapes"] = 1.5;
    CHECK(misfit(schema, broken) == "/totals/shapes is number");
    broken = json;
    broken.erase("gpu");
    CHECK(misfit(schema, broken) == "/gpu is missing");
  }
  const Json json = Json::parse(render_json({&reports[0], 1}, {}, {}));
  const Json& row = json["shapes"][1];
  CHECK(row["context_tokens"] == 524'288);
  CHECK(row["median_ns"] == 1'003'700);
  CHECK(row["p10_ns"] == 1'003'620);
  CHECK(row["p90_ns"] == 1'003'780);
  CHECK(row["logits_ns"] == 501'850);
  CHECK(row["floor_bytes"] == i64{140} * 48 * 524'288);
  CHECK(row["floor_permille"] == 824);
  CHECK(row["peer_ns"] == 912'500);
  CHECK(row["peer_logits_ns"] == 811'600);
  CHECK(row["peer_permille"] == 1100);
  Json broken = json;
  broken["shapes"][0]["fold"] = 3;
  CHECK(misfit(schema, broken) == "/shapes/0/fold is integer");
  const Json skipped = Json::parse(render_json({&reports[3], 1}, {}, {}));
  CHECK(skipped["skipped"] == "no GPU");
  CHECK(skipped["verdict"] == "SKIPPED · nothing was run: no GPU");
}
