// moeplan validate without a GPU: what is told before one is needed, and what its absence comes to.
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/safetensors_support.hpp"
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

// A Trellis plan of `experts` experts, hidden 256, intermediate 128 a rank, 3 bits.
std::string trellis_config(int experts) {
  const Json plan = {{"id", "small"},
                     {"kind", "moe_tp"},
                     {"device", {{"sm_count", 188}}},
                     {"weights",
                      {{"quant_mode", "w4a16"},
                       {"source_format", "exl3_trellis_mcg"},
                       {"activation", "silu"},
                       {"io_dtype", "bfloat16"},
                       {"trellis_bits", 3},
                       {"experts", experts},
                       {"hidden_size", 256},
                       {"intermediate_size", 128}}},
                     {"capacity", {{"max_tokens", 16}, {"top_k", 2}, {"block_size_m", 8}}}};
  return Json{{"schema_version", 1}, {"contract", "sparkinfer-de04125"}, {"plans", {plan}}}.dump();
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
}

TEST_CASE("what validate or bench skipped says so in every format, and JUnit counts it") {
  const std::string command = GENERATE(as<std::string>(), "validate", "bench indexer");
  const auto in = [&](const std::string& format, const std::string& more = "") {
    const Output output =
        run_moeplan(command + " -c configs/glm52.json --if-available -o " + format + more, "", kNothing);
    INFO(format);
    CHECK(output.exit_code == 0);
    return output.out;
  };
  for (const char* more : {"", " --show warning"}) {
    const std::string junit = in("junit", more);
    INFO(junit);
    CHECK(contains(junit, "tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"1\""));
    CHECK(contains(junit,
                   "<testcase name=\"verdict\" classname=\"configs/glm52.json\" time=\"0\">\n"
                   "      <skipped message=\"NVIDIA&#39;s run-time compiler NVRTC was not found; "));
    CHECK_FALSE(contains(junit, "system-out"));
  }
  const Json sarif = Json::parse(in("sarif"))["runs"][0]["results"];
  REQUIRE(sarif.size() == 1);
  CHECK(sarif[0]["ruleId"] == "skipped");
  CHECK(sarif[0]["level"] == "note");
  CHECK(contains(in("csv"), "\r\nconfigs/glm52.json,skips,,"));
  CHECK(contains(in("csv"), "libnvrtc.so.13"));
  CHECK(contains(in("tsv"), "\nconfigs/glm52.json\tskips\t\t"));
  CHECK(contains(in("github"), "::notice "));
  // Nothing was run: there is no table to show.
  CHECK_FALSE(contains(in("markdown"), "|"));
  CHECK_FALSE(contains(in("html"), "<table"));
}

TEST_CASE("the answer of a skip keeps the weights that were given") {
  const TemporaryFolder folder;
  const std::string weights = folder.write("m.safetensors", safetensors_text(exl3_tensors({})));
  const Json report = Json::parse(
      validate("-c - --if-available -o json --weights '" + weights + "' --layer 3", trellis_config(2)).out);
  CHECK(report["weights_file"] == weights);
  CHECK(report["weights_layer"] == 3);
  CHECK(report["skips"].size() == 1);
}

TEST_CASE("a record that cannot be written is told before anything runs") {
  const TemporaryFolder folder;
  for (const std::string& file : {folder.path() + "/none/record.json", folder.path()}) {
    const Output output = validate("-c configs/glm52.json --if-available --evidence '" + file + "'");
    INFO(output.err);
    CHECK(output.exit_code == 3);
    CHECK(output.err.starts_with("error[unwritable]: cannot write " + file + ": "));
    CHECK(contains(output.err, "\n  help: "));
    CHECK(output.out.empty());
  }
  // Looking leaves nothing behind, and a record as it was.
  const std::string record = folder.write("record.json", "{}");
  CHECK(validate("-c configs/glm52.json --if-available --evidence '" + record + "'").exit_code == 0);
  CHECK(read_file(record) == "{}");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()),
                      std::filesystem::directory_iterator()) == 1);
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

