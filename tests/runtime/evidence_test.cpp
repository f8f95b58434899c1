// Records of runs on a GPU: what this source tree still stands behind.
#include "runtime/evidence.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "planner/core/text.hpp"
#include "runtime/jit/digest.hpp"
#include "runtime/jit/kernel_sources.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

// What keeps a record from being believed, a line each; empty: nothing.
// Bars of speed that a record says it misses: it fails by those alone, and is worth as much.
std::vector<std::string> missed_bars(const Evidence& record) {
  std::vector<std::string> missed;
  for (const EvidenceFact& fact : record.facts)
    if (fact.name.starts_with("missed bar: "))
      missed.push_back(concat(fact.name, ": ", std::get<std::string>(fact.value)));
  return missed;
}

std::string problems_of(const std::string& file, const std::string& text) {
  const auto record = read_evidence(text);
  if (!record) return concat(file, record.error().pointer, ": ", record.error().message, "\n");
  std::string problems;
  if (record->is_pass != missed_bars(*record).empty())
    problems += concat(file, record->is_pass ? ": the verdict is PASS in spite of missed bars\n"
                                             : ": the verdict is FAIL, by no bar that is missed\n");
  if (record->stale_reason) return problems;
  for (const std::string& source : stale_sources(*record))
    problems +=
        concat(file, ": ", source, " is not the text that was run; re-run it on a GPU or mark it stale\n");
  return problems;
}

EvidenceKernel scan_kernel() {
  EvidenceKernel kernel{
      .variant = "arena_scan", .architecture = "sm_90", .cubin_sha256 = sha256_hex("a cubin")};
  const auto source = kernel_source("kernels/arena/scan.cu", {});
  REQUIRE(source);
  kernel.sources.push_back({source->main.name, sha256_hex(source->main.text)});
  for (const auto& header : source->headers) kernel.sources.push_back({header.name, sha256_hex(header.text)});
  return kernel;
}

Evidence sample_record() {
  Evidence record{.name = "sample",
                  .command = "moeplan_evidence sample --out sample.json",
                  .config = Digest{"configs/glm52.json", sha256_hex("{}")},
                  .device = {.name = "NVIDIA H200",
                             .compute_capability = "9.0",
                             .sm_count = 132,
                             .driver = "13.0",
                             .cuda_runtime = "13.0"},
                  .nvrtc = "13.0"};
  record.kernels.push_back(scan_kernel());
  record.samples.push_back({"scan", "ns", {301, 299, 300}});
  record.facts.push_back({"median_gb_s", 4012.5});
  record.facts.push_back({"caught", i64{26}});
  record.facts.push_back({"plan", "GLM-5.2 decode"});
  record.is_pass = true;
  return record;
}

// The sample as JSON with one thing changed.
template <class Change>
std::string changed(const Change& change) {
  auto json = nlohmann::ordered_json::parse(evidence_json(sample_record()));
  change(json);
  return json.dump(2);
}

void require_problem(const std::string& text, const std::string& expected) {
  const std::string problems = problems_of("sample.json", text);
  INFO(problems);
  CHECK(problems.find(expected) != std::string::npos);
}

}  // namespace

TEST_CASE(
    "every record of a run on a GPU is whole, passed but for bars that it names, and ran these kernels") {
  const std::filesystem::path folder = std::string(MOEPLAN_SOURCE_DIR) + "/tests/gpu/evidence";
  std::vector<std::string> files;
  if (std::filesystem::is_directory(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".json") files.push_back(entry.path().filename().string());
  }
  std::ranges::sort(files);
  if (files.empty()) WARN("tests/gpu/evidence holds no record: nothing here was shown on a GPU yet");
  for (const std::string& file : files) {
    const std::string text = read_source("tests/gpu/evidence/" + file);
    const std::string problems = problems_of(file, text);
    INFO(problems);
    CHECK(problems.empty());
    const auto record = read_evidence(text);
    if (record)
      for (const std::string& missed : missed_bars(*record)) WARN(concat("MISSED BAR: ", file, ": ", missed));
    if (record && record->stale_reason) WARN(concat("STALE EVIDENCE: ", file, ": ", *record->stale_reason));
  }
}

TEST_CASE("a record reads back as it was written, and writes the same bytes again") {
  for (const bool is_stale : {false, true}) {
    Evidence record = sample_record();
    if (is_stale) record.stale_reason = "the scan was rewritten";
    const std::string json = evidence_json(record);
    CHECK(json.back() == '\n');
    const auto again = read_evidence(json);
    REQUIRE(again);
    CHECK(*again == record);
    CHECK(evidence_json(*again) == json);
    CHECK(problems_of("sample.json", json).empty());
  }
}

