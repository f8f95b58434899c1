// Policy rules: each fires on what it is about and is silent otherwise; limits, levels, waivers and dates.
#include "planner/policy/rules.hpp"

#include "cli/commands/snapshot_of.hpp"
#include "cli/io/policy_file.hpp"
#include "tests/deployment_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

constexpr Date kToday{2026, 11, 30};

struct Checked {
  Snapshot snapshot;
  std::vector<Finding> findings;
};

Checked check(const Json& config, const std::string& policy = "", const Snapshot* baseline = nullptr,
              bool lacks = false) {
  static const ConfigOverrides kNone;
  const PlannedConfig planned = plan_config(parse_config("deploy/test.json", config.dump(2), kNone));
  for (const Problem& problem : planned.config->problems) FAIL_CHECK(problem.error.message);
  REQUIRE(planned.ok());
  const Deployment& d = planned.config->deployment;
  const auto plans = deployed_plans(d);
  REQUIRE(plans);
  std::vector<PlanLaunches> launches;
  if (d.device->shared_memory_per_block_optin)
    launches = launches_of(stepped(*plans), *d.device->shared_memory_per_block_optin);
  Checked checked{snapshot_of(planned, planned.config->name), {}};
  std::optional<Difference> difference;
  if (baseline) difference = difference_of(*baseline, checked.snapshot);
  const auto file = policy.empty() ? read_policy("") : parse_policy("policy", policy);
  for (const Problem& problem : file->problems) FAIL_CHECK(problem.error.message);
  std::vector<bool> used;
  checked.findings = check_policy({.deployment = d,
                                   .plans = *plans,
                                   .launches = launches,
                                   .indexer_plans = planned.indexer_plans,
                                   .now = checked.snapshot,
                                   .baseline = baseline,
                                   .difference = difference ? &*difference : nullptr,
                                   .baseline_lacks_config = lacks},
                                  file->policy, kToday, used);
  return checked;
}

// The levels of a rule's findings, in order.
std::vector<std::string> levels_of(const Checked& checked, std::string_view rule) {
  std::vector<std::string> levels;
  for (const Finding& finding : checked.findings) {
    if (finding.rule == rule) levels.push_back(finding.level);
  }
  return levels;
}

const Finding& finding_of(const Checked& checked, std::string_view rule) {
  for (const Finding& finding : checked.findings) {
    if (finding.rule == rule) return finding;
  }
  FAIL("no finding of " << rule);
  return checked.findings.front();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

using Levels = std::vector<std::string>;

Json with(const Json& config, const Json& patch) {
  Json changed = config;
  changed.merge_patch(patch);
  return changed;
}

Json stated(const char* contract, Json weights, Json capacity) {
  Json base = {{"quant_mode", "w4a16"},   {"source_format", "compressed_tensors"},
               {"activation", "silu"},    {"io_dtype", "bfloat16"},
               {"experts", 160},          {"hidden_size", 6144},
               {"intermediate_size", 512}};
  base.update(weights);
  return {
      {"schema_version", 1},
      {"contract", contract},
      {"device", {{"sm_count", 188}}},
      {"plans", Json::array({{{"id", "p"}, {"kind", "moe_tp"}, {"weights", base}, {"capacity", capacity}}})}};
}

}  // namespace

TEST_CASE("the shipped GLM-5.2 config breaks no rule of level error") {
  for (const Finding& finding : check(glm52_json()).findings) {
    INFO(finding.rule << " " << finding.message);
    CHECK(finding.level != "error");
  }
}

