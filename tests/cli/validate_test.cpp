// moeplan validate without a GPU: what is told before one is needed, and what its absence comes to.
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/support.hpp"
#include "tests/temporary_folder.hpp"

using namespace moeplan::test;

namespace {

// Without a compiler nothing is run, whatever the machine has.
constexpr const char* kNothing = "MOEPLAN_NVRTC=/nowhere/libnvrtc.so.13";

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

Output validate(const std::string& arguments, const std::string& input = "") {
  return run_moeplan("validate " + arguments, input, kNothing);
}

}  // namespace

TEST_CASE("without what it takes to run kernels validate exits 4 and says what is missing") {
  const Output output = validate("-c configs/glm52.json");
  CHECK(output.exit_code == 4);
  CHECK(output.out.empty());
  CHECK(output.err.starts_with("error[no_nvrtc]: "));
  const Output json = validate("-c configs/glm52.json -o json");
  CHECK(json.exit_code == 4);
  CHECK(Json::parse(json.out)["errors"][0]["code"] == "no_nvrtc");
}

TEST_CASE("with --if-available it exits 0 and says that nothing was run") {
  const Output output = validate("-c configs/glm52.json --if-available");
  CHECK(output.exit_code == 0);
  CHECK(contains(output.out, "glm52: SKIPPED · nothing was run: "));
  const Json report = Json::parse(validate("-c configs/glm52.json --if-available -o json").out);
  CHECK(report["schema"] == "moeplan.validate/1");
  CHECK(report["valid"].is_null());
  CHECK(report["skipped"].is_string());
  CHECK(report["totals"]["launches"] == 0);
  const Output junit = validate("-c configs/glm52.json --if-available -o junit");
  CHECK(junit.exit_code == 0);
  CHECK(contains(junit.out, "SKIPPED"));
}

TEST_CASE("mistakes are told ahead of a missing GPU") {
  CHECK(validate("-c /nowhere.json").exit_code == 3);
  CHECK(validate("-c /nowhere.json --if-available").exit_code == 3);
  const Output plan = validate("-c configs/glm52.json --plan decoed --if-available");
  CHECK(plan.exit_code == 2);
  CHECK(contains(plan.err, "did you mean \"decode\"?"));
  const Output tensor = validate("-c configs/glm52.json --shrink rotation_a_gat --if-available");
  CHECK(tensor.exit_code == 2);
  CHECK(contains(tensor.err, "did you mean \"rotation_a_gate\"?"));
  CHECK(validate("-c configs/glm52.json --shrink fc1_c_tmp").exit_code == 4);
  const Output two = validate("-c configs/glm52.json -c configs/glm52-e160.json --evidence never.json");
  CHECK(two.exit_code == 2);
  CHECK(contains(two.err, "a record of one config"));
  CHECK(validate("-c configs/glm52.json --evidence ''").exit_code == 2);
}

TEST_CASE("an evidence file never replaces the config it is about") {
  const TemporaryFolder folder;
  const std::string config = folder.write("glm52.json", read_source("configs/glm52.json"));
  const Output output = validate("-c '" + config + "' --evidence '" + config + "'");
  CHECK(output.exit_code == 2);
  CHECK(contains(output.err, "which is read"));
}

TEST_CASE("every plan of the configs that are validated on a GPU has kernels of ours, packed and Trellis") {
  for (const char* name : {"packed-columns", "packed-glm", "trellis-widths"}) {
    const std::string config = std::string("tests/gpu/configs/") + name + ".json";
    const Output output = validate("-c " + config + " --if-available");
    INFO(name << ": " << output.err);
    CHECK(output.exit_code == 0);
    CHECK(contains(output.out, std::string(name) + ": SKIPPED · nothing was run: "));
    CHECK_FALSE(contains(output.out, "no-kernels"));
    CHECK(run_moeplan("size -c " + config).exit_code == 0);
  }
}

TEST_CASE("a config none of whose plans has kernels of ours is an error, with or without a GPU") {
  const std::string plan =
      R"({"schema_version": 1, "contract": "sparkinfer-de04125", "plans": [)"
      R"({"id": "packed", "kind": "moe_tp", "device": {"sm_count": 188}, "weights": {"quant_mode": "w4a16",)"
      R"( "source_format": "fp4_e8m0_k32", "activation": "silu", "w13_layout": "w13",)"
      R"( "io_dtype": "bfloat16", "experts": 8, "hidden_size": 256, "intermediate_size": 256},)"
      R"( "capacity": {"max_tokens": 16, "top_k": 2}}]})";
  const Output output = validate("-c - --if-available", plan);
  CHECK(output.exit_code == 3);
  CHECK(contains(output.err, "nothing to run"));
}

TEST_CASE("--sanitizer runs the same command under compute-sanitizer and exits as that does") {
  const TemporaryFolder folder;
  const std::string program = folder.write("compute-sanitizer", "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 1\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::string environment = "PATH=" + folder.path() + ":/usr/bin:/bin";
  for (const char* option : {"--sanitizer memcheck", "--sanitizer=memcheck"}) {
    const Output output = run_moeplan("validate -c configs/glm52.json " + std::string(option) + " --emulate",
                                      "", environment.c_str());
    CHECK(output.exit_code == 1);
    CHECK(output.out.starts_with("--tool\nmemcheck\n--error-exitcode\n1\n--log-file\n/dev/stderr\n/"));
    CHECK(output.out.ends_with("validate\n-c\nconfigs/glm52.json\n--emulate\n"));
  }
}

TEST_CASE("without compute-sanitizer --sanitizer says where it was looked for, and runs nothing") {
  const auto nowhere = [](const std::string& arguments) {
    return run_moeplan("validate -c configs/glm52.json --sanitizer racecheck" + arguments, "",
                       "PATH=/nowhere CUDA_HOME=/nowhere/cuda");
  };
  const Output output = nowhere("");
  // A toolkit of this machine may have one.
  if (std::filesystem::exists("/usr/local/cuda/bin/compute-sanitizer")) return;
  CHECK(output.exit_code == 4);
  CHECK(output.out.empty());
  CHECK(contains(output.err,
                 "error[no_sanitizer]: compute-sanitizer is in none of /nowhere, /nowhere/cuda/bin"));
  CHECK(nowhere(" --if-available").exit_code == 0);
  CHECK(validate("-c configs/glm52.json --sanitizer valgrind").exit_code == 2);
}
