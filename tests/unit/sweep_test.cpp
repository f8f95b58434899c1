// Points of a sweep against the configs they stand for, and which of them are shown.
#include <algorithm>
#include <map>

#include "cli/commands/planned_config.hpp"
#include "cli/sweep/columns.hpp"
#include "cli/sweep/report.hpp"
#include "cli/sweep/run.hpp"
#include "cli/sweep/select.hpp"
#include "planner/core/text.hpp"
#include "tests/deployment_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

const ConfigOverrides kNone;

struct BoundSweep {
  std::unique_ptr<Config> config;
  Sweep sweep;
};

BoundSweep bind(const Json& json, std::vector<std::string> texts, const std::string& arena = "") {
  BoundSweep bound{parse_config("test", json.dump(), kNone), {}};
  REQUIRE(bound.config->problems.empty());
  std::vector<Axis> axes;
  for (const std::string& text : texts) {
    auto axis = parse_axis(text);
    REQUIRE(axis);
    axes.push_back(std::move(*axis));
  }
  auto sweep = bind_sweep(*bound.config, kNone, std::move(axes), arena);
  if (!sweep) FAIL(sweep.error().message);
  bound.sweep = std::move(*sweep);
  return bound;
}

Error bind_error(const Json& json, std::vector<std::string> texts, const std::string& arena = "") {
  const auto config = parse_config("test", json.dump(), kNone);
  std::vector<Axis> axes;
  for (const std::string& text : texts) axes.push_back(*parse_axis(text));
  const auto sweep = bind_sweep(*config, kNone, std::move(axes), arena);
  REQUIRE(!sweep);
  return sweep.error();
}

std::vector<SweepPoint> points_of(const Sweep& sweep) {
  PointPlanner planner(sweep);
  std::vector<SweepPoint> points;
  for (i64 i = 0; i < sweep.points; ++i) points.push_back(planner.plan(i));
  return points;
}

// Bytes of a config's arenas as `size` plans them, by id; none where it has problems.
std::optional<std::map<std::string, i64>> planned(const Json& json, const ConfigOverrides& overrides) {
  const PlannedConfig planned = plan_config(parse_config("test", json.dump(), overrides));
  if (!planned.ok()) return std::nullopt;
  std::map<std::string, i64> bytes;
  for (const PlannedRequest& plan : planned.plans)
    bytes[plan.id()] = plan.moe() ? plan.moe()->total_bytes : plan.indexer()->total_bytes;
  for (const RuntimePart& part : planned.mixed_parts) bytes[part.name] = part.bytes;
  return bytes;
}

Json stated_json() {
  const Json weights = {{"quant_mode", "w4a16"},   {"source_format", "modelopt_nvfp4"},
                        {"activation", "silu"},    {"io_dtype", "bfloat16"},
                        {"experts", 128},          {"hidden_size", 4096},
                        {"intermediate_size", 384}};
  Json plan = {{"id", "a"},
               {"kind", "moe_tp"},
               {"weights", weights},
               {"capacity", {{"max_tokens", 512}, {"top_k", 8}}}};
  Json other = plan;
  other["id"] = "b";
  other["capacity"]["max_tokens"] = 64;
  return {{"schema_version", 1},
          {"contract", "sparkinfer-c2f135c"},
          {"device", {{"sm_count", 188}}},
          {"plans", Json::array({plan, other})}};
}

}  // namespace