TEST_CASE("MP001 fires above a stated limit alone, with what the rest is worth") {
  const char* policy = R"({"schema_version": 1, "rules": {"MP001": {"max_per_rank_bytes": "1 GiB"}}})";
  const Checked above = check(glm52_json(), policy);
  CHECK(levels_of(above, "MP001") == Levels{"error"});
  CHECK(finding_of(above, "MP001").pointer == "/deployment/max_num_batched_tokens");
  CHECK(finding_of(above, "MP001").bytes == 1'150'998'080 - kGiB);
  CHECK(contains(finding_of(above, "MP001").message, "KV tokens"));
  CHECK(levels_of(check(glm52_json()), "MP001").empty());
  const char* exact = R"({"schema_version": 1, "rules": {"MP001": {"max_per_rank_bytes": 1150998080}}})";
  CHECK(levels_of(check(glm52_json(), exact), "MP001").empty());
  const char* indexer = R"({"schema_version": 1, "rules": {"MP001": {"max_indexer_bytes": "1 MiB"}}})";
  CHECK(levels_of(check(glm52_json(), indexer), "MP001") == Levels{"error"});
}

TEST_CASE(
    "MP002 fires on growth beyond its limits, at the field that changed, with a capacity that avoids it") {
  const Snapshot before = check(glm52_json()).snapshot;
  const Json grown = with(glm52_json(), {{"deployment", {{"max_num_batched_tokens", 8192}}}});
  const Checked checked = check(grown, "", &before);
  CHECK(levels_of(checked, "MP002") == Levels{"error", "error", "error"});  // late allocations too
  const Finding& moe = finding_of(checked, "MP002");
  CHECK(moe.pointer == "/deployment/max_num_batched_tokens");
  CHECK(moe.bytes == 1'677'888'000);
  CHECK(contains(moe.message, "grew 1,600.16 MiB a rank (+145.8%)"));
  CHECK(contains(moe.message, "104,946 KV tokens"));
  CHECK(contains(moe.message, "/deployment/max_num_batched_tokens 3072 -> 8192"));
  CHECK(contains(moe.remedy,
                 "VLLM_EXL3_PREFILL_CAPACITY=3072 keeps 8,192-token scheduling at 3 launches a layer"));

  const auto fires = [&](const char* limits) {
    const std::string policy = std::string(R"({"schema_version": 1, "rules": {"MP002": {)") + limits + "}}}";
    return levels_of(check(grown, policy, &before), "MP002").size();
  };
  CHECK(fires(R"("max_increase": "2 GiB")") == 0);
  CHECK(fires(R"("max_increase": 1677888000)") == 0);
  CHECK(fires(R"("max_increase": 1677887999)") == 1);
  CHECK(fires(R"("max_increase_pct": 200)") == 0);
  CHECK(fires(R"("max_increase_pct": 145)") == 2);
  CHECK(fires(R"("max_increase_pct": 146)") == 1);  // the indexer's arenas grew by 162 %
  CHECK(fires(R"("max_increase": "2 GiB", "max_increase_pct": 3)") == 2);
  CHECK(levels_of(check(glm52_json(), "", &before), "MP002").empty());
}

TEST_CASE("MP004 fires when the baseline is larger or of another contract") {
  const Json grown = with(glm52_json(), {{"deployment", {{"max_num_batched_tokens", 8192}}}});
  const Snapshot large = check(grown).snapshot;
  CHECK(levels_of(check(glm52_json(), "", &large), "MP004") == Levels{"warning"});
  const char* slack = R"({"schema_version": 1, "rules": {"MP004": {"slack": "4 GiB"}}})";
  CHECK(levels_of(check(glm52_json(), slack, &large), "MP004").empty());
  Snapshot other = check(glm52_json()).snapshot;
  CHECK(levels_of(check(glm52_json(), "", &other), "MP004").empty());
  other.contract = "sparkinfer-c2f135c";
  CHECK(levels_of(check(glm52_json(), "", &other), "MP004") == Levels{"warning"});
}

TEST_CASE("MP072 fires when a figure of the baseline no longer follows from the config") {
  const Snapshot before = check(glm52_json()).snapshot;
  REQUIRE(before.cold_keys);
  Json silent = glm52_json();
  REQUIRE(silent["device"].erase("shared_memory_per_block_optin") == 1);
  const Checked checked = check(silent, "", &before);
  CHECK(levels_of(checked, "MP072") == Levels{"error"});
  CHECK(contains(finding_of(checked, "MP072").message, "cold kernels: known in the baseline (139)"));
  CHECK(levels_of(check(glm52_json(), "", &before), "MP072").empty());
  CHECK(levels_of(check(silent), "MP072").empty());
}

TEST_CASE("MP006 fires where a baseline is given that does not know the config") {
  CHECK(levels_of(check(glm52_json(), "", nullptr, true), "MP006") == Levels{"error"});
  CHECK(levels_of(check(glm52_json()), "MP006").empty());
}

TEST_CASE("MP051 fires when a stated variable is left to the engine, and not when it changes") {
  const Snapshot before = check(glm52_json()).snapshot;
  Json dropped = glm52_json();
  dropped["deployment"]["env"].erase("VLLM_EXL3_TRELLIS_BLOCK_M");
  const Checked checked = check(dropped, "", &before);
  CHECK(levels_of(checked, "MP051") == Levels{"error"});
  CHECK(contains(finding_of(checked, "MP051").message, "VLLM_EXL3_TRELLIS_BLOCK_M was 8 in the baseline"));
  Json changed = glm52_json();
  changed["deployment"]["env"]["VLLM_EXL3_TRELLIS_MAX_M"] = 48;
  CHECK(levels_of(check(changed, "", &before), "MP051").empty());
}

TEST_CASE("rules about stated plans fire on the plan they are about") {
  const Json capacity = {{"max_tokens", 64}, {"top_k", 8}};
  const Json pinned = {{"max_tokens", 64}, {"top_k", 8}, {"block_size_m", 8}};
  const char* de04125 = "sparkinfer-de04125";
  CHECK(levels_of(check(stated(de04125, Json::object(), capacity)), "MP010") == Levels{"error"});
  const Checked unpinned = check(stated(de04125, Json::object(), capacity));
  CHECK(finding_of(unpinned, "MP010").bytes == 68'062'208);
  CHECK(finding_of(unpinned, "MP010").pointer == "/plans/0/capacity/block_size_m");
  CHECK(levels_of(check(stated(de04125, Json::object(), pinned)), "MP010").empty());

  const Json wide = {{"max_tokens", 64}, {"top_k", 8}, {"block_size_m", 64}};
  CHECK(levels_of(check(stated(de04125, Json::object(), wide)), "MP011") == Levels{"warning"});
  CHECK(levels_of(check(stated(de04125, Json::object(), pinned)), "MP011").empty());

  const Json trellis = {{"source_format", "exl3_trellis_mcg"}};
  CHECK(levels_of(check(stated(de04125, trellis, capacity)), "MP012") == Levels{"error"});
  CHECK(levels_of(check(stated(de04125, trellis, capacity)), "MP010").empty());
  CHECK(levels_of(check(stated(de04125, trellis, pinned)), "MP012").empty());

  const Json router = {{"max_tokens", 64}, {"top_k", 8}, {"block_size_m", 8}, {"route_experts", 32}};
  CHECK(levels_of(check(stated(de04125, Json::object(), router)), "MP005") == Levels{"error"});
  CHECK(levels_of(check(stated(de04125, trellis, router)), "MP005").empty());
  CHECK(levels_of(check(stated(de04125, Json::object(), pinned)), "MP005").empty());

  CHECK_FALSE(levels_of(check(stated(de04125, Json::object(), router)), "MP030").empty());
  CHECK(levels_of(check(stated("sparkinfer-c2f135c", Json::object(), pinned)), "MP030").empty());

  const Json padded = {
      {"quant_mode", "w4a8_mx"}, {"source_format", "fp4_e8m0_k32"}, {"intermediate_size", 352}};
  CHECK(levels_of(check(stated(de04125, padded, capacity)), "MP003") == Levels{"note"});

  Json layers = stated(de04125, Json::object(), pinned);
  for (int i = 0; i < 15; ++i) layers["plans"].push_back(layers["plans"][0]);
  CHECK(levels_of(check(layers), "MP021") == Levels{"error"});
  layers["plans"].erase(0);
  CHECK(levels_of(check(layers), "MP021").empty());
}

TEST_CASE("rules about deployments fire on the setting they are about") {
  const Json config = glm52_json();
  const auto levels = [&](const Json& patch, const char* rule) {
    return levels_of(check(with(config, patch)), rule);
  };
  CHECK(levels(Json::object(), "MP020").empty());
  CHECK(levels({{"deployment", {{"draft_is_exl3", true}}}}, "MP020") == Levels{"warning", "warning"});
  CHECK(levels(Json::object(), "MP022").empty());
  CHECK(levels({{"deployment", {{"max_num_batched_tokens", 48}}}}, "MP022") == Levels{"warning"});
  CHECK(levels(Json::object(), "MP040").empty());
  CHECK(levels({{"deployment", {{"env", {{"VLLM_EXL3_TRELLIS_BLOCK_M", 16}}}}}}, "MP040") == Levels{"error"});
  CHECK(levels(Json::object(), "MP060") == Levels{"warning", "warning"});
  CHECK(levels(Json::object(), "MP061").empty());
  CHECK(levels({{"deployment", {{"cudagraph_capture_sizes", {16, 48, 64}}}}}, "MP061") == Levels{"note"});
  CHECK(levels(Json::object(), "MP070").empty());
  CHECK_FALSE(levels({{"measured", {{"available_kv", "1 GiB"}}}}, "MP070").empty());
  CHECK(levels(Json::object(), "MP080").empty());
  CHECK(levels({{"deployment", {{"max_num_seqs", 64}}}}, "MP080") == Levels{"warning"});
  CHECK(levels(Json::object(), "MP031") == Levels{"note", "note"});
  CHECK(levels(Json::object(), "MP081") == Levels{"note"});
  const char* margin = R"({"schema_version": 1, "rules": {"MP031": {"max_late_bytes": "1 GiB"}}})";
  CHECK(levels_of(check(config, margin), "MP031").empty());
}

TEST_CASE("MP050 names the variables that are left to the engine, and is silent when all are stated") {
  CHECK(contains(finding_of(check(glm52_json()), "MP050").message, "VLLM_EXL3_PREFILL_CAPACITY"));
  const Json env = {
      {"VLLM_EXL3_TRELLIS_MIN_M", 1}, {"VLLM_EXL3_PREFILL_CAPACITY", 3072}, {"VLLM_EXL3_PREFILL_CHUNK", 128}};
  CHECK(levels_of(check(with(glm52_json(), {{"deployment", {{"env", env}}}})), "MP050").empty());
  // A block size that a contract's plans do not read is nothing to state.
  Json dropped = glm52_json();
  dropped["deployment"]["env"].erase("VLLM_EXL3_PREFILL_BLOCK_M");
  CHECK(contains(finding_of(check(dropped), "MP050").message, "VLLM_EXL3_PREFILL_BLOCK_M=64"));
  dropped["contract"] = "moeplan-lean-1";
  CHECK_FALSE(contains(finding_of(check(dropped), "MP050").message, "BLOCK_M"));
}

TEST_CASE("MP060 to MP071 judge by their limits and against the baseline") {
  const char* lenient = R"({"schema_version": 1, "rules": {"MP060": {"min_coverage": 0}}})";
  CHECK(levels_of(check(glm52_json(), lenient), "MP060").empty());
  const Json graphs =
      with(glm52_json(), {{"deployment", {{"cudagraph_capture_sizes", {1, 2, 4, 8, 16, 32, 64}}}}});
  CHECK(levels_of(check(graphs), "MP060") == Levels{"warning"});  // the prefill plan's alone

  const Snapshot warm = check(graphs).snapshot;
  CHECK(levels_of(check(glm52_json(), "", &warm), "MP062") == Levels{"error"});
  const char* seven = R"({"schema_version": 1, "rules": {"MP062": {"max_new_cold_keys": 7}}})";
  CHECK(levels_of(check(glm52_json(), seven, &warm), "MP062").empty());
  CHECK(levels_of(check(graphs, "", &warm), "MP062").empty());

  const Json measured = with(glm52_json(), {{"measured", {{"available_kv", "20 GiB"}}}});
  const Json less = with(glm52_json(), {{"measured", {{"available_kv", "19 GiB"}}}});
  const Snapshot full = check(measured).snapshot;
  REQUIRE(full.kv_tokens);
  CHECK(levels_of(check(less, "", &full), "MP071") == Levels{"error"});
  CHECK(levels_of(check(measured, "", &full), "MP071").empty());
  const char* bar = R"({"schema_version": 1, "rules": {"MP070": {"min_kv_tokens": 100000000}}})";
  CHECK_FALSE(levels_of(check(measured, bar), "MP070").empty());
}

TEST_CASE(
    "a rule that is off says nothing, and nothing but named rules counts when a policy extends nothing") {
  const char* off =
      R"({"schema_version": 1, "rules": {"MP060": {"level": "off"}, "MP050": {"level": "error"}}})";
  const Checked checked = check(glm52_json(), off);
  CHECK(levels_of(checked, "MP060").empty());
  CHECK(levels_of(checked, "MP050") == Levels{"error"});
  const Checked alone =
      check(glm52_json(), R"({"schema_version": 1, "extends": "nothing", "rules": {"MP050": {}}})");
  CHECK(alone.findings.size() == 1);
}

TEST_CASE(
    "waivers turn findings into notes through their last day, expire as errors, and are noted when "
    "unneeded") {
  const auto waived = [&](const char* until, const char* config) {
    return std::string(R"({"schema_version": 1, "waivers": [{"rule": "MP060", "config": ")") + config +
           R"(", "until": ")" + until + R"(", "reason": "warmed by hand"}]})";
  };
  for (const char* config : {"deploy/test.json", "test.json", "*"})
    CHECK(levels_of(check(glm52_json(), waived("2026-11-30", config)), "MP060") == Levels{"note", "note"});
  CHECK(levels_of(check(glm52_json(), waived("2026-11-29", "*")), "MP060") == Levels{"warning", "warning"});
  CHECK(levels_of(check(glm52_json(), waived("2027-01-01", "est.json")), "MP060") ==
        Levels{"warning", "warning"});
  CHECK(contains(finding_of(check(glm52_json(), waived("2026-11-30", "*")), "MP060").message,
                 "warmed by hand"));

  const auto about = [&](const char* until, bool needed) {
    const auto file = parse_policy("p", waived(until, "*"));
    return waiver_findings(file->policy, kToday, {needed});
  };
  REQUIRE(about("2026-11-29", true).size() == 1);
  CHECK(about("2026-11-29", true)[0].rule == "MP090");
  CHECK(about("2026-11-29", true)[0].level == "error");
  CHECK(about("2026-11-30", true).empty());
  CHECK(about("2026-11-30", false)[0].rule == "MP091");
}