TEST_CASE("a record whose kernel text has changed is refused until it says why it is stale") {
  const auto with_old_text = [](nlohmann::ordered_json& json) {
    json["kernels"][0]["sources"][0]["sha256"] = sha256_hex("an older text");
  };
  require_problem(changed(with_old_text),
                  "kernels/arena/scan.cu is not the text that was run; re-run it on a GPU or mark it stale");
  CHECK(problems_of("sample.json", changed([&](auto& json) {
                      with_old_text(json);
                      json["status"] = "stale";
                      json["stale_reason"] = "the scan was rewritten";
                    }))
            .empty());
}

TEST_CASE("a record of a kernel that is gone is refused") {
  require_problem(changed([](auto& json) { json["kernels"][0]["sources"][0]["name"] = "kernels/gone.cu"; }),
                  "kernels/gone.cu is not the text that was run");
}

TEST_CASE("a record that leaves out a text of its kernel, or names no kernel of ours, is refused") {
  require_problem(changed([](auto& json) {
                    auto& sources = json["kernels"][0]["sources"];
                    for (std::size_t i = 0; i < sources.size(); ++i) {
                      if (sources[i]["name"] == "kernels/arena/arguments.hpp") sources.erase(i--);
                    }
                  }),
                  "kernels/arena/arguments.hpp is not the text that was run");
  require_problem(changed([](auto& json) { json["kernels"][0]["variant"] = "arena_scam"; }), "arena_scam");
}

TEST_CASE("kernels that a record does not name do not make it stale") {
  const Evidence record = sample_record();
  CHECK(stale_sources(record).empty());
  CHECK(std::ranges::find(record.kernels[0].sources, "kernels/arena/fill.cu", &Digest::name) ==
        record.kernels[0].sources.end());
}

TEST_CASE("a record that lacks a member is refused with the member's place") {
  const auto whole = nlohmann::ordered_json::parse(evidence_json(sample_record()));
  for (const auto& [member, value] : whole.items()) {
    const std::string name = member;
    require_problem(changed([&](auto& json) { json.erase(name); }), "/" + name + ": is missing");
  }
  for (const char* place : {"/device/driver", "/kernels/0/sources", "/kernels/0/sources/0/sha256",
                            "/samples/0/values", "/facts/0/value", "/config/sha256"}) {
    const nlohmann::ordered_json::json_pointer pointer(place);
    require_problem(changed([&](auto& json) { json[pointer.parent_pointer()].erase(pointer.back()); }),
                    std::string(place) + ": is missing");
  }
}

TEST_CASE("records that say what no record says are refused") {
  require_problem(changed([](auto& json) { json["status"] = "fine"; }), "/status: must be current or stale");
  require_problem(changed([](auto& json) { json["verdict"] = "MAYBE"; }), "/verdict: must be PASS or FAIL");
  require_problem(changed([](auto& json) { json["schema"] = "moeplan.evidence/2"; }), "/schema");
  require_problem(changed([](auto& json) { json["verdict"] = "FAIL"; }), "the verdict is FAIL, by no bar");
  require_problem(changed([](auto& json) {
                    json["facts"].push_back({{"name", "missed bar: m=1"}, {"value", "2"}});
                  }),
                  "the verdict is PASS in spite of missed bars");
  require_problem(changed([](auto& json) { json["status"] = "stale"; }), "/stale_reason: must be a text");
  require_problem(changed([](auto& json) {
                    json["status"] = "stale";
                    json["stale_reason"] = "";
                  }),
                  "/stale_reason: must not be empty");
  require_problem(changed([](auto& json) { json["stale_reason"] = "why"; }), "/stale_reason");
  require_problem(changed([](auto& json) { json["kernels"] = nlohmann::ordered_json::array(); }), "/kernels");
  require_problem(
      changed([](auto& json) { json["kernels"][0]["sources"] = nlohmann::ordered_json::array(); }),
      "/kernels/0/sources");
  require_problem(changed([](auto& json) { json["samples"][0]["values"][1] = "fast"; }),
                  "/samples/0/values/1");
  require_problem(changed([](auto& json) { json["kernels"][0]["cubin_sha256"] = "123"; }),
                  "/kernels/0/cubin_sha256");
  require_problem(changed([](auto& json) { json["extra"] = 1; }), "/extra");
  require_problem("{", "not JSON");
  require_problem("[]", "must be an object");
}