TEST_CASE("every point of a short axis has the bytes of the config with that field set") {
  struct Case {
    const char* axis;
    const char* pointer;
    std::vector<i64> values;
  };
  const Case cases[] = {
      {"capacity=1..3072:+307", "/deployment/env/VLLM_EXL3_PREFILL_CAPACITY", {}},
      {"max_tokens=1..20000:x3", "/deployment/max_num_batched_tokens", {}},
      {"tp=1..17:+1", "/parallel/tp", {}},
      {"sms=1..4096:x2", "/device/sm_count", {}},
      {"/model/num_experts_per_tok=1..12:+1", "/model/num_experts_per_tok", {}},
      {"/model/n_routed_experts=0,7,300", "/model/n_routed_experts", {}},
  };
  for (const Json& json : {glm52_json(), glm52_mixed_json()}) {
    for (const Case& c : cases) {
      const BoundSweep bound = bind(json, {c.axis});
      for (const SweepPoint& point : points_of(bound.sweep)) {
        const std::string value = bound.sweep.axes[0].at(point.index).written();
        INFO(c.axis << " at " << value);
        const auto bytes =
            planned(json, {.sets = {concat(c.pointer, "=", value)}, .contract = {}, .environment = {}});
        CHECK(point.failed == !bytes);
        if (!bytes) continue;
        i64 sum = 0;
        for (const auto& [id, of_arena] : *bytes) sum += of_arena;
        CHECK(point.bytes == sum);
      }
    }
  }
}

TEST_CASE("contracts, blocks and single arenas have the bytes of the config that says so") {
  const Json json = glm52_json();
  const BoundSweep contracts =
      bind(json, {"contract=sparkinfer-de04125,sparkinfer-c2f135c,b12x-36bce2c"}, "prefill");
  for (const SweepPoint& point : points_of(contracts.sweep)) {
    const auto bytes = planned(json, {.sets = {}, .contract = kContractIds[point.index], .environment = {}});
    REQUIRE(bytes);
    CHECK(point.bytes == bytes->at("prefill"));
  }
  for (const auto& [arena, variable] :
       {std::pair{"decode", "VLLM_EXL3_TRELLIS_BLOCK_M"}, {"prefill", "VLLM_EXL3_PREFILL_BLOCK_M"}}) {
    const BoundSweep blocks = bind(json, {"block=8,16,32,48,64"}, arena);
    for (const SweepPoint& point : points_of(blocks.sweep)) {
      const auto value = blocks.sweep.axes[0].at(point.index).written();
      const auto bytes = planned(
          json,
          {.sets = {concat("/deployment/env/", variable, "=", value)}, .contract = {}, .environment = {}});
      CHECK(point.bytes == bytes->at(arena));
    }
  }
  const BoundSweep decode = bind(json, {"max_tokens=1..4096:x2"}, "decode");
  for (const SweepPoint& point : points_of(decode.sweep)) {
    const auto value = decode.sweep.axes[0].at(point.index).written();
    const auto bytes = planned(
        json,
        {.sets = {"/deployment/env/VLLM_EXL3_TRELLIS_MAX_M=" + value}, .contract = {}, .environment = {}});
    CHECK(point.bytes == bytes->at("decode"));
  }
}

TEST_CASE("a planner that comes from another point gives what a fresh one gives") {
  for (const Json& json : {glm52_json(), glm52_mixed_json()}) {
    const BoundSweep bound =
        bind(json, {"capacity=512,4096", "tp=3,4", "/deployment/num_speculative_tokens=0,5", "sms=64,188"});
    PointPlanner used(bound.sweep);
    // Every pair of points in a row, in both directions.
    for (i64 from = 0; from < bound.sweep.points; ++from) {
      for (i64 to = 0; to < bound.sweep.points; ++to) {
        used.plan(from);
        const SweepPoint a = used.plan(to), b = PointPlanner(bound.sweep).plan(to);
        CHECK(a.bytes == b.bytes);
        CHECK(a.failed == b.failed);
        CHECK(a.raised == b.raised);
        CHECK(a.launches == b.launches);
      }
    }
  }
}

