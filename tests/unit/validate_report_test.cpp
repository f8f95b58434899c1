// What moeplan validate says of measurements: the verdict, its tables and findings, and the record.
#include "cli/commands/validate_report.hpp"
#include "cli/commands/recorded_command.hpp"

#include "cli/render/render.hpp"
#include "planner/core/text.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

PlannedConfig glm52() { return plan_config(read_config(MOEPLAN_SOURCE_DIR "/configs/glm52.json", {})); }

Measurement launch_of(i64 tokens, const char* routing) {
  Measurement m{.tokens = tokens, .routing = routing, .block = 8};
  m.tensors = {{{.tensor = "rotation_a_gate", .planned_bytes = 64, .end_touched = 16 * tokens}, 16 * tokens},
               {{.tensor = "fc1_c_tmp", .planned_bytes = 32}, 0}};
  m.output = {.relative_l2 = 1e-4 * static_cast<double>(tokens), .cosine = 1 - 1e-9, .worst_row_l2 = 5e-4};
  return m;
}

ValidatedPlan decode_plan() {
  ValidatedPlan plan{.id = "decode",
                     .capacity = 4,
                     .planned_sms = 188,
                     .planned_bytes = 1000,
                     .executed_sms = 132,
                     .executed_bytes = 900};
  plan.packed = {launch_of(1, "uniform"), launch_of(1, "zipf"), launch_of(4, "uniform")};
  plan.strict = {launch_of(2, "uniform")};
  plan.strict[0].mode = GuardMode::strict;
  plan.shrunk = "small: 4 tokens";
  plan.shrinks = {{"rotation_a_gate", 2, true, "", "2 bytes written"}, {"fc1_c_tmp", 4, false, "", ""}};
  return plan;
}

const Table& table_of(const Report& report, std::string_view key) {
  const auto found = std::ranges::find(report.tables, key, &Table::key);
  REQUIRE(found != report.tables.end());
  return *found;
}

std::string text_in(const Table& table, std::size_t row, std::string_view column) {
  return std::get<std::string>(table.rows.at(row).cells.at(table.column(column)));
}

i64 number_in(const Table& table, std::size_t row, std::string_view column) {
  return std::get<i64>(table.rows.at(row).cells.at(table.column(column)));
}

constexpr const char* kGpu = "NVIDIA H200";

}  // namespace

TEST_CASE("the verdict names both sizes, and with --emulate what is emulated") {
  const PlannedConfig planned = glm52();
  const Report own = validate_report(planned, {kGpu, 132, false}, {decode_plan()}, {}, {});
  CHECK_FALSE(own.answered_no);
  CHECK(own.verdict ==
        "glm52: VALID · 1 of 1 plan · NVIDIA H200, planned for 188 SMs, executed with 132, both sized · 4 "
        "launches, largest error 4.00e-04 of 2.00e-03");
  ValidatedPlan plan = decode_plan();
  plan.executed_sms = 188;
  const Report emulated = validate_report(planned, {kGpu, 132, true}, {plan, plan}, {"indexer"},
                                          {{"no-kernels", "warning", "", "indexer is not run", ""}});
  CHECK(emulated.verdict.starts_with(
      "glm52: VALID · 2 of 2 plans · NVIDIA H200, 132 SMs emulating 188 SMs · "));
  CHECK(emulated.verdict.ends_with(" · no kernels for indexer"));
  CHECK(emulated.findings.size() == 1);
}

