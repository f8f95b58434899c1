// moeplan bench without a GPU: how lists of shapes are read, what is refused before a GPU is needed, and what
// its absence comes to.
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

Output bench(const std::string& arguments, const std::string& input = "") {
  return run_moeplan("bench indexer " + arguments, input, kNothing);
}

}  // namespace

TEST_CASE("without what it takes to run kernels bench exits 4 and says what is missing") {
  const std::string shapes = "--rows 1,4,16,48 --context 8k,32K,128k,524288 --heads 16,32,64";
  for (const std::string& arguments :
       {shapes, shapes + " --top-k 512", std::string("--rows 48 --context 64 --heads 32 --group 6"),
        std::string("--rows 3072 --context 32k --heads 32 --prefill --bandwidth-gb-s 4500"),
        std::string("-c configs/glm52.json"), std::string("-c configs/glm52.json --rows 6 --context 8k"),
        std::string("-c configs/glm52.json --rows 1 --context 8k --group 1")}) {
    const Output output = bench(arguments);
    CHECK(output.exit_code == 4);
    CHECK(output.out.empty());
    CHECK(output.err.starts_with("error[no_nvrtc]: "));
  }
  const Output json = bench(shapes + " --format json");
  CHECK(json.exit_code == 4);
  CHECK(Json::parse(json.out)["errors"][0]["code"] == "no_nvrtc");
}

TEST_CASE("with --if-available bench exits 0 and says that nothing was run") {
  const Output output = bench("--rows 1 --context 8k --heads 32 --if-available");
  CHECK(output.exit_code == 0);
  CHECK(output.out.starts_with("SKIPPED · nothing was run: "));
  const Json report = Json::parse(bench("-c configs/glm52.json --if-available -o json").out);
  CHECK(report["schema"] == "moeplan.bench/1");
  CHECK(report["name"] == "glm52");
  CHECK(report["skipped"].is_string());
  CHECK(report["shapes"].empty());
}

TEST_CASE(
    "bench refuses what no shape is, with the option, the item and an example, ahead of a missing GPU") {
  const std::string others = " --if-available --context 8k --heads 32",
                    rows = " --if-available --rows 1 --heads 32",
                    shapes = " --if-available --rows 1 --context 8k";
  const std::pair<std::string, std::string> refused[] = {
      {"--rows 0" + others, "--rows 0: item 1, 0, has to be a whole number from 1 to 65,536"},
      {"--rows 1,-4" + others, "--rows 1,-4: item 2, -4, has to be a whole number"},
      {"--rows 1,x" + others, "--rows 1,x: item 2, x, has to be"},
      {"--rows 1k" + others, "--rows 1k: item 1, 1k, has to be"},
      {"--rows 65537" + others, "--rows 65537: item 1"},
      {"--rows 99999999999999999999" + others, "from 1 to 65,536"},
      {"--rows ''" + others, "--rows: the list is empty"},
      {"--rows 1,,4" + others, "--rows 1,,4: item 2 is empty"},
      {"--rows 1," + others, "--rows 1,: item 2 is empty"},
      {"--rows $(seq -s, 1 65)" + others, "more than 64 numbers"},
      {"--context 7" + rows,
       "--context 7: item 1, 7, has to be whole pages of 64 tokens, 8k for 8192, from 64"},
      {"--context 8k,100" + rows, "item 2, 100, has to be whole pages of 64 tokens"},
      {"--context 0" + rows, "item 1, 0, has to be"},
      {"--context k" + rows, "item 1, k, has to be"},
      {"--context 8kk" + rows, "item 1, 8kk, has to be"},
      {"--context 8.5k" + rows, "item 1, 8.5k, has to be"},
      {"--context 16385k" + rows, "from 64 to 16,777,216"},
      {"--context 999999999k" + rows, "from 64 to 16,777,216"},
      {"--heads 33" + shapes, "--heads 33: item 1, 33, has to be 16, 32 or 64"},
      {"--heads 32 --top-k 2047" + shapes, "--top-k 2047: has to be 512, 1024 or 2048"},
      {"--heads 32 --group 0" + shapes, "--group 0: has to be a whole number"},
      {"--heads 32 --bandwidth-gb-s 0" + shapes, "--bandwidth-gb-s 0: has to be a whole number"},
      {"--heads 32 --bandwidth-gb-s ''" + shapes, "--bandwidth-gb-s: has to be a whole number"},
      {"--rows 4,6 --group 4" + others, "--group 4: 6 rows are no whole number of requests of 4 rows"},
      {"--rows 8 --group 4 --prefill" + others,
       "--group 4: rows of a prefill share the pages of one request"},
      {"--rows 1 --context 8k --if-available", "--heads is missing"},
      {"--heads 32 --context 8k --if-available", "--rows is missing"},
      {"--heads 32 --rows 1 --if-available", "--context is missing"},
      {"--heads 32 --set /deployment/max_num_seqs=1" + shapes, "--set changes a config"},
      {"--heads 16,32,64 --rows $(seq -s, 1 64) --context $(seq -s, 64 64 4096) --if-available",
       "make more than 1,024 shapes"},
      {"-c configs/glm52.json --rows 48,4 --if-available",
       "plan indexer decode: 4 rows are no whole number of requests of 6 rows\n"
       "  help: give --rows that 6 divides, or --group 1 for rows of requests of their own"},
      {"-c configs/glm52.json --plan 'indexer prefill' --group 4 --if-available",
       "--group 4: rows of a prefill share the pages of one request, and no other plan is timed"},
      {"-c configs/glm52.json --rows 49 --plan 'indexer decode' --if-available",
       "--rows: plan indexer decode has room for 48 rows, not for 49"},
      {"-c configs/glm52.json --context 16384k --if-available",
       "--context: plan indexer decode has room for"},
      {"-c configs/glm52.json --plan indexer-decode --if-available", "did you mean \"indexer decode\"?"}};
  for (const auto& [arguments, message] : refused) {
    INFO(arguments);
    const Output output = bench(arguments);
    CHECK(output.exit_code == 2);
    CHECK(output.out.empty());
    CHECK(output.err.starts_with("error["));
    INFO(output.err);
    CHECK(contains(output.err, message));
    CHECK(contains(output.err, "\n  help: "));
  }
  const Json error = Json::parse(bench("--rows 0 --context 8k --heads 32 -o json").out)["errors"][0];
  CHECK(error["code"] == "invalid_value");
  CHECK(error["help"] == "for example --rows 1,4,16,48");
}