TEST_CASE("stated plans are swept by their own max_tokens, one or all of them") {
  const Json json = stated_json();
  const auto with_tokens = [&](std::vector<std::string> sets) {
    return *planned(json, {.sets = std::move(sets), .contract = {}, .environment = {}});
  };
  for (const char* name : {"capacity", "max_tokens"}) {
    const auto one = points_of(bind(json, {concat(name, "=8,100")}, "a").sweep);
    const auto all = points_of(bind(json, {concat(name, "=8,100")}).sweep);
    for (std::size_t i = 0; i < 2; ++i) {
      const char* tokens = i == 0 ? "8" : "100";
      const auto bytes = with_tokens(
          {concat("/plans/0/capacity/max_tokens=", tokens), concat("/plans/1/capacity/max_tokens=", tokens)});
      CHECK(one[i].bytes == bytes.at("a"));
      CHECK(all[i].bytes == bytes.at("a") + bytes.at("b"));
      CHECK(!one[i].launches);
    }
  }
  const auto pinned = points_of(bind(json, {"block=unpinned,8,24"}, "b").sweep);
  CHECK(pinned[0].bytes == with_tokens({}).at("b"));
  CHECK(pinned[1].bytes == with_tokens({"/plans/1/capacity/block_size_m=8"}).at("b"));
  CHECK(pinned[2].error == ErrorCode::block_size);
}

TEST_CASE("a capacity beyond the scheduler is a deployment that schedules as much") {
  const Json json = glm52_json();
  const BoundSweep bound = bind(json, {"capacity=3072,8192,1024"});
  const auto points = points_of(bound.sweep);
  CHECK(points[1].raised);
  CHECK(!points[0].raised);
  // The raise ends with its point.
  CHECK(!points[2].raised);
  const auto bytes =
      planned(json, {.sets = {"/deployment/max_num_batched_tokens=8192"}, .contract = {}, .environment = {}});
  i64 sum = 0;
  for (const auto& [id, of_arena] : *bytes) sum += of_arena;
  CHECK(points[1].bytes == sum);
  CHECK(points[1].launches == 1);
  // Where the scheduler is swept too, nothing is raised: the engine refuses.
  const auto both = points_of(bind(json, {"capacity=8192", "max_tokens=3072,8192"}).sweep);
  CHECK(both[0].error == ErrorCode::invalid_environment);
  CHECK(!both[1].failed);
}

TEST_CASE("launches of a full step are 6, 3, 2, 2, 1 and 1, and a decode step is one") {
  const auto points = points_of(bind(glm52_json(), {"capacity=512,1024,1536,2048,3072,8192"}).sweep);
  const std::pair<i64, i64> expected[] = {{6, 4096},  {3, 8192},  {2, 12288},
                                          {2, 16384}, {1, 24576}, {1, 65536}};
  for (std::size_t i = 0; i < points.size(); ++i) {
    CHECK(points[i].launches == expected[i].first);
    CHECK(points[i].rows_per_launch == expected[i].second);
  }
  const auto decode = points_of(bind(glm52_json(), {"max_tokens=48"}, "decode").sweep);
  CHECK(decode[0].launches == 1);
  CHECK(decode[0].rows_per_launch == 48 * 8);
  CHECK(!points_of(bind(glm52_json(), {"sms=1"}, "indexer decode").sweep)[0].launches);
  // Without a prefill plan larger steps take the parity path.
  Json parity = glm52_json();
  parity["deployment"]["env"]["VLLM_EXL3_PREFILL_TRELLIS"] = 0;
  const auto steps = points_of(bind(parity, {"max_tokens=64,65"}).sweep);
  CHECK(steps[0].launches == 1);
  CHECK(!steps[1].launches);
}

TEST_CASE("axes and arenas that do not go with the config are refused") {
  const Json json = glm52_json();
  const auto contains = [](const Error& error, const char* part) {
    INFO(error.message << " | " << error.help);
    CHECK(error.pointer.empty());
    CHECK(concat(error.message, " | ", error.help).find(part) != std::string::npos);
  };
  contains(bind_error(json, {"capacity=1"}, "prefil"), "did you mean \"prefill\"?");
  contains(bind_error(json, {"block=8"}), "choose a MoE plan with --arena");
  contains(bind_error(json, {"block=8"}, "indexer decode"), "no block to pin");
  contains(bind_error(json, {"capacity=8"}, "decode"), "sweep max_tokens");
  contains(bind_error(stated_json(), {"tp=2"}), "this config states plans alone");
  contains(bind_error(json, {"tp=1", "tp=2"}), "two axes change /parallel/tp");
  contains(bind_error(json, {"sms=1", "/device/sm_count=2"}), "two axes change /device/sm_count");
  contains(bind_error(stated_json(), {"capacity=1", "max_tokens=2"}), "two axes change");
  contains(bind_error(json, {"/deployment/max_num_batch_tokens=1"}),
           "did you mean \"max_num_batched_tokens\"?");
  contains(bind_error(json, {"/deployment/env/VLLM_EXL3_PREFILL_CAPACITI=1"}, ""),
           "VLLM_EXL3_PREFILL_CAPACITY");
}

