// moeplan check, baseline and diff, run as a user runs them.
#include <algorithm>

#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/support.hpp"

using namespace moeplan::test;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A folder with a deployment, its baseline, and a change that somebody proposes.
struct Repository {
  TemporaryFolder folder;
  std::string config, baseline, grown;

  Repository() {
    const Json json = Json::parse(read_source("configs/glm52.json"));
    config = folder.write("glm52.json", json.dump(2));
    baseline = folder.path() + "/made/baseline.json";
    const Output written =
        run_moeplan("baseline write -c " + config + " --baseline " + baseline + " --today 2026-01-02");
    INFO(written.err);
    REQUIRE(written.exit_code == 0);
  }
  void propose(const char* pointer, const Json& value) const {
    Json json = Json::parse(read_file(config));
    json[Json::json_pointer(pointer)] = value;
    folder.write("glm52.json", json.dump(2));
  }
  Output check(const std::string& more = "") const {
    return run_moeplan("check -c " + config + " --baseline " + baseline + " " + more);
  }
};

}  // namespace

TEST_CASE("a config that did not change passes its baseline") {
  const Repository repository;
  const Output run = repository.check();
  CHECK(run.exit_code == 0);
  CHECK(run.out.starts_with(repository.config + ": PASS · "));
}

TEST_CASE(
    "a change that raises 3,072 to 8,192 fails with tensors, KV tokens and a remedy, on the right line") {
  const Repository repository;
  repository.propose("/deployment/max_num_batched_tokens", 8192);
  const std::string policy = repository.folder.write(
      "policy.json", R"({"schema_version": 1, "rules": {"MP001": {"max_per_rank_bytes": "1.25 GiB"},
                        "MP002": {"max_increase": "32 MiB", "max_increase_pct": 3}}})");
  const Output table = repository.check("--policy " + policy);
  CHECK(table.exit_code == 1);
  CHECK(table.out.starts_with(repository.config + ": FAIL · 4 errors"));
  CHECK(contains(table.out, "error[MP002] MoE scratch grew 1,600.16 MiB a rank (+145.8%)"));
  CHECK(contains(table.out, "VLLM_EXL3_PREFILL_CAPACITY=3072"));

  const Json report = Json::parse(repository.check("--policy " + policy + " --format json").out);
  bool rotation = false;
  for (const Json& row : report["changes"])
    rotation = rotation || (row["tensor"] == "rotation_a_gate" && row["change"] == 503'316'480);
  CHECK(rotation);
  CHECK(report["settings"][0]["pointer"] == "/deployment/max_num_batched_tokens");

  const std::string text = read_file(repository.config);
  const auto at = text.find("\"max_num_batched_tokens\"");
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  const Output github = repository.check("--policy " + policy + " -o github");
  CHECK(github.exit_code == 1);
  CHECK(contains(github.out, ",line=" + std::to_string(line) + ","));
  CHECK(contains(github.out, "title=MP002::MoE scratch grew 1,600.16 MiB a rank (+145.8%25)"));

  const std::string sarif = repository.folder.path() + "/out.sarif",
                    junit = repository.folder.path() + "/out.xml";
  CHECK(repository.check("--policy " + policy + " -o github -o sarif=" + sarif + " -o junit=" + junit)
            .exit_code == 1);
  CHECK(Json::parse(read_file(sarif))["runs"][0]["results"].size() > 3);
  CHECK(contains(read_file(junit), "MP002"));
}