TEST_CASE("tables hold what each plan touched, each live count with its routings, and each shrink") {
  const Report report = validate_report(glm52(), {kGpu, 132, false}, {decode_plan()}, {}, {});
  const Table& tensors = table_of(report, "tensors");
  REQUIRE(tensors.rows.size() == 2);
  CHECK(number_in(tensors, 0, "touched_bytes") == 64);
  CHECK(number_in(tensors, 0, "slack_bytes") == 0);
  CHECK(text_in(tensors, 0, "use") == "to its end");
  CHECK(number_in(tensors, 1, "slack_bytes") == 32);
  CHECK(text_in(tensors, 1, "use") == "never touched");

  const Table& counts = table_of(report, "live_counts");
  REQUIRE(counts.rows.size() == 3);
  CHECK(text_in(counts, 0, "routings") == "uniform, zipf");
  CHECK(text_in(counts, 0, "checks") == "pass");
  CHECK(text_in(counts, 2, "guards") == "strict");
  CHECK(text_in(table_of(report, "shrinks"), 1, "how") == "never touched, shrink not observable");
}

TEST_CASE("a launch that fails, a shrink that is missed and a plan that did not run each answer no") {
  const auto failing = [](const auto& change) {
    ValidatedPlan plan = decode_plan();
    change(plan);
    CHECK_FALSE(plan.is_valid());
    Report report = validate_report(glm52(), {kGpu, 132, false}, {plan, decode_plan()}, {}, {});
    CHECK(report.answered_no);
    CHECK(report.verdict.starts_with("glm52: NOT VALID · 1 of 2 plans · "));
    REQUIRE(report.findings.size() == 1);
    CHECK(report.findings[0].level == "error");
    return report;
  };
  const Report wrong = failing([](ValidatedPlan& plan) {
    plan.packed[1].is_workspace_zero = plan.strict[0].is_workspace_zero = false;
  });
  CHECK(wrong.findings[0].rule == "workspace");
  CHECK(wrong.findings[0].message.starts_with(
      "plan decode: 2 launches fail, first with 1 token, zipf, block 8, packed guards: kernel_workspace"));
  CHECK(text_in(table_of(wrong, "live_counts"), 0, "checks") == "FAIL: workspace");
  const Report missed = failing([](ValidatedPlan& plan) { plan.shrinks[0].guard = ""; });
  CHECK(missed.findings[0].rule == "shrink");
  failing([](ValidatedPlan& plan) {
    plan.findings.push_back({"not-run", "error", "", "plan decode could not be run", ""});
  });
}

TEST_CASE("a report names the weights that ran, and what ran with a layer that was made up") {
  ValidatedPlan plan = decode_plan();
  plan.bits = 3;
  const Report made_up = validate_report(glm52(), {kGpu, 132, false}, {plan}, {}, {});
  const auto fact = [](const Report& report, std::string_view key) {
    const auto found = std::ranges::find(report.facts, key, &Fact::key);
    REQUIRE(found != report.facts.end());
    return found->value;
  };
  CHECK(text_in(table_of(made_up, "plans"), 0, "weights") == "made up");
  CHECK(number_in(table_of(made_up, "plans"), 0, "bits") == 3);
  CHECK(std::holds_alternative<std::monostate>(fact(made_up, "weights_file")));
  CHECK(made_up.notes.empty());

  plan.weights = LayerSource{"m.safetensors", 3, "model.layers.3.mlp.experts", 0, 4, 3};
  plan.shrinks_made_up = true;
  const Report real = validate_report(glm52(), {kGpu, 132, false}, {plan}, {}, {});
  CHECK(text_in(table_of(real, "plans"), 0, "weights") == "model.layers.3.mlp.experts, rank 0 of 4, 3 bits");
  CHECK(number_in(table_of(real, "plans"), 0, "weights_rank") == 0);
  CHECK(number_in(table_of(real, "plans"), 0, "weights_ranks") == 4);
  CHECK(std::get<std::string>(fact(real, "weights_file")) == "m.safetensors");
  CHECK(std::get<i64>(fact(real, "weights_layer")) == 3);
  CHECK(real.verdict.ends_with(" · layer 3 of m.safetensors"));
  REQUIRE(real.notes.size() == 1);
  CHECK(
      real.notes[0] ==
      "plan decode: its launches ran layer 3 of m.safetensors; the small plan whose tensors are shrunk ran a "
      "layer that was made up");

  Evidence evidence;
  add_samples(evidence, {plan});
  const auto recorded = [&](const char* name) {
    const auto found = std::ranges::find(evidence.facts, name, &EvidenceFact::name);
    REQUIRE(found != evidence.facts.end());
    return found->value;
  };
  CHECK(std::get<std::string>(recorded("decode: file of the weights")) == "m.safetensors");
  CHECK(std::get<i64>(recorded("decode: layer of the weights")) == 3);
  CHECK(std::get<std::string>(recorded("decode: weights")) ==
        "model.layers.3.mlp.experts, rank 0 of 4, 3 bits");
}