TEST_CASE("the configured point is found, whatever the axes are called") {
  const BoundSweep bound =
      bind(glm52_json(), {"capacity=512,3072", "sms=132,188", "/deployment/dtype=bfloat16,float16",
                          "/deployment/env/VLLM_EXL3_TRELLIS_MAX_M=32,64"});
  i64 configured = -1;
  for (i64 i = 0; i < bound.sweep.points; ++i) {
    if (!is_configured(bound.sweep, i)) continue;
    CHECK(configured == -1);
    configured = i;
  }
  CHECK(configured == 8 + 4 + 1);
  CHECK(is_configured(bind(glm52_json(), {"block=8"}, "decode").sweep, 0));
  CHECK(is_configured(bind(stated_json(), {"block=unpinned"}, "a").sweep, 0));
  CHECK(is_configured(bind(glm52_json(), {"contract=sparkinfer-de04125"}).sweep, 0));
}

TEST_CASE("a front holds exactly the points that no other beats, by brute force") {
  const BoundSweep bound = bind(glm52_json(), {"capacity=1..4000:+331", "sms=20..188:+56", "tp=1..8:+1"});
  const auto points = points_of(bound.sweep);
  const SweepView view = view_of(bound.sweep);
  for (const char* measures :
       {"bytes,launches", "launches,bytes", "bytes", "launches", "bytes,launches,change_bytes"}) {
    const auto selection = parse_selection(measures, "", 0, bound.sweep);
    REQUIRE(selection);
    Selector selector(*selection, view);
    for (const SweepPoint& point : points) selector.take(point);
    std::vector<i64> front, expected;
    for (const SweepPoint& point : selector.finish()) front.push_back(point.index);
    const auto measure = [&](const SweepPoint& p) {
      std::vector<i64> values;
      for (const SweepColumn* column : selection->pareto)
        values.push_back(std::get<i64>(column->cell(p, view)));
      return values;
    };
    for (const SweepPoint& p : points) {
      if (p.failed) continue;
      const bool beaten = std::ranges::any_of(
          points, [&](const SweepPoint& q) { return !q.failed && dominates(measure(q), measure(p)); });
      if (!beaten) expected.push_back(p.index);
    }
    INFO(measures);
    CHECK(front == expected);
    CHECK(!front.empty());
  }
}

TEST_CASE("one point beats another where it is no worse anywhere and better somewhere") {
  const auto beats = [](std::vector<i64> a, std::vector<i64> b) { return dominates(a, b); };
  CHECK(beats({1, 2}, {1, 3}));
  CHECK(!beats({1, 3}, {1, 2}));
  CHECK(!beats({1, 2}, {1, 2}));
  CHECK(!beats({0, 3}, {1, 2}));
}

