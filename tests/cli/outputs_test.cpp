// Where and how commands print, as a user runs them: several outputs at once, files, findings shown and
// failed on, colour, and readers that go away.
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "planner/core/text.hpp"
#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

// Each command that answers with reports, where it answers yes, no, and not at all.
struct Case {
  const char* arguments;
  int exit_code;
};

constexpr Case kCases[] = {
    {"size -c configs/glm52.json", 0},
    {"size -c configs/glm52.json -c configs/glm52-mixed325.json", 0},
    {"size -c configs/glm52.json -c /nowhere.json", 3},
    {"size -c configs/glm52.json --set /parallel/tp=6", 3},
    {"explain indexer --step -c configs/glm52.json", 0},
    {"capacity -c configs/glm52-mixed325.json", 0},
    {"capacity -c configs/glm52.json --set '/measured/available_kv=1 MiB'", 1},
    {"reconcile tests/golden/logs/glm52_exl3_325_tp4_dcp4_mtp3_cap1024.log", 0},
    {"reconcile tests/golden/logs/glm52_exl3_325_tp4_dcp4_mtp3_cap1024.log --set /parallel/dcp=2", 1},
    {"reconcile /nowhere.log", 3},
};

constexpr const char* kFormats[] = {"table",    "json",  "jsonl", "csv",   "tsv",
                                    "markdown", "junit", "sarif", "github"};