TEST_CASE("what a list of bench names again is timed once") {
  std::string heads = "32", rows = "1";
  for (int i = 2; i <= 64; ++i) {
    heads += ",32";
    rows += "," + std::to_string(i);
  }
  // As 64 x 64 shapes they would be too many.
  const Output output = bench("--heads " + heads + " --rows " + rows + " --context 8k --if-available");
  INFO(output.err);
  CHECK(output.exit_code == 0);
  CHECK(contains(output.out, "SKIPPED"));
}

TEST_CASE("a record of bench that cannot be written is told before a GPU is looked for") {
  const TemporaryFolder folder;
  for (const std::string& file : {folder.path() + "/none/record.json", folder.path()}) {
    for (const char* what : {"-c configs/glm52.json", "--rows 1 --context 8k --heads 32"}) {
      const Output output = bench(std::string(what) + " --if-available --evidence '" + file + "'");
      INFO(output.err);
      CHECK(output.exit_code == 3);
      CHECK(output.err.starts_with("error[unwritable]: cannot write " + file + ": "));
      CHECK(contains(output.err, "\n  help: "));
      CHECK(output.out.empty());
    }
  }
}

TEST_CASE(
    "bench takes the shapes of a config or of its lists, one thing to time, and records that replace "
    "nothing") {
  const std::pair<std::string, std::string> refused[] = {
      {"-c configs/glm52.json --heads 32", "--config excludes --heads"},
      {"-c configs/glm52.json --top-k 512", "--config excludes --top-k"},
      {"-c configs/glm52.json --prefill", "--config excludes --prefill"},
      {"--rows 1 --context 8k --heads 32 --plan decode", "--plan requires --config"},
      {"--rows 1 --context 8k --heads 32 --evidence ''", "--evidence: write the name of a file"},
      {"-c configs/glm52.json -c configs/glm52-e160.json --evidence never.json",
       "--evidence is a record of one config"},
      {"-c configs/glm52.json --evidence configs/glm52.json",
       "--evidence would write over configs/glm52.json, which is read"},
      {"-c configs/glm52.json -o json=configs/glm52.json",
       "-o would write over configs/glm52.json, which is read"},
      {"--rows 1 --context 8k --heads 32 --evidence x.json -o json=x.json",
       "-o would write over x.json, the record"}};
  for (const auto& [arguments, message] : refused) {
    const Output output = bench(arguments);
    INFO(arguments << ": " << output.err);
    CHECK(output.exit_code == 2);
    CHECK(contains(output.err, message));
  }
  CHECK(run_moeplan("bench", "", kNothing).exit_code == 2);
  CHECK(run_moeplan("bench moe", "", kNothing).exit_code == 2);
  CHECK_FALSE(std::filesystem::exists(MOEPLAN_SOURCE_DIR "/never.json"));
  CHECK(bench("-c /nowhere.json --if-available").exit_code == 3);
  const Output moe = bench("-c configs/glm52.json --plan decode");
  CHECK(moe.exit_code == 3);
  CHECK(contains(moe.err, "there is nothing to time: plan decode is no paged indexer plan\n"));
  CHECK(contains(moe.err, "help: the config's paged indexer plans are indexer decode, indexer prefill\n"));
  const Output top_k = bench("-c configs/glm52.json --set /model/index_topk=700");
  CHECK(top_k.exit_code == 3);
  CHECK(contains(top_k.err, "select 512, 1024 or 2048 keys, not 700"));
  CHECK(contains(top_k.err, "plan indexer decode is not timed: "));
  CHECK(contains(top_k.err, "\n  help: "));
}
