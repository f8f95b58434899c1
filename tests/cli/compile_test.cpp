// moeplan compile and moeplan cache: what builds, what is refused, and what a cache is worth.
#include <sys/stat.h>

#include <filesystem>

#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/support.hpp"

using namespace moeplan::test;

namespace {

constexpr const char* kCompile = "compile --config configs/glm52.json --arch sm_120 ";
// Fewer kernels, where any do.
constexpr const char* kCompileDecode = "compile --config configs/glm52.json --arch sm_120 --plan decode ";

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// False, said aloud, where this machine has no NVRTC.
bool has_nvrtc() {
  static const Output output =
      run_moeplan("compile -c configs/glm52.json --arch sm_120 -q --no-cache --plan decode");
  if (output.exit_code == 4) WARN("SKIPPED: " << output.err);
  return output.exit_code != 4;
}

// A folder of kernel texts like the tree's, in which some can be replaced.
class KernelFolder {
 public:
  KernelFolder() {
    std::filesystem::copy(MOEPLAN_SOURCE_DIR "/kernels", folder_.path() + "/kernels",
                          std::filesystem::copy_options::recursive);
  }
  void replace(const std::string& name, const std::string& text) { folder_.write("kernels/" + name, text); }
  std::string environment() const { return "MOEPLAN_KERNEL_DIR='" + folder_.path() + "/kernels'"; }

 private:
  TemporaryFolder folder_;
};

std::string cache_in(const TemporaryFolder& folder) {
  return "MOEPLAN_CACHE_DIR='" + folder.path() + "/cache'";
}

Json rows_of(const Output& output) { return Json::parse(output.out)["kernels"]; }

}  // namespace

TEST_CASE("without NVRTC compile exits 4 and says where it looked, and planning goes on") {
  const Output output = run_moeplan(kCompile, "", "MOEPLAN_NVRTC=/nowhere/libnvrtc.so.13");
  CHECK(output.exit_code == 4);
  CHECK(output.out.empty());
  CHECK(output.err.starts_with("error[no_nvrtc]: "));
  CHECK(contains(output.err, "/nowhere/libnvrtc.so.13"));
  CHECK(contains(output.err, "help: "));
  CHECK(run_moeplan("size -q -c configs/glm52.json", "", "MOEPLAN_NVRTC=/nowhere/libnvrtc.so.13").exit_code ==
        0);
}

TEST_CASE("planning commands never look for NVRTC or a driver") {
  for (const char* command :
       {"size", "audit", "launches", "capacity", "check", "sweep --axis capacity=512"}) {
    INFO(command);
    const Output output =
        run_moeplan(std::string(command) + " -q -c configs/glm52.json", "", "LD_DEBUG=files");
    REQUIRE(contains(output.err, "libc.so"));  // the loader does tell what it opens
    CHECK_FALSE(contains(output.err, "nvrtc"));
    CHECK_FALSE(contains(output.err, "libcuda"));
  }
}