TEST_CASE("a config is one config, however its path is spelt and wherever the check runs") {
  const TemporaryFolder folder;
  const std::string config = folder.write("a.json", read_source("configs/glm52.json"));
  const std::string inside = "cd " + folder.path() + " && mkdir -p .git sub && ";
  const std::string binary = std::string("'") + MOEPLAN_BINARY + "' ";
  const auto shell = [&](const std::string& command) {
    const int status = std::system((inside + binary + command + " >out 2>err").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  };
  REQUIRE(shell("baseline write -c a.json --baseline b.json") == 0);
  Json grown = Json::parse(read_file(config));
  grown["deployment"]["max_num_batched_tokens"] = 8192;
  folder.write("a.json", grown.dump());
  for (const std::string& path :
       {std::string("a.json"), std::string("./a.json"), std::string("sub/../a.json"), config}) {
    INFO(path);
    CHECK(shell("check --baseline b.json -c " + path) == 1);
    CHECK(contains(read_file(folder.path() + "/out"), "MP002"));
  }
  // Under another name it is unknown, and no growth goes unnoticed for that.
  folder.write("c.json", grown.dump());
  CHECK(shell("check --baseline b.json -c c.json") == 1);
  CHECK(contains(read_file(folder.path() + "/out"), "error[MP006]"));
  const int moved = std::system(
      ("cd " + folder.path() + "/sub && " + binary + "check --baseline ../b.json -c ../a.json >../out 2>&1")
          .c_str());
  CHECK(WEXITSTATUS(moved) == 1);
  CHECK(contains(read_file(folder.path() + "/out"), "MP002"));
}

TEST_CASE("a gate does not go green for want of a file name, and no answer replaces what it is about") {
  const Repository repository;
  CHECK(run_moeplan("check -c " + repository.config + " --baseline ''").exit_code == 2);
  CHECK(run_moeplan("check -c " + repository.config + " --policy ''").exit_code == 2);
  const std::string before = read_file(repository.config), kept = read_file(repository.baseline);
  CHECK(run_moeplan("check -c " + repository.config + " -o json=" + repository.config).exit_code == 2);
  CHECK(repository.check("-o csv=" + repository.baseline).exit_code == 2);
  CHECK(read_file(repository.config) == before);
  CHECK(read_file(repository.baseline) == kept);
}

TEST_CASE("growth that no arena shows is growth: staging, a rank of its own, a token's bytes") {
  const Repository repository;
  const auto errors = [&](const std::string& set) {
    const Json report = Json::parse(repository.check("--format json --set '" + set + "'").out);
    std::string rules;
    for (const Json& finding : report["findings"])
      rules += finding["level"] == "error" ? finding["rule"].get<std::string>() + " " : "";
    return rules;
  };
  CHECK(contains(errors("/deployment/env/VLLM_EXL3_PREFILL_CHUNK=3072"), "MP002"));
  CHECK(contains(errors("/ranks=[{\"name\":\"a\"},{\"name\":\"b\",\"sm_count\":200}]"), "MP002"));
  CHECK(contains(errors("/parallel/dcp=1"), "MP071"));
  CHECK(contains(errors("/deployment/kv_record_bytes=800"), "MP071"));
  CHECK(contains(errors("/device/shared_memory_per_block_optin=null"), "MP072"));
  CHECK(errors("/name=\"another\"").empty());
}

TEST_CASE("kernels that one plan loses do not pay for those that another adds") {
  const TemporaryFolder folder;
  Json json = Json::parse(read_source("configs/glm52.json"));
  json["deployment"]["cudagraph_capture_sizes"] = {1, 2, 4, 8, 16, 32, 64};
  const std::string config = folder.write("a.json", json.dump(2)), baseline = folder.path() + "/b.json";
  REQUIRE(run_moeplan("baseline write -c " + config + " --baseline " + baseline).exit_code == 0);
  const Output run = run_moeplan("check -c " + config + " --baseline " + baseline +
                                 " --set /deployment/cudagraph_capture_sizes=null --set "
                                 "/deployment/max_num_batched_tokens=2048");
  CHECK(run.exit_code == 1);
  CHECK(contains(run.out,
                 "error[MP062] 7 more kernels compile mid-serve than in the baseline (plan decode 0 -> 7"));
}

TEST_CASE("updates of one baseline at the same time lose nothing") {
  const Repository repository;
  std::string commands;
  for (int i = 0; i < 8; ++i) {
    const std::string config =
        repository.folder.write("c" + std::to_string(i) + ".json", read_source("configs/glm52.json"));
    commands += std::string("'") + MOEPLAN_BINARY + "' baseline update -q --reason r -c " + config +
                " --baseline " + repository.baseline + " >/dev/null & ";
  }
  REQUIRE(std::system((commands + "wait").c_str()) == 0);
  CHECK(Json::parse(read_file(repository.baseline))["configs"].size() == 9);
}

TEST_CASE("levels, not formats, decide the exit code") {
  const Repository repository;
  repository.propose("/deployment/max_num_batched_tokens", 8192);
  CHECK(repository.check("-o json").exit_code == 1);
  CHECK(repository.check("--show error").exit_code == 1);
  CHECK(repository.check("--fail-on never").exit_code == 0);
  CHECK(repository.check("--exit-zero").exit_code == 0);
  CHECK(run_moeplan("check -q -c configs/glm52.json").exit_code == 0);
  const Output strict = run_moeplan("check -c configs/glm52.json --fail-on warning -o junit");
  CHECK(strict.exit_code == 1);
  CHECK_FALSE(contains(strict.out, "failures=\"0\""));
}

TEST_CASE("a change that an environment variable makes is told by what it stands for") {
  const Repository repository;
  repository.propose("/deployment/max_num_batched_tokens", "${MB:-3072}");
  const std::string check = "MB=8192; export MB; '" + std::string(MOEPLAN_BINARY) +
                            "' check --allow-env MB -c " + repository.config + " --baseline " +
                            repository.baseline;
  const Output run = run_moeplan("--version >/dev/null; " + check);
  CHECK(run.exit_code == 1);
  CHECK(contains(run.out, "/deployment/max_num_batched_tokens 3072 -> 8192"));
  CHECK(contains(run.out, "VLLM_EXL3_PREFILL_CAPACITY=3072"));
}

TEST_CASE("several configs are answered by one verdict ahead of their own") {
  const Output run = run_moeplan("check -c configs/glm52.json -c configs/glm52-gate8192.json");
  CHECK(run.exit_code == 0);
  CHECK(run.out.starts_with("PASS · 2 configs"));
  const Output broken = run_moeplan("check -c configs/glm52.json -c /nowhere.json");
  CHECK(broken.exit_code == 3);
  CHECK(broken.out.starts_with("FAIL · 1 of 2 configs not checked"));
}

TEST_CASE("an expired waiver fails a check whose config passes") {
  const TemporaryFolder folder;
  const std::string policy = folder.write("p.json", R"({"schema_version": 1, "waivers": [{"rule": "MP060",
      "config": "*", "until": "2026-05-01", "reason": "soon"}]})");
  CHECK(run_moeplan("check -q -c configs/glm52.json --policy " + policy + " --today 2026-05-01").exit_code ==
        0);
  const Output late = run_moeplan("check -c configs/glm52.json --policy " + policy + " --today 2026-05-02");
  CHECK(late.exit_code == 1);
  CHECK(contains(late.out, "error[MP090]"));
  const Output marked =
      run_moeplan("check -c configs/glm52.json -o github --policy " + policy + " --today 2026-05-02");
  CHECK(contains(marked.out, "p.json,line=1,col=35,title=MP090::"));
  CHECK(run_moeplan("check -q -c configs/glm52.json --today yesterday").exit_code == 2);
}