TEST_CASE("every plan of the configs that are validated on a GPU has kernels of ours, MoE and indexer") {
  for (const char* name :
       {"packed-columns", "packed-glm", "trellis-widths", "indexer-routes", "small-indexer", "small-lean",
        "small-packed", "small-trellis-narrow", "small-trellis-wide"}) {
    const std::string config = std::string("tests/gpu/configs/") + name + ".json";
    const Output output = validate("-c " + config + " --if-available");
    INFO(name << ": " << output.err);
    CHECK(output.exit_code == 0);
    CHECK(contains(output.out, std::string(name) + ": SKIPPED · nothing was run: "));
    CHECK_FALSE(contains(output.out, "no-kernels"));
    CHECK(run_moeplan("size -c " + config).exit_code == 0);
  }
}

TEST_CASE("the indexer's plans of the first deployments are run, and --plan and --shrink may name theirs") {
  for (const std::string name : {"glm52", "glm52-gate8192"}) {
    const std::string config = "-c configs/" + name + ".json --if-available ";
    CHECK_FALSE(contains(validate(config).out, "no-kernels"));
    for (const char* plan : {"indexer decode", "indexer prefill"}) {
      const Output output = validate(config + "--plan '" + plan + "' --shrink tile_logits");
      INFO(output.err);
      CHECK(output.exit_code == 0);
      CHECK(contains(output.out, "SKIPPED"));
    }
    // What it has to touch is known of the plan that is chosen.
    CHECK(validate(config + "--plan 'indexer decode' --shrink rotation_a_gate").exit_code == 2);
  }
  const Output none = validate("-c configs/glm52.json --set /model/index_topk=700 --plan 'indexer decode'");
  CHECK(none.exit_code == 3);
  CHECK(contains(none.err, "nothing to run"));
  CHECK(contains(none.err, "select 512, 1024 or 2048 keys, not 700"));
}

TEST_CASE("a plan that size prints and no kernel of ours runs is not unknown") {
  const Output output = validate("-c configs/glm52-mixed325.json --plan 'mixed decode state' --if-available");
  CHECK(output.exit_code == 3);
  CHECK(
      output.err.starts_with("error[no_kernels]: there is nothing to run: mixed decode state is not run: "));
  CHECK(contains(validate("-c configs/glm52-mixed325.json --plan 'mixed decode stat'").err,
                 "did you mean \"mixed decode state\"?"));
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
  CHECK(contains(output.err, "  help: moeplan help no-kernels says what has"));

  // NVFP4 weights that an engine may repack.
  const Output native =
      validate("-c - --set /plans/0/weights/source_format='\"modelopt_nvfp4\"' -o json", plan);
  CHECK(native.exit_code == 3);
  const Json error = Json::parse(native.out)["errors"][0];
  CHECK(error["code"] == "no_kernels");
  CHECK(error["pointer"] == "/plans/0");
  CHECK(contains(
      error["message"].get<std::string>(),
      "kernels run Trellis, packed NVFP4 and paged indexer plans; this one has the layout modelopt"));
  CHECK(contains(error["help"].get<std::string>(), "weights.weight_layout mma_packed"));
}

