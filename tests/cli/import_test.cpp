// moeplan import as a user runs it.
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/cli/process.hpp"

using namespace moeplan;
using test::run_moeplan;

namespace {

const std::string kLog = "tests/golden/logs/glm52_exl3_325_tp4_dcp4_mtp3_cap1024.log";
const std::string kServe =
    "-- env VLLM_EXL3_TRELLIS_MAX_M=64 vllm serve org/GLM-5.2-EXL3-3bpw --quantization exl3 -tp 4 --dtype "
    "bfloat16 "
    "--max-num-batched-tokens 3072";

}  // namespace

TEST_CASE("import writes a config that size reads, with the provenance of every field") {
  const auto made = run_moeplan("import vllm --device rtx-pro-6000-blackwell " + kServe);
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  const auto config = nlohmann::json::parse(made.out);
  CHECK(config["x-provenance"]["/parallel/tp"] == "command -tp");
  CHECK(config["x-provenance"]["/quant/bits"].get<std::string>().find("assumed: from name") == 0);
  CHECK(config["x-provenance"]["/contract"].get<std::string>().find("contract assumed") != std::string::npos);
  CHECK(made.err.find("/device/sm_count") != std::string::npos);
  const auto sized = run_moeplan("size -q -c -", made.out);
  INFO(sized.err);
  CHECK(sized.exit_code == 0);
  CHECK(sized.out.find("1,150,998,080 B (1,097.68 MiB)") != std::string::npos);
  CHECK(run_moeplan("import vllm --device rtx-pro-6000-blackwell " + kServe).out == made.out);
}

TEST_CASE("what is missing is named with the flag that adds it, and nothing is written") {
  const auto made = run_moeplan("import vllm -- vllm serve org/unknown -tp 4");
  CHECK(made.exit_code == 3);
  CHECK(made.out.empty());
  for (const char* text : {"/device/sm_count", "--device NAME", "/model/hidden_size", "--hf CONFIG.JSON",
                           "/deployment/max_num_batched_tokens", "/quant/source_format"}) {
    INFO(text);
    CHECK(made.err.find(text) != std::string::npos);
  }
}

TEST_CASE("a start-up log is a config by itself when it shows the device") {
  const auto made = run_moeplan("import log " + kLog);
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  const auto config = nlohmann::json::parse(made.out);
  CHECK(config["measured"]["kv_tokens"] == 257024);
  CHECK(config["measured"]["available_kv"] == "1.91 GiB");
  CHECK(config["contract"] == "sparkinfer-de04125");
  CHECK(config["device"]["sm_count"] == 188);
  CHECK(config["x-provenance"]["/measured/kv_tokens"].get<std::string>().find(".log:33") !=
        std::string::npos);
  CHECK(run_moeplan("import log - ", test::read_file(MOEPLAN_SOURCE_DIR "/" + kLog)).exit_code == 0);
}

TEST_CASE("an FP8 deployment is imported, and size says that its path is not modelled") {
  const test::TemporaryFolder folder;
  const std::string hf = folder.write(
      "config.json",
      R"({"model_type": "glm_moe_dsa", "hidden_size": 6144, "moe_intermediate_size": 2048, "n_routed_experts": 256,
          "num_experts_per_tok": 8, "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8"}})");
  const auto made = run_moeplan(
      "import vllm --device h200-sxm -- vllm serve zai-org/GLM-5.2-FP8 --tensor-parallel-size 8 "
      "--gpu-memory-utilization 0.90 --max-model-len 32000 --max-num-seqs 16 --kv-cache-dtype fp8 "
      "--max-num-batched-tokens 65536 --hf " +
      hf);
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  const auto config = nlohmann::json::parse(made.out);
  CHECK(config["quant"]["weights"] == "fp8");
  CHECK(config["deployment"]["dtype"] == "bfloat16");
  CHECK(config["deployment"]["max_num_batched_tokens"] == 65536);
  const auto sized = run_moeplan("size -c -", made.out);
  CHECK(sized.exit_code == 3);
  CHECK(sized.err.find("how an engine plans fp8 deployments is not modelled") != std::string::npos);
}