TEST_CASE("the top of an order is what sorting everything gives, equal points in the order of the grid") {
  const BoundSweep bound = bind(glm52_json(), {"tp=1..8:+1", "capacity=1..4000:+7"});
  const auto points = points_of(bound.sweep);
  const SweepView view = view_of(bound.sweep);
  for (const bool descending : {false, true}) {
    std::vector<SweepPoint> sorted = points;
    std::ranges::stable_sort(sorted, [&](const SweepPoint& a, const SweepPoint& b) {
      if (a.failed || b.failed) return !a.failed && b.failed;
      return descending ? a.bytes > b.bytes : a.bytes < b.bytes;
    });
    for (const i64 top : {1, 10, 3000, 0}) {
      const auto selection = parse_selection("", descending ? "bytes:desc" : "bytes", top, bound.sweep);
      REQUIRE(selection);
      Selector selector(*selection, view);
      for (const SweepPoint& point : points) selector.take(point);
      const auto shown = selector.finish();
      REQUIRE(static_cast<i64>(shown.size()) ==
              (top == 0 ? bound.sweep.points : min_of(top, bound.sweep.points)));
      for (std::size_t i = 0; i < shown.size(); ++i) CHECK(shown[i].index == sorted[i].index);
    }
  }
  // Without an order the first stay; by an axis its values decide.
  const auto first = parse_selection("", "", 2, bound.sweep);
  Selector of_grid(*first, view);
  for (const SweepPoint& point : points) of_grid.take(point);
  CHECK(of_grid.finish()[1].index == 1);
  const auto by_axis = parse_selection("", "capacity:desc", 1, bound.sweep);
  Selector of_axis(*by_axis, view);
  for (const SweepPoint& point : points) of_axis.take(point);
  CHECK(of_axis.finish()[0].index == bound.sweep.axes[1].size - 1);
}

TEST_CASE("columns, orders and fronts that cannot be meant are refused") {
  const BoundSweep bound = bind(glm52_json(), {"tp=1"});
  CHECK(!choose_columns("bytes,lunches", bound.sweep));
  CHECK(choose_columns("bytes,lunches", bound.sweep).error().help == "did you mean \"launches\"?");
  CHECK(!choose_columns("bytes,bytes", bound.sweep));
  CHECK(!choose_columns("bytes,", bound.sweep));
  CHECK(!parse_selection("", "bytes:down", 0, bound.sweep));
  CHECK(!parse_selection("", "byte", 0, bound.sweep));
  CHECK(!parse_selection("", "bar", 0, bound.sweep));
  CHECK(!parse_selection("kv_tokens", "", 0, bound.sweep));
  CHECK(parse_selection("bytes,rows", "", 0, bound.sweep).error().help.find("launches") != std::string::npos);
}

TEST_CASE("blocks of a sweep come in order, the same on one thread and on three") {
  const BoundSweep bound = bind(glm52_json(), {"capacity=1..2500:+1", "tp=3,4"});
  std::string texts[2];
  for (const i64 threads : {1, 3}) {
    std::string& text = texts[threads / 3];
    i64 next = 0;
    const FormatPoint format = [](const SweepPoint& point, std::string& out) {
      out += concat(point.index, " ", point.bytes, "\n");
    };
    const RunEnd end =
        run_sweep_points(bound.sweep, {threads, false}, {&format, 1}, [&](const SweepBlock& block) {
          for (const SweepPoint& point : block.points) CHECK(point.index == next++);
          text += block.texts.at(0);
          return true;
        });
    CHECK(end.done == bound.sweep.points);
    CHECK(end.signal == 0);
    CHECK(next == bound.sweep.points);
  }
  CHECK(texts[0] == texts[1]);
}

TEST_CASE("KV tokens follow from the record, and stay empty with a note where it is not stated") {
  const BoundSweep bound = bind(glm52_json(), {"capacity=512,1536,3072"}, "prefill");
  const auto points = points_of(bound.sweep);
  const SweepView view = view_of(bound.sweep);
  const auto tokens = [&](std::size_t i) { return (*find_column("kv_tokens"))->cell(points[i], view); };
  CHECK(std::get<i64>(tokens(0)) == 52'473);
  CHECK(std::get<i64>(tokens(1)) == 31'484);
  CHECK(std::get<i64>(tokens(2)) == 0);
  Json unstated = glm52_json();
  unstated["deployment"].erase("kv_record_bytes");
  unstated["deployment"].erase("kv_cache_dtype");
  const BoundSweep other = bind(unstated, {"capacity=512"});
  const SweepView empty = view_of(other.sweep);
  CHECK(!empty.kv);
  const ShownPoints shown{points_of(other.sweep), 1, 0, 0, 0};
  const Selection all;
  const Report report = sweep_report(empty, all, *choose_columns("", other.sweep), true, shown);
  CHECK(std::ranges::any_of(report.notes, [](const std::string& note) {
    return note == "KV tokens are not stated: kv_cache_dtype is missing";
  }));
}