TEST_CASE("of a packed plan the report has its own bar, and how far split-K scratch was touched") {
  ValidatedPlan plan = decode_plan();
  plan.tolerance = kBfloat16Tolerance;
  for (Measurement& m : plan.packed) {
    m.tensors[1] = {{.tensor = "fc1_c_tmp", .planned_bytes = 32, .end_touched = m.tokens * 6}, 32};
    m.tolerance = kBfloat16Tolerance;
    m.output.relative_l2 = 4e-3;
  }
  const Report report = validate_report(glm52(), {kGpu, 132, false}, {decode_plan(), plan}, {}, {});
  CHECK_FALSE(report.answered_no);
  CHECK(report.verdict.ends_with(" · 8 launches, largest error 4.00e-03 of 8.00e-03"));
  CHECK(text_in(table_of(report, "plans"), 0, "largest_l2") == "2.00e-03");
  CHECK(text_in(table_of(report, "plans"), 1, "largest_l2") == "8.00e-03");
  const Table& tensors = table_of(report, "tensors");
  REQUIRE(tensors.rows.size() == 4);
  CHECK(text_in(tensors, 3, "tensor") == "fc1_c_tmp");
  CHECK(number_in(tensors, 3, "planned_bytes") == 32);
  CHECK(number_in(tensors, 3, "touched_bytes") == 24);
  CHECK(number_in(tensors, 3, "slack_bytes") == 8);
}

TEST_CASE("JUnit has a case for each check of each plan and for each shrink, with what fails in its own") {
  ValidatedPlan wrong = decode_plan();
  wrong.id = "prefill";
  wrong.packed[1].masked_bytes = 2;
  wrong.shrinks[0].guard = "";
  ValidatedPlan refused = decode_plan();
  refused.id = "refused";
  refused.packed.clear();
  refused.strict.clear();
  refused.shrinks.clear();
  refused.findings.push_back({"refused", "error", "", "plan refused could not be run", ""});
  const Report report = validate_report(glm52(), {kGpu, 132, false}, {decode_plan(), wrong, refused}, {}, {});
  const std::string junit = render_junit(std::vector<Report>{report}, {}, {});
  const auto has = [&](std::string_view text) { return junit.find(text) != std::string::npos; };
  const auto case_of = [](std::string_view name) {
    return concat("<testcase name=\"", name, "\" classname=\"glm52\" time=\"0\"");
  };
  INFO(junit);
  for (const std::string_view check : kValidationChecks) {
    CHECK(has(concat(case_of(concat("decode: ", check)), "/>")));
    CHECK(has(concat(case_of(concat("prefill: ", check)), check == "rows" ? ">\n      <failure" : "/>")));
    CHECK(
        has(concat(case_of(concat("refused: ", check)), ">\n      <skipped message=\"nothing was run\"/>")));
  }
  CHECK(has(concat(case_of("decode: shrink rotation_a_gate"), "/>")));
  CHECK(has(concat(case_of("decode: shrink fc1_c_tmp"),
                   ">\n      <skipped message=\"never touched, shrink not observable\"/>")));
  CHECK(has(concat(case_of("prefill: shrink rotation_a_gate"), ">\n      <failure")));
  CHECK(has(concat(case_of("refused: refused"), ">\n      <failure")));
  // The verdict, ten checks of three plans, two shrinks of two, and what kept one from running.
  CHECK(has("tests=\"36\" failures=\"4\" errors=\"0\" skipped=\"12\""));
}