TEST_CASE("sources that contradict each other are refused, and --set decides") {
  const test::TemporaryFolder folder;
  const std::string env = folder.write(".env", "TENSOR_PARALLEL_SIZE=8\n");
  const std::string arguments = "import vllm --device rtx-pro-6000-blackwell --env " + env;
  const auto refused = run_moeplan(arguments + " " + kServe);
  CHECK(refused.exit_code == 3);
  CHECK(refused.out.empty());
  CHECK(refused.err.find("/parallel/tp is 4 in command -tp, but 8 in .env:1") != std::string::npos);
  const auto decided = run_moeplan(arguments + " --set /parallel/tp=2 " + kServe);
  INFO(decided.err);
  CHECK(decided.exit_code == 0);
  CHECK(nlohmann::json::parse(decided.out)["parallel"]["tp"] == 2);
}

TEST_CASE("wrong command lines of import exit with 2") {
  for (const char* arguments : {"import", "import nothing x", "import hf", "import log -- vllm serve m",
                                "import vllm file -- vllm serve m"}) {
    INFO(arguments);
    const auto output = run_moeplan(arguments);
    CHECK(output.exit_code == 2);
    CHECK(output.out.empty());
  }
  CHECK(run_moeplan("import hf /nonexistent").exit_code == 3);
  const auto typo = run_moeplan("import vllm --device rtx-pro-6000-blackwel " + kServe);
  CHECK(typo.exit_code == 3);
  CHECK(typo.err.find("did you mean rtx-pro-6000-blackwell?") != std::string::npos);
}

TEST_CASE("a value out of its field's bounds is named with its source") {
  const auto made = run_moeplan(
      "import vllm --device rtx-pro-6000-blackwell -- vllm serve org/GLM-5.2-EXL3-3bpw "
      "-tp 5000 --dtype bfloat16 --max-num-batched-tokens 3072");
  CHECK(made.exit_code == 3);
  CHECK(made.err.find("tp must be 1..1024, got 5000 (command -tp)") != std::string::npos);
}

TEST_CASE("a header nested without end, in a file or an index, is refused with exit 3") {
  const test::TemporaryFolder folder;
  std::string objects;
  for (int i = 0; i < 60'000; ++i) objects += "{\"a\":";
  for (const std::string& text : {objects, std::string(300'000, '['), std::string("[[[[[[1, 2")}) {
    std::string file;
    for (std::size_t shift = 0; shift < 64; shift += 8)
      file += static_cast<char>(text.size() >> shift & 0xFF);
    for (const std::string& path :
         {folder.write("m.safetensors", file + text), folder.write("m.index.json", text)}) {
      const auto made = run_moeplan("import safetensors " + path);
      INFO(made.err);
      CHECK(made.exit_code == 3);
      CHECK(made.err.find("nested deeper than a header is") != std::string::npos);
      CHECK((made.err.find(" | [[[[[[1, 2\n") != std::string::npos) == (text.size() < 100));
    }
  }
}

TEST_CASE("what is no safetensors file is refused with what it is, and exit 3") {
  const test::TemporaryFolder folder;
  const std::pair<std::string, const char*> files[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "a Git LFS pointer"},
      {"PK\3\4 an archive", "is this a safetensors file?"},
      {"short", "shorter than a header's length"}};
  for (const auto& [text, expected] : files) {
    const auto made = run_moeplan("import safetensors " + folder.write("m.safetensors", text));
    INFO(made.err);
    CHECK(made.exit_code == 3);
    CHECK(made.err.find(expected) != std::string::npos);
    CHECK(made.err.find("m.safetensors") != std::string::npos);
  }
  const auto made = run_moeplan("import safetensors " + folder.path());
  CHECK(made.exit_code == 3);
  CHECK(made.err.find(folder.path() + " is a folder") != std::string::npos);
}