TEST_CASE("every kernel of the first deployment builds without spills for sm_90 and sm_120") {
  if (!has_nvrtc()) return;
  const Output output =
      run_moeplan("compile -c configs/glm52.json --arch sm_90,sm_120 --no-cache --format json");
  REQUIRE(output.exit_code == 0);
  const Json report = Json::parse(output.out);
  CHECK(report["builds"] == true);
  CHECK(report["totals"]["spilling"] == 0);
  CHECK(report["totals"]["most_shared_bytes"] <= 101'376);
  for (const Json& row : report["kernels"]) {
    INFO(row.dump());
    CHECK(row["spill_bytes"] == 0);
    CHECK(row["blocks_per_sm"] >= 1);
    CHECK(row["cubin_sha256"].get<std::string>().size() == 64);
  }
}

TEST_CASE("a second run comes from the cache and prints the same bytes") {
  if (!has_nvrtc()) return;
  const TemporaryFolder folder;
  const std::string arguments = std::string(kCompileDecode) + "-v --format json";
  const Output first = run_moeplan(arguments, "", cache_in(folder));
  const Output second = run_moeplan(arguments, "", cache_in(folder));
  CHECK(first.exit_code == 0);
  CHECK(first.out == second.out);
  const std::string all = std::to_string(rows_of(first).size());
  CHECK(contains(first.err, "0 of " + all + " kernels from the cache"));
  CHECK(contains(second.err, all + " of " + all + " kernels from the cache"));
}

TEST_CASE("a kernel that does not compile answers no, with its name, line and the compiler's words") {
  if (!has_nvrtc()) return;
  KernelFolder kernels;
  kernels.replace("arena/fill.cu", "extern \"C\" __global__ void arena_fill() {\n\n  nonsense;\n}\n");
  const Output output = run_moeplan(std::string(kCompileDecode) + "--no-cache", "", kernels.environment());
  CHECK(output.exit_code == 1);
  CHECK(contains(output.out, "DOES NOT BUILD"));
  CHECK(contains(output.out, "kernels/arena/fill.cu(3)"));
  CHECK(contains(output.out, "nonsense"));
  const Json log =
      Json::parse(run_moeplan(std::string(kCompileDecode) + "--no-cache -o json", "", kernels.environment())
                      .out)["compiler_log"];
  CHECK(contains(log.dump(), "nonsense"));
  // The note names the folder: a forgotten variable must not look like the shipped kernels.
  CHECK(contains(output.out, "MOEPLAN_KERNEL_DIR"));
}

TEST_CASE(
    "a mistake in the config is told ahead of a missing compiler, and both as JSON where that is asked for") {
  const std::string none = "MOEPLAN_NVRTC=/nowhere/libnvrtc.so.13";
  CHECK(run_moeplan("compile -c /nowhere.json", "", none).exit_code == 3);
  const Output output = run_moeplan(std::string(kCompile) + "-o json", "", none);
  CHECK(output.exit_code == 4);
  CHECK(Json::parse(output.out)["errors"][0]["code"] == "no_nvrtc");
}

TEST_CASE("plans without kernels of ours are named in the verdict and as warnings") {
  if (!has_nvrtc()) return;
  const std::string mixed = "compile -c configs/glm52-mixed325.json --arch sm_120 --no-cache -q ";
  const Output output = run_moeplan(mixed);
  CHECK(output.exit_code == 0);
  CHECK(contains(output.out, "no kernels for "));
  CHECK(run_moeplan(mixed + "--fail-on warning").exit_code == 1);
}

TEST_CASE("the indexer's kernels are compiled for its plans, which --plan may name") {
  if (!has_nvrtc()) return;
  const Output all = run_moeplan(std::string(kCompile) + "--no-cache -o json");
  REQUIRE(all.exit_code == 0);
  CHECK_FALSE(contains(all.out, "no-kernels"));
  const auto plans_of = [](const Json& rows, std::string_view kernel) {
    std::vector<std::string> plans;
    for (const Json& row : rows)
      if (row["kernel"] == kernel) plans.push_back(row["plans"]);
    return plans;
  };
  const std::string both = "indexer decode, indexer prefill";
  CHECK(plans_of(rows_of(all), "indexer_score") == std::vector<std::string>{both, both, both, both, both});
  CHECK(plans_of(rows_of(all), "indexer_select") == std::vector<std::string>{both, both});
  CHECK(plans_of(rows_of(all), "indexer_gather") == std::vector<std::string>{"indexer prefill"});
  for (const char* kernel : {"indexer_split", "indexer_join"})
    CHECK(plans_of(rows_of(all), kernel) == std::vector<std::string>{"indexer decode"});

  const Output decode = run_moeplan(std::string(kCompile) + "--no-cache -o json --plan 'indexer decode'");
  REQUIRE(decode.exit_code == 0);
  CHECK(rows_of(decode).size() == 15);
  CHECK(plans_of(rows_of(decode), "indexer_gather").empty());
  const Output unknown = run_moeplan(std::string(kCompile) + "--plan 'indexer decoed'");
  CHECK(unknown.exit_code == 2);
  CHECK(contains(unknown.err, "did you mean \"indexer decode\"?"));
  // Commands about MoE plans alone do not know it.
  CHECK(run_moeplan("audit -c configs/glm52.json --plan 'indexer decode'").exit_code == 2);
}

TEST_CASE("an indexer plan that our kernels do not run says why") {
  if (!has_nvrtc()) return;
  const Output output = run_moeplan(std::string(kCompile) +
                                    "--no-cache --set /model/index_topk=700 --set /model/index_n_heads=32");
  CHECK(output.exit_code == 0);
  CHECK(contains(output.out, "no kernels for indexer decode, indexer prefill"));
  CHECK(contains(output.out,
                 "plan indexer decode is not compiled: this build's indexer kernels select 512, 1024 or 2048 "
                 "keys, not 700"));
}

namespace {

// What imports without --max-num-seqs and --max-model-len come to.
std::string without_indexer_fields() {
  Json config = Json::parse(read_source("configs/glm52.json"));
  config["deployment"].erase("max_num_seqs");
  config["deployment"].erase("max_model_len");
  return config.dump();
}

}  // namespace

TEST_CASE("an indexer that a config's fields do not suffice for is named in the verdict and as a warning") {
  if (!has_nvrtc()) return;
  const Output output = run_moeplan("compile -c - --arch sm_120", without_indexer_fields());
  CHECK(output.exit_code == 0);
  CHECK(contains(output.out.substr(0, output.out.find('\n')), " · indexer not planned"));
  CHECK(contains(output.out, "warning[indexer-not-planned] "));
  CHECK(contains(output.out, "max_num_seqs is not stated"));
  CHECK(contains(output.out, "max_model_len is not stated"));
  // Who asks for one plan hears of that one.
  CHECK_FALSE(contains(run_moeplan("compile -c - --arch sm_120 --plan decode", without_indexer_fields()).out,
                       "indexer"));
  const Output plan =
      run_moeplan("compile -c - --arch sm_120 --plan 'indexer decode'", without_indexer_fields());
  CHECK(plan.exit_code == 3);
  CHECK(plan.err.starts_with("error[missing_field]: --plan indexer decode: "));
  CHECK(contains(plan.err, "without max_num_seqs and max_model_len"));
}

TEST_CASE("an architecture named twice is compiled once") {
  if (!has_nvrtc()) return;
  const Output output = run_moeplan("compile -c configs/glm52.json --arch sm_120,sm_120 --no-cache -q");
  CHECK(contains(output.out, "BUILDS for sm_120 · 24 kernels"));
}

TEST_CASE("a question about a cache that is not there makes none") {
  const TemporaryFolder folder;
  for (const char* action : {"info", "verify", "clear"}) {
    const Output output = run_moeplan(std::string("cache ") + action, "", cache_in(folder));
    CHECK(output.exit_code == 0);
    CHECK(contains(output.out, "no cache is there yet"));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a kernel that spills registers answers no") {
  if (!has_nvrtc()) return;
  KernelFolder kernels;
  kernels.replace(
      "arena/fill.cu",
      "extern \"C\" __global__ void __maxnreg__(24) arena_fill(float* p) {\n"
      "  float live[64];\n"
      "  #pragma unroll\n  for (int i = 0; i < 64; ++i) live[i] = p[i * 1024 + threadIdx.x];\n"
      "  __syncthreads();\n"
      "  #pragma unroll\n  for (int i = 0; i < 64; ++i) p[i * 1024 + threadIdx.x] = live[i] * live[63 - i];\n"
      "}\n");
  const Output output =
      run_moeplan(std::string(kCompileDecode) + "--no-cache --format json", "", kernels.environment());
  CHECK(output.exit_code == 1);
  const Json report = Json::parse(output.out);
  CHECK(report["builds"] == false);
  CHECK(report["totals"]["spilling"] == 1);
  CHECK(contains(output.out, "\"rule\": \"spills\""));
  CHECK(contains(run_moeplan(std::string(kCompileDecode) + "--no-cache -q", "", kernels.environment()).out,
                 "SPILLS for sm_120"));
}

TEST_CASE("a kernel that takes more shared memory than the device has answers no, with both figures") {
  if (!has_nvrtc()) return;
  KernelFolder kernels;
  kernels.replace("arena/fill.cu",
                  "extern \"C\" __global__ void arena_fill(float* p) {\n"
                  "  __shared__ float values[10000];\n"
                  "  values[threadIdx.x] = p[threadIdx.x];\n  __syncthreads();\n"
                  "  p[threadIdx.x] = values[255 - threadIdx.x];\n}\n");
  const std::string limit = " --set /device/shared_memory_per_block_optin=";
  const Output fits = run_moeplan(std::string(kCompileDecode) + "--no-cache", "", kernels.environment());
  CHECK(fits.exit_code == 0);
  // The arena's own kernels take none: the limit meets the one that does.
  const TemporaryFolder folder;
  const std::string json = folder.path() + "/report.json";
  const Output output = run_moeplan(
      std::string(kCompileDecode) + "--no-cache -o table -o json='" + json + "'" + limit + "38000", "",
      kernels.environment());
  CHECK(output.exit_code == 1);
  CHECK(contains(output.out, "DOES NOT FIT"));
  CHECK(contains(output.out,
                 "40,000 B of shared memory a block, 38,000 B are to be had: the config's "
                 "shared_memory_per_block_optin\n  fix: a device with more\n"));
  CHECK(Json::parse(read_file(json))["findings"][0]["pointer"] == "/device/shared_memory_per_block_optin");
}

TEST_CASE("what cannot be answered is an error, never an empty success") {
  if (!has_nvrtc()) return;
  const Output unknown = run_moeplan("compile -c configs/glm52.json --arch sm_75");
  CHECK(unknown.exit_code == 2);
  CHECK(contains(unknown.err, "sm_120"));
  const Output old = run_moeplan("compile -c configs/glm52.json --set '/device/compute_capability=\"7.5\"'");
  CHECK(old.exit_code == 3);
  CHECK(contains(old.err, "--arch sm_80, sm_86, sm_89, sm_90, sm_100, sm_120 or sm_121"));
  const std::string plan =
      R"({"schema_version": 1, "contract": "sparkinfer-de04125", "plans": [)"
      R"({"id": "packed", "kind": "moe_tp", "device": {"sm_count": 188}, "weights": {"quant_mode": "w4a16",)"
      R"( "source_format": "compressed_tensors", "activation": "situ", "w13_layout": "w13",)"
      R"( "io_dtype": "bfloat16", "experts": 8, "hidden_size": 256, "intermediate_size": 128},)"
      R"( "capacity": {"max_tokens": 16, "top_k": 2}}]})";
  const Output none = run_moeplan("compile -c - --arch sm_120", plan);
  CHECK(none.exit_code == 3);
  CHECK(contains(none.err, "nothing to compile"));
  const Output unstated = run_moeplan("compile -c - --no-cache", plan);
  CHECK(unstated.exit_code == 3);
  CHECK(contains(unstated.err, "compute_capability"));
  CHECK(contains(unstated.err, "--arch"));
}

TEST_CASE("a cache that others can write to is not used and said so: asked about it, that is an error") {
  const TemporaryFolder folder;
  const std::string cache = folder.path() + "/cache";
  mkdir(cache.c_str(), 0700);
  chmod(cache.c_str(), 0777);
  const Output info = run_moeplan("cache info", "", cache_in(folder));
  CHECK(info.exit_code == 3);
  CHECK(info.err.starts_with("error[cache_refused]: "));
  CHECK(contains(info.err, "chmod 700"));
  if (!has_nvrtc()) return;
  const Output output = run_moeplan(kCompile, "", cache_in(folder));
  CHECK(output.exit_code == 0);
  CHECK(contains(output.err, "warning: kernels are not cached"));
  CHECK(std::filesystem::is_empty(cache));
}

TEST_CASE("a damaged entry is found by verify, said once by compile, and whole again behind it") {
  if (!has_nvrtc()) return;
  const TemporaryFolder folder;
  REQUIRE(run_moeplan(kCompileDecode, "", cache_in(folder)).exit_code == 0);
  const Output whole = run_moeplan("cache verify", "", cache_in(folder));
  CHECK(whole.exit_code == 0);
  CHECK(whole.out.ends_with(" entries as written, 0 damaged\n"));
  const Json entries =
      Json::parse(run_moeplan("cache info --format json", "", cache_in(folder)).out)["entries"];
  REQUIRE(!entries.empty());
  const std::string cubin = folder.path() + "/cache/" + entries[0]["id"].get<std::string>() + "/cubin";
  std::string bytes = read_file(cubin);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(cubin, std::ios::binary) << bytes;

  const Output verify = run_moeplan("cache verify", "", cache_in(folder));
  CHECK(verify.exit_code == 1);
  CHECK(contains(verify.out, "DAMAGED"));
  const Output output = run_moeplan(kCompileDecode, "", cache_in(folder));
  CHECK(output.exit_code == 0);
  CHECK(contains(output.err, entries[0]["id"].get<std::string>()));
  CHECK(run_moeplan("cache verify", "", cache_in(folder)).exit_code == 0);
  CHECK(run_moeplan(kCompileDecode, "", cache_in(folder)).err.empty());

  const Output clear = run_moeplan("cache clear", "", cache_in(folder));
  CHECK(clear.exit_code == 0);
  CHECK(contains(clear.out, "removed " + std::to_string(entries.size())));
  CHECK(contains(run_moeplan("cache info", "", cache_in(folder)).out, "0 entries"));
}

TEST_CASE("without a home the cache is a warning for compile and an error for itself") {
  const std::string none = "env -u HOME -u XDG_CACHE_HOME -u MOEPLAN_CACHE_DIR";
  CHECK(run_moeplan("cache info", "", none).exit_code == 3);
  CHECK(run_moeplan("cache info", "", "MOEPLAN_CACHE_DIR=relative").exit_code == 3);
  if (!has_nvrtc()) return;
  const Output output = run_moeplan(kCompile, "", none);
  CHECK(output.exit_code == 0);
  CHECK(contains(output.err, "warning: kernels are not cached"));
}
