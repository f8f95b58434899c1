#include "planner/deployment/memory_budget.hpp"

#include "planner/deployment/engine_figures.hpp"
#include "planner/deployment/fit.hpp"
#include "tests/deployment_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

Json declared() {
  Json config = glm52_json();
  config["device"]["total_memory"] = 100'000'000'000;
  config["budget"] = {{"weights", 80'000'000'000},
                      {"base_activation", 500'000'000},
                      {"non_torch", 200'000'000},
                      {"graph_pool", 100'000'000},
                      {"margin", "4.1 GiB"}};
  return config;
}

MemoryBudget budget(const Json& config, const BudgetExtras& extras = {}) {
  auto made = memory_budget(deployment_of(config), extras);
  if (!made) FAIL(made.error().pointer << " " << made.error().message);
  return *made;
}

const BudgetRow& row_of(const MemoryBudget& budget, std::string_view name) {
  for (const BudgetRow& row : budget.inside) {
    if (row.name == name) return row;
  }
  FAIL("no row " << name);
  return budget.margin;
}

}  // namespace

TEST_CASE("with every term exact the KV cache is exact") {
  const MemoryBudget made = budget(declared());
  REQUIRE(made.available_kv.bytes.is_exact());
  CHECK(*made.available_kv.bytes.lo == 92'000'000'000 - 80'800'000'000 - 1'234'128'464);
  CHECK(made.available_kv.kind == SourceKind::derived);
  CHECK(made.margin.kind == SourceKind::declared);
  CHECK(row_of(made, "prefill arena").bytes.lo == 1'105'369'560);
}

TEST_CASE("a term nobody states keeps the KV cache open from below and closed from above") {
  Json config = declared();
  config["budget"].erase("base_activation");
  const MemoryBudget made = budget(config);
  CHECK(!made.available_kv.bytes.lo);
  CHECK(*made.available_kv.bytes.hi == 92'000'000'000 - 80'300'000'000 - 1'234'128'464);
  CHECK(row_of(made, "peak activation besides").kind == SourceKind::not_stated);
  config["device"].erase("total_memory");
  CHECK(!budget(config).available_kv.bytes.hi);
}

TEST_CASE("a measured peak is the scratch and a rest, and the rest is what remains when scratch changes") {
  Json config = declared();
  config["budget"].erase("base_activation");
  config["measured"]["peak_activation"] = 2'000'000'000;
  CHECK(row_of(budget(config), "peak activation besides").bytes.lo == 2'000'000'000 - 1'234'128'464);
  CHECK(budget_findings(budget(config)).empty());
  config["measured"]["peak_activation"] = 1'000'000'000;
  REQUIRE(budget_findings(budget(config)).size() == 1);
  CHECK(budget_findings(budget(config))[0].rule == "measured-activation");
}

TEST_CASE("terms that cannot leave the printed KV memory are pointed at") {
  Json config = declared();
  config["measured"]["available_kv"] = "5.00 GiB";
  REQUIRE(budget_findings(budget(config)).size() == 1);
  CHECK(budget_findings(budget(config))[0].rule == "measured-waterfall");
  config["measured"]["available_kv"] = "9.28 GiB";
  CHECK(budget_findings(budget(config)).empty());
}

TEST_CASE("a printed number of tokens narrows the printed memory to its blocks, or contradicts it") {
  const Json shipped = Json::parse(read_source("configs/glm52-mixed325.json"));
  const MemoryBudget made = budget(shipped);
  const BlockBounds blocks = kv_blocks(made);
  CHECK(blocks.lo == 1004);
  CHECK(blocks.hi == 1004);
  CHECK(budget_findings(made).empty());
  Json config = shipped;
  config["measured"].erase("available_kv");
  CHECK(kv_blocks(budget(config)).lo == 1004);
  CHECK(kv_blocks(budget(config)).hi == 1004);
  config = shipped;
  config["deployment"]["kv_record_bytes"] = 432;
  REQUIRE(budget_findings(budget(config)).size() == 1);
  CHECK(budget_findings(budget(config))[0].rule == "measured-tokens");
}

TEST_CASE("with graph profiling disabled nothing is set aside and the pool costs margin") {
  Json config = declared();
  config["budget"].erase("margin");
  config["measured"] = {
      {"free_memory", 95'000'000'000}, {"graph_estimate", 300'000'000}, {"graph_actual", 100'000'000}};
  const MemoryBudget profiled = budget(config);
  CHECK(*profiled.margin.bytes.lo == 3'000'000'000 + 200'000'000);
  config["measured"]["graph_profiling_disabled"] = true;
  const MemoryBudget disabled = budget(config);
  CHECK(*disabled.margin.bytes.lo == 3'000'000'000 - 100'000'000);
  CHECK(*disabled.available_kv.bytes.lo - *profiled.available_kv.bytes.lo == 300'000'000);
}

TEST_CASE("rows of other planners count inside the profile or against the margin") {
  BudgetExtras extras;
  extras.inside_profile.push_back({"indexer arena", exactly(1000), SourceKind::derived, "a test"});
  extras.after_profile.push_back({"indexer fold", exactly(240 * kMiB), SourceKind::derived, "a test"});
  const MemoryBudget without = budget(declared()), with = budget(declared(), extras);
  CHECK(*without.available_kv.bytes.lo - *with.available_kv.bytes.lo == 1000);
  CHECK(*with.margin_left.lo == *with.margin.bytes.lo - 240 * kMiB);
  extras.after_profile[0].bytes = exactly(5 * kGiB);
  const Deployment d = deployment_of(declared());
  CHECK(overall(fit_checks(d, with)) == Fit::fits);
  CHECK(overall(fit_checks(d, budget(declared(), extras))) == Fit::does_not_fit);
}

TEST_CASE("the smallest utilisation fits one request and a ten-thousandth less does not") {
  Json config = declared();
  for (const LargestSetting& row : largest_settings(deployment_of(config), budget(config))) {
    if (row.setting != "deployment.gpu_memory_utilization at least") continue;
    REQUIRE(row.certain);
    CHECK(row.certain == row.possible);
    const auto fit_at = [&](i64 ppm) {
      Deployment d = deployment_of(config);
      d.engine->gpu_memory_utilization = ppm;
      return overall(fit_checks(d, *memory_budget(d)));
    };
    CHECK(fit_at(*row.certain) == Fit::fits);
    CHECK(fit_at(*row.certain - 1) == Fit::does_not_fit);
  }
}

TEST_CASE("stages of a pipeline are budgeted one by one and the one with fewest blocks is the bottleneck") {
  Json config = declared();
  config["ranks"] = Json::array({{{"layers", 16}},
                                 {{"layers", 32}},
                                 {{"name", "small"}, {"layers", 32}, {"total_memory", 95'000'000'000}}});
  const auto budgets = memory_budgets(deployment_of(config));
  REQUIRE(budgets);
  REQUIRE(budgets->size() == 3);
  CHECK((*budgets)[0].kv.layers == 16);
  CHECK((*budgets)[0].rank == "rank 0");
  CHECK(bottleneck_rank(*budgets) == 2);
}

TEST_CASE("figures an engine prints are rounded as it rounds them") {
  CHECK(tenths_of_mebibytes(kMiB / 4) == 2);  // 0.25: to even
  CHECK(tenths_of_mebibytes(kMiB / 4 + 1) == 3);
  CHECK(tenths_of_mebibytes(3 * kMiB / 4) == 8);
  CHECK(hundredths_of_gibibytes(kGiB / 2) == 50);
  CHECK(requested_memory(exactly(100), 920'000) == exactly(92));
  CHECK(graph_pool_difference({50, 60}, {55, 70}) == ByteRange{0, 20});
  CHECK(graph_pool_difference(exactly(27), exactly(14)) == exactly(13));
  CHECK(graph_pool_difference(exactly(14), exactly(27)) == exactly(13));
  const PpmRange less = utilization_with_graphs(920'000, -1, exactly(10), exactly(1000));
  CHECK(less.lo == 910'000);
  CHECK(less.hi == 910'000);
  CHECK(utilization_with_graphs(920'000, 1, exactly(10), exactly(1000)).lo == 930'000);
  CHECK(suggested_kv_memory(exactly(kGiB), exactly(1), exactly(2), exactly(3), exactly(4)) ==
        exactly(kGiB - 10 - 150 * kMiB));
}