TEST_CASE("nothing to run on is neither valid nor not") {
  const Report report =
      skipped_report(glm52(), {}, {}, {ErrorCode::no_device, "", "no NVIDIA driver here\nlooked in", ""});
  CHECK_FALSE(report.answered_no);
  CHECK(report.verdict == "glm52: SKIPPED · nothing was run: no NVIDIA driver here");
  CoveredPlans covered;
  covered.uncovered = {"draft"};
  covered.findings = {{"no-kernels", "warning", "/plans/1", "draft is not run", ""}};
  const Report rest = skipped_report(glm52(), {}, covered, {ErrorCode::no_device, "", "no driver", ""});
  CHECK(rest.verdict == "glm52: SKIPPED · nothing was run: no driver · no kernels for draft");
  REQUIRE(rest.findings.size() == 2);
  CHECK(rest.findings[0].rule == "no-kernels");
  CHECK(rest.findings[1].rule == "skipped");
  CHECK(rest.checks.back().findings == std::vector<std::size_t>{1});
}

TEST_CASE("a record's command states everything that changes what is run") {
  ValidateOptions options;
  options.configs.paths = {"my configs/glm52.json"};
  options.configs.overrides = {{"/device/sm_count=132"}, "sparkinfer-c2f135c", {"BATCHED", "SEQS"}};
  options.plan = "indexer decode";
  options.emulate = true;
  options.shrink = "tile_logits";
  options.weights = "m.safetensors";
  options.layer = 3;
  options.evidence = "record.json";
  CHECK(
      evidence_command(options) ==
      "moeplan validate -c 'my configs/glm52.json' --set /device/sm_count=132 --contract sparkinfer-c2f135c "
      "--allow-env BATCHED --allow-env SEQS --plan 'indexer decode' --emulate --shrink tile_logits "
      "--weights m.safetensors --layer 3 --evidence record.json");
  options = {};
  options.configs.paths = {"glm52.json"};
  options.evidence = "record.json";
  CHECK(evidence_command(options) == "moeplan validate -c glm52.json --evidence record.json");
}

TEST_CASE("an indexer that is not planned stands in the verdict") {
  const Report report = validate_report(glm52(), {kGpu, 132, false}, {decode_plan()}, {},
                                        {{"indexer-not-planned", "warning", "", "not stated", ""}});
  CHECK(report.verdict.ends_with(" of 2.00e-03 · indexer not planned"));
}

TEST_CASE("the record of a validation holds errors and high-water marks, a value a launch, and reads back") {
  Evidence evidence{.name = "validate",
                    .command = "moeplan validate",
                    .device = {.name = kGpu,
                               .compute_capability = "9.0",
                               .sm_count = 132,
                               .driver = "1",
                               .cuda_runtime = "13.0"},
                    .nvrtc = "13.0",
                    .is_pass = true};
  const auto kernel =
      evidence_kernel(kTrellisReference, *find_architecture("sm_90"), {.cubin = "a cubin"}, {});
  REQUIRE(kernel);
  evidence.kernels.push_back(*kernel);
  add_samples(evidence, {decode_plan()});
  const auto samples = [&](std::string_view name) {
    const auto found = std::ranges::find(evidence.samples, name, &EvidenceSamples::name);
    REQUIRE(found != evidence.samples.end());
    return found->values;
  };
  CHECK(samples("decode: live tokens of each launch") == std::vector<i64>{1, 1, 4});
  CHECK(samples("decode: relative error of the output") == std::vector<i64>{100'000, 100'000, 400'000});
  CHECK(samples("decode: rotation_a_gate touched, of 64") == std::vector<i64>{16, 16, 64});
  CHECK(samples("decode: fc1_c_tmp touched, of 32") == std::vector<i64>{0, 0, 0});
  const auto again = read_evidence(evidence_json(evidence));
  REQUIRE(again);
  CHECK(*again == evidence);
}
