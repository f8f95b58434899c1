// What surrounds the commands: completions, the manual page, help, version, devices, starter configs and
// mistyped words, run as a user runs them.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "runtime/validate/measurement.hpp"
#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/support.hpp"

using namespace moeplan::test;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Output of a shell command in the source tree, where $MOEPLAN is the binary.
Output run_shell(const std::string& command) {
  const TemporaryFolder folder;
  const std::string script = folder.write("script", command);
  return run_moeplan("--version >/dev/null; MOEPLAN='" MOEPLAN_BINARY "' bash '" + script + "'");
}

bool has_program(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
}

// The commands as the help lists them.
std::vector<std::string> commands() {
  std::vector<std::string> names;
  std::istringstream help(run_moeplan("--help").out);
  bool in_list = false;
  for (std::string line; std::getline(help, line);) {
    if (line.starts_with("Subcommands:")) {
      in_list = true;
    } else if (in_list && line.starts_with("  ")) {
      names.push_back(line.substr(2, line.find_first_of(" ,", 2) - 2));
    } else {
      in_list = false;
    }
  }
  return names;
}

// The flags of a command as its help lists them.
std::set<std::string> flags(const std::string& command) {
  std::set<std::string> found;
  std::istringstream help(run_moeplan(command + " --help").out);
  const std::regex flag("-{1,2}[A-Za-z][A-Za-z-]*");
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("  -")) continue;
    const std::string names = line.substr(2, line.find(' ', 2) - 2);
    for (std::sregex_iterator at(names.begin(), names.end(), flag), end; at != end; ++at)
      found.insert(at->str());
  }
  return found;
}

// What bash offers behind these words; the last one is being typed.
std::set<std::string> offered(const std::string& words) {
  const Output run = run_shell("source <(\"$MOEPLAN\" completions bash)\nCOMP_WORDS=(moeplan " + words +
                               ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_moeplan\n"
                               "printf '%s\\n' \"${COMPREPLY[@]}\"\n");
  INFO(run.err);
  CHECK(run.err.empty());
  std::set<std::string> words_offered;
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) words_offered.insert(line);
  }
  return words_offered;
}

// The source without its comments.
std::string code_of(const std::filesystem::path& file) {
  std::istringstream lines(read_file(file.string()));
  std::string code;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t comment = line.find("// ");
    code += line.substr(0, comment) + "\n";
  }
  return code;
}

// "launch-cold": words of findings, and other names.
bool has_hyphens(const std::string& literal) {
  static const std::regex hyphens("[a-z0-9]+(-[a-z0-9]+)+");
  return std::regex_match(literal, hyphens);
}

// A word of a finding without hyphens stands ahead of a level.
bool precedes_level(const std::string& code, std::size_t end) {
  const std::size_t next = code.find_first_not_of(", \n", end);
  if (next == end || next == std::string::npos) return false;
  for (const char* level : {"\"error\"", "\"warning\"", "\"note\""})
    if (code.compare(next, std::strlen(level), level) == 0) return true;
  return false;
}

// Literals that look like words of findings: levels, then formats, models and other names.
const std::set<std::string> kOtherNames = {"moeplan-lean-1",
                                           "all",
                                           "off",
                                           "line",
                                           "note",
                                           "warning",
                                           "error",
                                           "1e-9",
                                           "compressed-tensors",
                                           "compute-sanitizer",
                                           "deepseek-r1",
                                           "deepseek-v2",
                                           "deepseek-v3",
                                           "exit-codes",
                                           "exl3-trellis",
                                           "float-quantized",
                                           "glm-5",
                                           "grok-1",
                                           "kimi-k2",
                                           "nvfp4-pack-quantized",
                                           "one-grid",
                                           "pack-quantized",
                                           "top-k",
                                           "two-level",
                                           "vllm-openai",
                                           "x-provenance"};