TEST_CASE("baselines are written once, updated with a reason, and the same bytes for the same configs") {
  const Repository repository;
  const std::string first = read_file(repository.baseline);
  const std::string write = "baseline write -c " + repository.config + " --baseline " + repository.baseline;
  const Output again = run_moeplan(write);
  CHECK(again.exit_code == 2);
  CHECK(contains(again.err, "--reason"));
  CHECK(read_file(repository.baseline) == first);
  CHECK(run_moeplan(write + " --force --today 2026-01-02").exit_code == 0);
  CHECK(read_file(repository.baseline) == first);

  repository.propose("/deployment/max_num_batched_tokens", 8192);
  const std::string update = "baseline update -c " + repository.config + " --baseline " + repository.baseline;
  CHECK(run_moeplan(update).exit_code == 2);
  CHECK(run_moeplan(update + " --reason '8k chunks'").exit_code == 0);
  CHECK(repository.check("-q").exit_code == 0);
  const Json shown =
      Json::parse(run_moeplan("baseline show --format json --baseline " + repository.baseline).out);
  CHECK(shown["configs"][0]["moe_bytes"] == 2'828'886'080);
  CHECK(shown["history"].back()["reason"] == "8k chunks");
}

TEST_CASE("an entry twice, or another schema, is no baseline") {
  const Repository repository;
  Json baseline = Json::parse(read_file(repository.baseline));
  baseline["configs"].push_back(baseline["configs"][0]);
  const std::string twice = repository.folder.write("twice.json", baseline.dump());
  CHECK(run_moeplan("check -c " + repository.config + " --baseline " + twice).exit_code == 3);
  baseline["configs"].erase(1);
  baseline["schema"] = "moeplan.other/1";
  const std::string other = repository.folder.write("other.json", baseline.dump());
  CHECK(run_moeplan("check -c " + repository.config + " --baseline " + other).exit_code == 3);
}

TEST_CASE("a baseline that is no baseline is refused with its place, and is not touched") {
  const TemporaryFolder folder;
  const std::string bad = folder.write("b.json", R"({"schema_version": 1, "configs": [{"config": "x"}]})");
  const Output run = run_moeplan("check -c configs/glm52.json --baseline " + bad);
  CHECK(run.exit_code == 3);
  CHECK(contains(run.err, "/configs/0"));
  CHECK(run_moeplan("check -c configs/glm52.json --baseline /nowhere.json").exit_code == 3);
  CHECK(run_moeplan("baseline update --reason x -c configs/glm52.json --baseline " + bad).exit_code == 3);
  CHECK(read_file(bad) == R"({"schema_version": 1, "configs": [{"config": "x"}]})");
}

TEST_CASE("diff of two contracts on an unpinned 64-token packed plan: 94.94 to 30.03 MiB, tensor by tensor") {
  const TemporaryFolder folder;
  const std::string plan = folder.write(
      "plan.json",
      R"({"schema_version": 1, "contract": "sparkinfer-de04125", "device": {"sm_count": 188}, "plans": [
      {"id": "p", "kind": "moe_tp", "weights": {"quant_mode": "w4a16", "source_format": "compressed_tensors",
       "activation": "silu", "io_dtype": "bfloat16", "experts": 160, "hidden_size": 6144, "intermediate_size": 512},
       "capacity": {"max_tokens": 64, "top_k": 8}}]})");
  const std::string diff = "diff " + plan + " --contracts sparkinfer-de04125,sparkinfer-c2f135c";
  const Output run = run_moeplan(diff);
  CHECK(run.exit_code == 0);
  CHECK(contains(run.out, "94.94 -> 30.03 MiB"));
  CHECK(run_moeplan(diff + " -q --exit-code").exit_code == 1);
  const Json report = Json::parse(run_moeplan(diff + " --format json").out);
  CHECK(report["totals"]["growth_bytes"] == -68'062'208);
  long long sum = 0;
  for (const Json& row : report["changes"])
    sum += row["tensor"] == "all of it" ? 0 : row["change"].get<long long>();
  CHECK(sum == -68'062'208);
}