std::string glm52_with(const char* pointer, const Json& value) {
  Json config = Json::parse(read_source("configs/glm52.json"));
  config[Json::json_pointer(pointer)] = value;
  return config.dump(2);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace

TEST_CASE("no format, alone or with all others at once, changes an exit code or another's bytes") {
  for (const Case& c : kCases) {
    const TemporaryFolder folder;
    std::string all = std::string(c.arguments) + " -o table";
    for (const char* format : kFormats) {
      if (std::string_view(format) != "table") all += concat(" -o ", format, "=", folder.path(), "/", format);
    }
    const Output together = run_moeplan(all);
    INFO(all << "\n" << together.err);
    CHECK(together.exit_code == c.exit_code);
    for (const char* format : kFormats) {
      const Output alone = run_moeplan(concat(c.arguments, " -o ", format));
      INFO(format);
      CHECK(alone.exit_code == c.exit_code);
      CHECK(alone.out == run_moeplan(concat(c.arguments, " --format ", format)).out);
      // Where only tables were asked for and nothing was answered, a file is there, and empty.
      const std::string written =
          std::string_view(format) == "table" ? together.out : read_file(concat(folder.path(), "/", format));
      if (!alone.out.empty()) CHECK(written == alone.out);
    }
  }
}

TEST_CASE("mistakes reach standard error unless a format on standard output tells them") {
  const char* wrong = "size -c configs/glm52.json --set /parallel/tp=6 -o ";
  CHECK(contains(run_moeplan(concat(wrong, "table")).err, "error[indivisible]"));
  CHECK(contains(run_moeplan(concat(wrong, "sarif=/dev/null")).err, "error[indivisible]"));
  CHECK(contains(run_moeplan(concat(wrong, "sarif=/dev/null -o csv")).err, "error[indivisible]"));
  for (const char* format : {"json", "jsonl", "markdown", "junit", "sarif", "github"}) {
    const Output run = run_moeplan(concat(wrong, format));
    CHECK(run.err.empty());
    CHECK(contains(run.out, format == std::string_view("markdown") ? "indivisible" : "got 2048 / 6"));
  }
}

TEST_CASE("outputs that cannot be written together are a wrong command line") {
  for (const char* outputs :
       {"-o json -o csv", "-o json -o json", "--format json -o csv", "-o json=- -o table",
        "-o json=/dev/stdout -o table", "-o json=/tmp/x.json -o csv=/tmp/x.json",
        "-o json=/tmp/x -o csv+=/tmp/../tmp/x", "-o pdf", "-o jsno", "-o json=", "-o json+=", "-o =x", "-o",
        "--show most", "--fail-on all", "--units KB"}) {
    const Output run = run_moeplan(concat("size -c configs/glm52.json ", outputs));
    INFO(outputs << run.err);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK(contains(run.err, "error[usage]"));
  }
  CHECK(contains(run_moeplan("size -c configs/glm52.json -o jsno").err, "did you mean json"));
}

TEST_CASE("an output takes one word: what follows is still an argument") {
  const Output run =
      run_moeplan("reconcile -o junit tests/golden/logs/glm52_exl3_325_tp4_dcp4_mtp3_cap1024.log");
  CHECK(run.exit_code == 0);
  CHECK(contains(run.out, "<testsuite name=\"tests/golden/logs/"));
}

TEST_CASE("a link to a file that is not there yet stays a link, and one that ends nowhere is refused") {
  const TemporaryFolder folder;
  const std::string base = folder.path() + "/";
  std::filesystem::create_directory(base + "there");
  std::filesystem::create_symlink("there/plan.json", base + "first");
  std::filesystem::create_symlink("first", base + "link");
  std::filesystem::create_symlink("gone/plan.json", base + "nowhere");
  std::filesystem::create_symlink("circle", base + "circle");
  const std::string size = "size -c configs/glm52.json -q -o table=";
  CHECK(run_moeplan(concat(size, base, "link")).exit_code == 0);
  CHECK(std::filesystem::is_symlink(base + "link"));
  CHECK(std::filesystem::is_symlink(base + "first"));
  CHECK(read_file(base + "there/plan.json").starts_with("glm52: 1,150,998,080 B"));
  for (const char* name : {"nowhere", "circle"}) {
    const Output run = run_moeplan(concat(size, base, name));
    CHECK(run.exit_code == 3);
    CHECK(contains(run.err, "error[unwritable]"));
    CHECK(contains(run.err, name));
    CHECK(std::filesystem::is_symlink(base + name));
  }
}

TEST_CASE("an option with nothing behind its = does not take the next word") {
  for (const char* arguments :
       {"validate -c configs/glm52.json --evidence= --if-available",
        "size -c configs/glm52.json --contract= -q", "import -q vllm --device= -- vllm"}) {
    INFO(arguments);
    const Output run = run_moeplan(arguments);
    CHECK(run.exit_code == 2);
    CHECK(contains(run.err, "= has no value"));
    CHECK(contains(run.err, "help: give one behind the =, or leave --"));
  }
  // What stands behind -- is another program's.
  CHECK(!contains(run_moeplan("import -q vllm -- vllm serve --served-model-name=").err, "has no value"));
}

TEST_CASE("an input that cannot be read decides the exit code, whichever comes last") {
  for (const char* configs :
       {"-c configs/glm52.json -c /nowhere.json", "-c /nowhere.json -c configs/glm52.json"})
    CHECK(run_moeplan(concat("compile --plan nothing ", configs)).exit_code == 3);
  CHECK(run_moeplan("compile --plan nothing -c configs/glm52.json").exit_code == 2);
}

TEST_CASE("a file is replaced whole, appended to, and keeps its rights and its link") {
  const TemporaryFolder folder;
  const std::string file = folder.write("plan.json", "old");
  const std::string link = folder.path() + "/link";
  std::filesystem::create_symlink(file, link);
  chmod(file.c_str(), 0604);
  const std::string size = "size -c configs/glm52.json -q -o table";
  CHECK(run_moeplan(concat(size, "=", link)).exit_code == 0);
  const std::string once = read_file(file);
  CHECK(once.starts_with("glm52: 1,150,998,080 B"));
  CHECK(std::filesystem::is_symlink(link));
  struct stat status {};
  stat(file.c_str(), &status);
  CHECK((status.st_mode & 0777) == 0604);
  CHECK(run_moeplan(concat(size, "+=", file)).exit_code == 0);
  CHECK(read_file(file) == once + once);
  CHECK(run_moeplan(concat(size, "+=", folder.path(), "/new")).exit_code == 0);
  CHECK(read_file(folder.path() + "/new") == once);
  CHECK(files_in(folder.path()) == std::vector<std::string>{"link", "new", "plan.json"});
}

TEST_CASE("a file that is cut short is not kept, and the old one stays") {
  const TemporaryFolder folder;
  const std::string file = folder.write("plan.json", "old");
  const Output run = run_moeplan("version >/dev/null; (trap '' XFSZ; ulimit -f 1; '" MOEPLAN_BINARY
                                 "' size -c configs/glm52.json -o json=" +
                                 file + ")");
  CHECK(run.exit_code == 3);
  CHECK(contains(run.err, "File too large"));
  CHECK(read_file(file) == "old");
  CHECK(files_in(folder.path()) == std::vector<std::string>{"plan.json"});
}

TEST_CASE("a stream is written as one, even where it stands for a file") {
  const TemporaryFolder folder;
  const std::string err = folder.path() + "/err";
  run_moeplan("version >/dev/null; ((echo before; '" MOEPLAN_BINARY
              "' size -q -c configs/glm52.json -o table=/dev/stderr; echo behind) 2>>" +
              err + " >&2)");
  const std::string text = read_file(err);
  CHECK(text.starts_with("before\nglm52: "));
  CHECK(text.ends_with("\nbehind\n"));
}

TEST_CASE("arguments that steer a terminal are escaped in complaints about them") {
  const Output run = run_moeplan("size -c configs/glm52.json -o \"$(printf 'a\\033[31m\\n::error::x')\"");
  CHECK(run.exit_code == 2);
  CHECK(contains(run.err, "\\x1b[31m\\x0a::error"));
}

TEST_CASE("a new file has the rights that the mask leaves") {
  const TemporaryFolder folder;
  run_moeplan("version; umask 027; '" MOEPLAN_BINARY "' size -c configs/glm52.json -o csv=" + folder.path() +
              "/a");
  struct stat status {};
  stat((folder.path() + "/a").c_str(), &status);
  CHECK((status.st_mode & 0777) == 0640);
}

TEST_CASE(
    "a file that cannot be written is named with a remedy, leaves no remains, and stops no other output") {
  const TemporaryFolder folder;
  const Output run =
      run_moeplan(concat("size -q -c configs/glm52.json -o table -o json=", folder.path(),
                         "/none/a.json -o csv=/dev/full -o jsonl=", folder.path(), "/b.jsonl"));
  CHECK(run.exit_code == 3);
  CHECK(run.out.starts_with("glm52: "));
  CHECK(contains(run.err, concat("error[unwritable]: cannot write ", folder.path(),
                                 "/none/a.json: No such file or directory\n  help: make its folder first")));
  CHECK(contains(run.err, "cannot write /dev/full: No space left on device\n  help: free some space"));
  CHECK(files_in(folder.path()) == std::vector<std::string>{"b.jsonl"});
  CHECK(std::filesystem::is_character_file("/dev/full"));
  CHECK(run_moeplan("size -q -c configs/glm52.json -o tsv+=/dev/full").exit_code == 3);
  const Output into_folder = run_moeplan(concat("size -q -c configs/glm52.json -o json=", folder.path()));
  CHECK(into_folder.exit_code == 3);
  CHECK(contains(into_folder.err, "Is a directory"));
}

TEST_CASE("a reader that goes away ends the process without a word, whether or not its signal is ignored") {
  const std::string size = "'" MOEPLAN_BINARY "' size -c configs/glm52.json -o json";
  // The reader is gone before anything is written.
  const std::string closed = "{ sleep 0.2; " + size + "; echo $? >&2; } | true";
  CHECK(run_moeplan("version >/dev/null; (" + closed + ")").err == "141\n");
  CHECK(run_moeplan("version >/dev/null; (trap '' PIPE; " + closed + ")").err == "141\n");
}

TEST_CASE(
    "what is shown and what fails are independent: --show filters, --fail-on decides, --exit-zero forgives") {
  // The GLM-5.2 config has one note and two warnings.
  const char* size = "size -c configs/glm52.json --format json ";
  const auto levels = [&](const char* options) {
    std::string shown;
    const Json report = Json::parse(run_moeplan(concat(size, options)).out);
    for (const Json& finding : report["findings"]) shown += finding["level"].get<std::string>()[0];
    return shown;
  };
  CHECK(levels("") == "nww");
  CHECK(levels("--show all") == "nww");
  CHECK(levels("--show note") == "nww");
  CHECK(levels("--show warning") == "ww");
  CHECK(levels("--show error") == "");
  const std::pair<const char*, int> kExits[] = {{"", 0},
                                                {"--fail-on never", 0},
                                                {"--fail-on error", 0},
                                                {"--fail-on warning", 1},
                                                {"--fail-on note", 1},
                                                {"--fail-on warning --show error", 1},
                                                {"--fail-on warning --exit-zero", 0},
                                                {"--fail-on note --set /parallel/tp=6", 3},
                                                {"--exit-zero --set /parallel/tp=6", 3}};
  for (const auto& [options, exit_code] : kExits) {
    INFO(options);
    CHECK(run_moeplan(concat(size, options)).exit_code == exit_code);
  }
  const std::string no = "capacity -c configs/glm52.json --set '/measured/available_kv=1 MiB' ";
  CHECK(run_moeplan(no).exit_code == 1);
  CHECK(run_moeplan(no + "--fail-on never").exit_code == 1);
  CHECK(run_moeplan(no + "--exit-zero").exit_code == 0);
}

TEST_CASE("findings stand at the line of their field, or of its nearest parent in the file") {
  const std::string config = glm52_with("/deployment/env/B12X_FUSED_INDEXER", "1");
  const auto places = [&](const std::string& options) {
    std::vector<std::string> found;
    const Json report = Json::parse(run_moeplan("size -c - --format json " + options, config).out);
    for (const Json& f : report["findings"]) {
      // The place is where the key of the last word that the file has starts.
      i64 line = 1;
      std::size_t at = 0;
      for (; line < f["line"]; ++line) at = config.find('\n', at) + 1;
      const std::string rest = config.substr(at + f["column"].get<std::size_t>() - 1);
      found.push_back(rest.substr(0, rest.find(':')));
    }
    return found;
  };
  CHECK(places("") == std::vector<std::string>{"\"deployment\"", "\"max_model_len\"", "\"max_model_len\"",
                                               "\"B12X_FUSED_INDEXER\""});
  CHECK(places("--set /deployment/max_model_len=65536 --set /deployment/env/B12X_X=1") ==
        std::vector<std::string>{"\"deployment\"", "\"deployment\"", "\"deployment\"",
                                 "\"B12X_FUSED_INDEXER\"", "\"env\""});
  // Nothing of the file is left above it: line 1.
  const Json report = Json::parse(run_moeplan("capacity -c configs/glm52.json --format json --set "
                                              "/measured/kv_tokens=1 --set '/measured/available_kv=9 GiB'")
                                      .out);
  CHECK(report["findings"].size() > 0);
  for (const Json& f : report["findings"]) {
    if (!f["pointer"].get<std::string>().starts_with("/measured")) continue;
    CHECK(f["line"] == 1);
    CHECK(f["column"] == 1);
  }
}

TEST_CASE("a summary is appended within what the runner takes of it") {
  const TemporaryFolder folder;
  const std::string summary = folder.write("summary", std::string((1 << 20) - 3000, '\n'));
  const std::string size = "size -c configs/glm52.json -o markdown+=" + summary;
  CHECK(run_moeplan(size).exit_code == 0);
  CHECK(std::filesystem::file_size(summary) <= 1 << 20);
  CHECK(contains(read_file(summary), "are left out: a job summary holds at most 1048576 bytes."));
  for (int i = 0; i < 30; ++i) CHECK(run_moeplan(size).exit_code == 0);
  CHECK(std::filesystem::file_size(summary) <= 1 << 20);
  CHECK(contains(run_moeplan(size).err, "warning: nothing was added to " + summary));
}

TEST_CASE("colour is for tables on standard output alone, and no option or variable reaches another format") {
  const std::string force =
      "version >/dev/null; CLICOLOR_FORCE=1 '" MOEPLAN_BINARY "' size -c configs/glm52.json ";
  CHECK(contains(run_moeplan(force).out, "\x1b[1mglm52"));
  CHECK(!contains(run_moeplan(force + "--no-color").out, "\x1b"));
  CHECK(!contains(run_moeplan("version >/dev/null; NO_COLOR=1 " + force.substr(force.find("CLI"))).out,
                  "\x1b"));
  CHECK(!contains(run_moeplan("size -c configs/glm52.json").out, "\x1b"));
  const TemporaryFolder folder;
  run_moeplan(force + "-o table=" + folder.path() + "/t");
  CHECK(!contains(read_file(folder.path() + "/t"), "\x1b"));
  for (const char* format : kFormats) {
    if (std::string_view(format) != "table")
      CHECK(!contains(run_moeplan(force + "-o " + format).out, "\x1b"));
  }
}

TEST_CASE("units change tables and nothing else") {
  CHECK(contains(run_moeplan("size -c configs/glm52.json --units GiB").out, "1.03"));
  CHECK(contains(run_moeplan("size -c configs/glm52.json --units auto").out, "1.03 GiB"));
  CHECK(!contains(run_moeplan("size -c configs/glm52.json --units bytes").out, "MiB\n"));
  for (const char* format : {"json", "csv", "markdown"})
    CHECK(run_moeplan(concat("size -c configs/glm52.json --units GiB -o ", format)).out ==
          run_moeplan(concat("size -c configs/glm52.json -o ", format)).out);
}

TEST_CASE("every published schema is the one that this build prints") {
  for (const char* name : {"config", "plan", "explain", "capacity", "reconcile", "reports", "errors"}) {
    INFO(name);
    CHECK(run_moeplan(concat("schema ", name)).out ==
          read_source(concat("configs/schema/moeplan.", name, ".v1.schema.json")));
  }
  CHECK(run_moeplan("schema").out == run_moeplan("schema config").out);
  CHECK(run_moeplan("schema plans").exit_code == 2);
}

TEST_CASE("flags and env print the engine's settings alone, as a shell takes them") {
  const std::string config = "size -c configs/glm52.json ";
  const std::string flags = run_moeplan(config + "-o flags").out;
  CHECK(flags.find("--max-num-batched-tokens 3072\n") != std::string::npos);
  CHECK(flags.find("--gpu-memory-utilization 0.92\n") != std::string::npos);
  CHECK(flags.find("--tensor-parallel-size 4\n") != std::string::npos);
  CHECK(run_moeplan(config + "-o env --set '/deployment/env/VLLM_EXL3_EXT_PATH=/a b/it'\\''s'").out ==
        "VLLM_EXL3_TRELLIS_MAX_M=64\nVLLM_EXL3_TRELLIS_BLOCK_M=8\nVLLM_EXL3_PREFILL_BLOCK_M=64\n"
        "VLLM_EXL3_EXT_PATH='/a b/it'\\''s'\n");
}

TEST_CASE("option --explain-config says where every field came from") {
  const std::string text =
      run_moeplan("size -c configs/glm52.json --explain-config --set /deployment/max_num_seqs=9").out;
  CHECK(text.starts_with("configs/glm52.json: "));
  CHECK(text.find("configs/glm52.json:50") != std::string::npos);
  CHECK(text.find("--set") != std::string::npos);
  CHECK(text.find("/deployment/env/VLLM_EXL3_PREFILL_CHUNK") != std::string::npos);
  CHECK(text.find("the engine's default") != std::string::npos);
}

TEST_CASE("gate is check by another name, and logs can be JSON") {
  CHECK(run_moeplan("gate -q -c configs/glm52.json").out ==
        run_moeplan("check -q -c configs/glm52.json").out);
  const std::string log = run_moeplan("size -q -v --log-format json -c configs/glm52.json").err;
  CHECK(log.starts_with("{\"level\":\"info\",\"message\":\"read configs/glm52.json"));
}