// What the sources name findings. A literal with hyphens is one, unless it is known to be something else.
std::set<std::string> words_of_findings() {
  const std::filesystem::path root = MOEPLAN_SOURCE_DIR;
  std::set<std::string> others = kOtherNames;
  for (const moeplan::Contract& contract : moeplan::contracts()) others.emplace(contract.id);
  for (const char* shipped : {"configs/models", "configs/devices"})
    for (const auto& file : std::filesystem::directory_iterator(root / shipped))
      others.insert(file.path().stem().string());

  std::set<std::string> words;
  for (const char* folder : {"cli", "planner", "runtime"}) {
    for (const auto& file : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string extension = file.path().extension().string();
      const bool is_list = file.path().filename() == "word_meanings.cpp";
      if (is_list || (extension != ".cpp" && extension != ".hpp")) continue;
      const std::string code = code_of(file.path());
      std::size_t open = 0;
      for (std::size_t close; (open = code.find('"', open)) != std::string::npos; open = close + 1) {
        close = code.find_first_of("\"\n", open + 1);
        if (close == std::string::npos) break;
        const std::string literal = code.substr(open + 1, close - open - 1);
        const bool is_plain = literal.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == std::string::npos;
        const bool is_named = is_plain && (precedes_level(code, close + 1) ||
                                           std::string_view(code).substr(0, open).ends_with("finding_of("));
        if ((is_named || has_hyphens(literal)) && !others.contains(literal)) words.insert(literal);
      }
    }
  }
  return words;
}

}  // namespace

TEST_CASE("bash completes every command and every option that the help lists") {
  const auto names = commands();
  REQUIRE(names.size() >= 13);
  CHECK(offered("''") == std::set<std::string>(names.begin(), names.end()));
  for (const std::string& command : names) {
    INFO(command);
    const auto listed = flags(command);
    CHECK(listed.count("--help") == 1);
    CHECK(offered(command + " -") == listed);
  }
}

TEST_CASE("bash completes choices, files and names") {
  CHECK(offered("size --format 'j'") == std::set<std::string>{"json", "jsonl", "junit"});
  CHECK(offered("size --contract b12x") == std::set<std::string>{"b12x-36bce2c"});
  CHECK(offered("size -c configs/glm52.j") == std::set<std::string>{"configs/glm52.json"});
  CHECK(offered("completions ''") == std::set<std::string>{"bash", "fish", "zsh"});
  CHECK(offered("init glm-5") == std::set<std::string>{"glm-5.2"});
  CHECK(offered("init glm-5.2 --device h100") == std::set<std::string>{"h100-sxm"});
  CHECK(offered("explain pre") == std::set<std::string>{"prefill"});
  CHECK(offered("help exit") == std::set<std::string>{"exit-codes"});
  CHECK(offered("si") == std::set<std::string>{"size"});
}

TEST_CASE("zsh and fish parse their completions, where they are installed") {
  for (const auto& [shell, check] : {std::pair<std::string, std::string>{"zsh", "zsh -n"},
                                     {"fish", "fish --no-execute"},
                                     {"bash", "bash -n"}}) {
    const Output script = run_moeplan("completions " + shell);
    CHECK(script.exit_code == 0);
    for (const std::string& command : commands()) CHECK(contains(script.out, command));
    CHECK(contains(script.out, "max-num") == false);
    if (!has_program(shell)) {
      WARN(shell << " is not installed: the syntax of its completions was not checked");
      continue;
    }
    const TemporaryFolder folder;
    const std::string file = folder.write("script", script.out);
    CHECK(std::system((check + " '" + file + "'").c_str()) == 0);
  }
}

TEST_CASE("the manual page has every command and option, and no warning") {
  const Output page = run_moeplan("man");
  CHECK(page.exit_code == 0);
  CHECK(page.out.starts_with(".TH MOEPLAN 1"));
  std::string plain = page.out;
  for (std::size_t at; (at = plain.find("\\-")) != std::string::npos;) plain.erase(at, 1);
  for (const std::string& command : commands()) {
    CHECK(contains(plain, ".SS moeplan " + command + "\n"));
    for (const std::string& flag : flags(command)) CHECK(contains(plain, "\\fB" + flag + "\\fR"));
  }
  CHECK(contains(plain, ".SH EXIT STATUS"));
  if (!has_program("groff")) {
    WARN("groff is not installed: the manual page was not formatted");
    return;
  }
  const TemporaryFolder folder;
  const std::string file = folder.write("moeplan.1", page.out), err = folder.path() + "/err";
  CHECK(std::system(("groff -man -ww -z '" + file + "' 2>'" + err + "'").c_str()) == 0);
  CHECK(read_file(err) == "");
}