TEST_CASE("dates are days of the calendar") {
  CHECK(parse_date("2024-02-29"));
  CHECK(text_of(*parse_date("2024-02-29")) == "2024-02-29");
  for (const char* bad : {"2026-02-29", "2026-13-01", "2026-00-10", "2026-04-31", "2026-1-1", "26-01-01",
                          "2026/01/01", "2026-01-0x", "", "2100-02-29"}) {
    INFO(bad);
    CHECK_FALSE(parse_date(bad));
  }
}

TEST_CASE("mistakes of a policy are told with their place") {
  const auto problem = [](const char* text) {
    const auto file = parse_policy("p.json", text);
    REQUIRE_FALSE(file->problems.empty());
    return file->problems[0].error;
  };
  CHECK(problem("[]").code == ErrorCode::wrong_type);
  CHECK(problem("{").code == ErrorCode::invalid_json);
  CHECK(problem("{}").code == ErrorCode::missing_field);
  CHECK(problem(R"({"schema_version": 2})").code == ErrorCode::out_of_range);
  const Error rule = problem(R"({"schema_version": 1, "rules": {"MP01": {}}})");
  CHECK(rule.pointer == "/rules/MP01");
  CHECK(contains(rule.help, "MP0"));
  const Error limit = problem(R"({"schema_version": 1, "rules": {"MP010": {"max_increase": 3}}})");
  CHECK(limit.pointer == "/rules/MP010/max_increase");
  CHECK(problem(R"({"schema_version": 1, "rules": {"MP002": {"level": "fatal"}}})").code ==
        ErrorCode::unknown_value);
  CHECK(problem(R"({"schema_version": 1, "rules": []})").code == ErrorCode::wrong_type);
  CHECK(problem(R"({"schema_version": 1, "waivers": [{"rule": "MP999", "config": "*", "until": "2026-01-01",
                   "reason": "x"}]})")
            .code == ErrorCode::unknown_value);
  CHECK(problem(R"({"schema_version": 1, "waivers": [{"rule": "MP020", "config": "*", "until": "soon",
                   "reason": "x"}]})")
            .pointer == "/waivers/0/until");
}

TEST_CASE("every rule has an id of its own, a title and a reason to fire") {
  std::vector<std::string_view> ids;
  for (const PolicyRule& rule : policy_rules()) {
    CHECK(rule.id.starts_with("MP"));
    CHECK_FALSE(rule.title.empty());
    CHECK_FALSE(rule.fires.empty());
    CHECK(std::ranges::find(ids, rule.id) == ids.end());
    ids.push_back(rule.id);
  }
  CHECK(std::ranges::is_sorted(ids));
}