TEST_CASE("diff compares configs, plans, settings and a baseline, and needs two of something") {
  const Repository repository;
  CHECK(run_moeplan("diff -q --exit-code configs/glm52.json configs/glm52.json").exit_code == 0);
  CHECK(contains(run_moeplan("diff -q configs/glm52.json configs/glm52-gate8192.json").out, "1,640.08 -> "));
  CHECK(contains(run_moeplan("diff -q configs/glm52.json --plans decode,prefill").out,
                 "43.51 -> 1,054.16 MiB"));
  CHECK(contains(run_moeplan("diff -q configs/glm52.json --set /deployment/max_num_batched_tokens=2048").out,
                 "1 setting changed"));
  const std::string against =
      "diff -q --exit-code " + repository.config + " --baseline " + repository.baseline;
  CHECK(run_moeplan(against).exit_code == 0);
  repository.propose("/deployment/max_num_batched_tokens", 4096);
  CHECK(run_moeplan(against).exit_code == 1);
  CHECK(run_moeplan("diff configs/glm52.json").exit_code == 2);
  const Output plans = run_moeplan("diff configs/glm52.json --plans decode,prefil");
  CHECK(plans.exit_code == 2);
  const std::string two = "diff configs/glm52.json configs/glm52-gate8192.json ";
  CHECK(run_moeplan(two + "--plans decode,prefill").exit_code == 2);
  CHECK(run_moeplan(two + "--baseline " + repository.baseline).exit_code == 2);
  const Json arenas = Json::parse(
      run_moeplan("diff configs/glm52.json --plans 'indexer decode,indexer prefill' --format json").out);
  CHECK(arenas["totals_change"][0]["after"] == 0);
  CHECK(arenas["totals_change"][1]["after"] == 557'999'104);
  const std::string broken = repository.folder.write("broken.json", R"({"schema_version": 1, "configs": 3})");
  CHECK(contains(run_moeplan("diff " + repository.config + " --baseline " + broken).err, "broken.json:1:"));
  CHECK(contains(plans.err, "did you mean \"prefill\"?"));
}

TEST_CASE("help explains every rule") {
  const Output rules = run_moeplan("help rules");
  CHECK(contains(rules.out, "MP010"));
  CHECK(contains(run_moeplan("help MP010").out, "no pinned block size"));
  CHECK(contains(run_moeplan("help MP01O").err, "did you mean"));
}