TEST_CASE("a starter config for every shipped model passes size at once or says what to state") {
  int passed = 0, told = 0;
  for (const std::string& model : offered("init ''")) {
    if (model.starts_with("-")) continue;
    const Output made = run_moeplan("init " + model + " --tp 2");
    INFO(model << "\n" << made.err);
    CHECK(made.exit_code == 0);
    const Json config = Json::parse(made.out);
    CHECK(config["name"] == model);
    CHECK(contains(config["x-provenance"]["/deployment/max_model_len"], "starter value"));
    CHECK(config["x-provenance"]["/parallel/tp"] == "--tp");
    const int code = run_moeplan("size -c -", made.out).exit_code;
    CHECK(code == (made.err.empty() ? 0 : 3));
    ++(code == 0 ? passed : told);
    if (code != 0) CHECK(contains(made.err, "moeplan size will refuse it at /"));
  }
  CHECK(passed >= 10);
  CHECK(told >= 2);
}

TEST_CASE("init takes what it is told, and names what it does not know") {
  const Json config = Json::parse(
      run_moeplan("init glm-5.2 --tp 8 --device h200-sxm --bits 4 --name mine --contract b12x-36bce2c "
                  "--set /deployment/max_num_seqs=3")
          .out);
  CHECK(config["device"]["sm_count"] == 132);
  CHECK(config["parallel"]["tp"] == 8);
  CHECK(config["quant"]["bits"] == 4);
  CHECK(config["name"] == "mine");
  CHECK(config["contract"] == "b12x-36bce2c");
  CHECK(config["deployment"]["max_num_seqs"] == 3);
  const Output model = run_moeplan("init glm-5.22");
  CHECK(model.exit_code == 3);
  CHECK(contains(model.err, "did you mean glm-5.2?"));
  const Output other = run_moeplan("init mixtral-8x7b --quant nvfp4");
  CHECK(other.exit_code == 0);
  CHECK(contains(other.err, "state the plans themselves"));
}

TEST_CASE("init overwrites a file only with --force") {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/new.json";
  const std::string command = "init glm-5.2 --tp 4 --out '" + file + "'";
  CHECK(run_moeplan(command).exit_code == 0);
  const std::string written = read_file(file);
  CHECK(written == run_moeplan("init glm-5.2 --tp 4").out);
  const Output again = run_moeplan(command + " --bits 4");
  CHECK(again.exit_code == 3);
  CHECK(contains(again.err, "--force overwrites it"));
  CHECK(read_file(file) == written);
  CHECK(run_moeplan(command + " --bits 4 --force").exit_code == 0);
  CHECK(read_file(file) != written);
  CHECK(run_moeplan("init glm-5.2 --out /nowhere/x.json").exit_code == 3);
}

TEST_CASE("help explains topics and commands, and lists what there is") {
  const Output list = run_moeplan("help");
  CHECK(list.exit_code == 0);
  for (const char* topic : {"exit-codes", "errors", "contracts", "blocks", "env", "padding", "units"}) {
    CHECK(contains(list.out, topic));
    const Output text = run_moeplan(std::string("help ") + topic);
    CHECK(text.exit_code == 0);
    CHECK(text.out.size() > 100);
  }
  CHECK(contains(run_moeplan("help contracts").out, "b12x-36bce2c"));
  CHECK(contains(run_moeplan("help env").out, "VLLM_EXL3_PREFILL_CAPACITY"));
  CHECK(contains(run_moeplan("help size").out, "Usage: moeplan size"));
  const Output near = run_moeplan("help contrats");
  CHECK(near.exit_code == 2);
  CHECK(contains(near.err, "did you mean \"contracts\"?"));
}

TEST_CASE("help lists every word that stands in brackets ahead of a finding, and no other") {
  std::set<std::string> words = words_of_findings();
  CHECK(words.contains("indexer-late-allocation"));
  CHECK(words.contains("exl3-decode-order"));
  CHECK(words.contains("launch-cold"));
  CHECK(words.contains("not-timed"));
  CHECK(words.contains("unsound"));
  CHECK(words.contains("spills"));
  // Words without hyphens that no level stands behind.
  words.insert({"refused", "verdict"});
  for (const std::string_view check : moeplan::kValidationChecks) words.emplace(check);
  std::set<std::string> listed;
  std::istringstream lines(run_moeplan("help findings").out);
  for (std::string line; std::getline(lines, line);) listed.insert(line.substr(2, line.find(": ") - 2));
  CHECK(listed == words);
}

TEST_CASE("help explains words of errors, findings and rules") {
  for (const char* word : {"no_device", "not-timed", "exl3-decode-order", "MP010"}) {
    const Output help = run_moeplan(std::string("help ") + word);
    INFO(word);
    CHECK(help.exit_code == 0);
    CHECK(help.out.starts_with(std::string(word) + ": "));
  }
}