TEST_CASE("validate --sanitizer runs the same command under compute-sanitizer and exits as that does") {
  const TemporaryFolder folder;
  const std::string program = folder.write(
      "compute-sanitizer", "#!/bin/sh\nprintf '%s\\n' \"$@\"\necho found something >\"$6\"\nexit 1\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::string environment = "PATH=" + folder.path() + ":/usr/bin:/bin";
  for (const char* option : {"--sanitizer memcheck", "--sanitizer=memcheck"}) {
    const Output output = run_moeplan("validate -c configs/glm52.json " + std::string(option) + " --emulate",
                                      "", environment.c_str());
    CHECK(output.exit_code == 1);
    CHECK(output.out.starts_with("--tool\nmemcheck\n--error-exitcode\n1\n--log-file\n/proc/self/fd/"));
    CHECK(output.err == "found something\n");
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
  CHECK(nowhere(" -c /nowhere.json --if-available").exit_code == 3);
  CHECK(validate("-c configs/glm52.json --sanitizer valgrind").exit_code == 2);
  const Output twice = validate("-c - --sanitizer memcheck", "{}");
  CHECK(twice.exit_code == 2);
  CHECK(contains(twice.err, "standard input is read once"));
}

TEST_CASE("validate takes --weights and --layer together, and never writes over the weights") {
  const TemporaryFolder folder;
  const std::string weights = folder.write("m.safetensors", safetensors_text(exl3_tensors({})));
  const std::string both = "-c configs/glm52.json --weights '" + weights + "' --layer 3";
  for (const std::string& arguments :
       {"-c configs/glm52.json --weights '" + weights + "'", std::string("-c configs/glm52.json --layer 3"),
        std::string("-c configs/glm52.json --weights '' --layer 3"),
        "-c configs/glm52.json --weights '" + weights + "' --layer -1",
        both + " --evidence '" + weights + "'", both + " -o json='" + weights + "'"}) {
    INFO(arguments);
    const Output output = validate(arguments);
    CHECK(output.exit_code == 2);
    CHECK(output.err.starts_with("error[usage]: "));
    CHECK(output.out.empty());
  }
  CHECK(read_file(weights) == safetensors_text(exl3_tensors({})));
  CHECK(validate("-c configs/glm52.json --weights f").err ==
        "error[usage]: moeplan validate: --weights requires --layer\n  help: add --layer N\n");
}

TEST_CASE("weights that are not what the plan runs exit 3, ahead of a missing GPU") {
  const TemporaryFolder folder;
  const std::string weights =
      folder.write("m.safetensors", safetensors_text(exl3_tensors({.intermediate = 256, .experts = 4})));
  const std::string arguments = "-c - --if-available --weights '" + weights + "' --layer ";
  const Output fine = validate(arguments + "3", trellis_config(4));
  INFO(fine.err);
  CHECK(fine.exit_code == 0);
  CHECK(contains(fine.out, "SKIPPED"));

  const Output layer = validate(arguments + "4", trellis_config(4));
  CHECK(layer.exit_code == 3);
  CHECK(layer.err.starts_with("error[weights_refused]: " + weights));
  CHECK(contains(layer.err, "no experts of layer 4, but of layer 3\n  help: choose it"));
  const Output experts = validate(arguments + "3", trellis_config(6));
  CHECK(experts.exit_code == 3);
  CHECK(contains(experts.err, "has 4 experts here and the plan 6: missing 4..5"));
  const Output gone = validate("-c - --weights /nowhere.safetensors --layer 3", trellis_config(4));
  CHECK(gone.exit_code == 3);
  CHECK(gone.err.starts_with("error[unreadable]: cannot read /nowhere.safetensors: No such file"));
  const Json json = Json::parse(validate(arguments + "4 -o json", trellis_config(4)).out);
  CHECK(json["errors"][0]["code"] == "weights_refused");

  const std::string packed = "-c tests/gpu/configs/packed-glm.json --weights '" + weights + "' --layer 3";
  const Output unused = validate(packed + " --if-available");
  CHECK(unused.exit_code == 3);
  CHECK(contains(unused.err, ": no plan that is run has Trellis weights\n  help: leave "));
}

TEST_CASE("validate writes over no record, no shard, and takes a layer's number as it is written") {
  const TemporaryFolder folder;
  const std::string weights = folder.write("m.safetensors", safetensors_text(exl3_tensors({})));
  const std::string record = folder.path() + "/record.json";
  for (const std::string& arguments :
       {"-c configs/glm52.json --evidence '" + record + "' -o json='" + record + "'",
        "-c configs/glm52.json --weights '" + weights + "' --layer 3 -o json='" + folder.path() +
            "/n.safetensors'",
        "-c configs/glm52.json --weights '" + weights + "' --layer 3 --evidence '" + folder.path() +
            "/n.safetensors'",
        "-c configs/glm52.json --weights '" + weights + "' --layer 03"}) {
    INFO(arguments);
    CHECK(validate(arguments).exit_code == 2);
  }
}