TEST_CASE("a record of validate or bench is made anew by the words that ./dev evidence takes out of it") {
  const Output output = run_shell(R"sh(
eval "$(sed -n '/^recorded_words()/,/^}/p' dev)"
for file in tests/gpu/evidence/*.json; do
  quoted=$(recorded_words "$file")
  case $file in */validate_*|*/bench_*) ;; *) [ -z "$quoted" ] || echo "$file: $quoted"; continue ;; esac
  mapfile -d '' -t words < <(xargs printf '%s\0' <<<"$quoted")
  case ${words[0]} in validate|bench) ;; *) echo "$file: $quoted" ;; esac
  [ "${words[-2]} ${words[-1]}" = "--evidence $file" ] || echo "$file: $quoted"
done
file=$(mktemp)
printf '  "command": "moeplan bench indexer --set '"'"'/a b=\\"c\\"'"'"' --evidence x.json",\n' >"$file"
recorded_words "$file"
rm "$file"
)sh");
  CHECK(output.exit_code == 0);
  CHECK(output.out == "bench indexer --set '/a b=\"c\"' --evidence x.json\n");
  CHECK(output.err == "");
}

TEST_CASE("version -v names the commit, the tree's state, and every schema of an answer") {
  const std::string text = run_moeplan("--version -v").out;
  CHECK(text == run_moeplan("version -v").out);
  CHECK(std::regex_search(text, std::regex("git +([0-9a-f]{12}|unknown)\n")));
  CHECK(std::regex_search(text, std::regex("tree +(clean|dirty|not a checkout)")));
  CHECK(std::regex_search(text, std::regex("cuda +(none: |runtime [0-9]+\\.[0-9]+, linked in\n)")));
  CHECK(std::regex_search(text, std::regex("nvrtc +(none here: |[0-9]+\\.[0-9]+, /)")));
  const std::pair<const char*, const char*> answers[] = {{"size -c configs/glm52.json", ""},
                                                         {"explain total -c configs/glm52.json", ""},
                                                         {"capacity -c configs/glm52.json", ""},
                                                         {"devices", ""},
                                                         {"size -c -", "{"}};
  for (const auto& [command, input] : answers) {
    const Json answer = Json::parse(run_moeplan(std::string(command) + " --format json", input).out);
    INFO(command);
    CHECK(contains(text, answer["schema"].get<std::string>()));
  }
}

TEST_CASE("devices lists what is shipped, and --probe exits 4 with the reason where there is no GPU") {
  const Json report = Json::parse(run_moeplan("devices --format json").out);
  CHECK(report["devices"].size() == 10);
  CHECK(report["devices"].back()["name"] == "rtx-pro-6000-blackwell");
  CHECK(report["devices"].back()["sm_count"] == 188);
  const Output probed = run_moeplan("devices --probe");
  if (probed.exit_code == 0) {
    CHECK(contains(probed.out, "this machine"));
  } else {
    CHECK(probed.exit_code == 4);
    CHECK(probed.err.starts_with("error[no_device]: "));
  }
}

TEST_CASE("a mistyped command or option is told what was meant") {
  const std::tuple<const char*, const char*> cases[] = {
      {"siez -c configs/glm52.json", "did you mean size?"},
      {"size --confg configs/glm52.json", "did you mean --config?"},
      {"size --confg=configs/glm52.json", "did you mean --config?"},
      {"size -c configs/glm52.json --fromat json", "did you mean --format?"},
      {"capacity -c configs/glm52.json --prob", "did you mean --probe?"},
      {"--verison", "did you mean --version?"},
      {"size -c configs/glm52.json --qqqqqqqqqq", "moeplan size --help lists them"},
      {"zzzzzzzzzz", "moeplan --help lists them"}};
  for (const auto& [command, help] : cases) {
    const Output run = run_moeplan(command);
    INFO(command << "\n" << run.err);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK(contains(run.err, help));
  }
}

TEST_CASE("where a config is missing, one that works is named") {
  const Output none = run_moeplan("size");
  CHECK(none.exit_code == 2);
  CHECK(contains(none.err, "moeplan size -c configs/glm52.json"));
  const Output absent = run_moeplan("size -c nowhere.json");
  CHECK(absent.exit_code == 3);
  CHECK(contains(absent.err, "configs/glm52.json"));
}

TEST_CASE("moeplan alone prints its help on stderr and exits 2") {
  const Output run = run_moeplan("");
  CHECK(run.exit_code == 2);
  CHECK(run.out.empty());
  CHECK(contains(run.err, "Subcommands:"));
}
