// The CI action: its script hands its inputs to `moeplan check` as they are, and its description matches it.
#include <sstream>

#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/support.hpp"

using namespace moeplan::test;

namespace {

const std::string kAction = MOEPLAN_SOURCE_DIR "/.github/actions/moeplan/";

struct Ran {
  int exit_code;
  std::vector<std::string> arguments;  // that moeplan was called with
  std::string err;
};

// Runs the script in a folder with a/one.json, a/two.json and "b c.json", over a moeplan that exits with 7.
Ran run_action(const std::string& config, const std::string& policy = "", const std::string& baseline = "",
               const std::string& summary = "") {
  const TemporaryFolder folder;
  REQUIRE(std::system(("mkdir '" + folder.path() + "/a'").c_str()) == 0);
  for (const char* name : {"a/one.json", "a/two.json", "b c.json"}) folder.write(name, "{}");
  folder.write("moeplan", "#!/bin/sh\nfor word; do printf '%s\\n' \"$word\"; done >called\nexit 7\n");
  const auto variable = [&](const std::string& name, const std::string& value) {
    folder.write(name, value);
    return "export " + name + "=\"$(cat " + name + ")\"\n";
  };
  folder.write("script",
               "cd '" + folder.path() + "'\nchmod +x moeplan\n" + variable("MOEPLAN_ACTION_CONFIG", config) +
                   variable("MOEPLAN_ACTION_POLICY", policy) + variable("MOEPLAN_ACTION_BASELINE", baseline) +
                   variable("GITHUB_STEP_SUMMARY", summary) + "'" + kAction + "check.sh' ./moeplan 2>err\n");
  const int status = std::system(("bash '" + folder.path() + "/script'").c_str());
  Ran ran{WIFEXITED(status) ? WEXITSTATUS(status) : 128, {}, read_file(folder.path() + "/err")};
  std::istringstream called(read_file(folder.path() + "/called"));
  for (std::string line; std::getline(called, line);) ran.arguments.push_back(line);
  return ran;
}

const std::vector<std::string> kOutputs = {
    "-o", "github", "-o", "junit=moeplan.xml", "-o", "sarif=moeplan.sarif"};

std::vector<std::string> with_outputs(std::vector<std::string> words) {
  words.insert(words.end(), kOutputs.begin(), kOutputs.end());
  return words;
}

}  // namespace

TEST_CASE("the action checks every config its patterns match, and answers with the gate's exit code") {
  const Ran ran = run_action("a/*.json", "p.json", ".moeplan/b.json");
  CHECK(ran.exit_code == 7);
  CHECK(ran.arguments == with_outputs({"check", "--config", "a/one.json", "--config", "a/two.json",
                                       "--policy", "p.json", "--baseline", ".moeplan/b.json"}));
}

TEST_CASE("the action takes patterns on lines of their own, and what is not given is left out") {
  CHECK(run_action("a/two.json\n  a/o*.json\n").arguments ==
        with_outputs({"check", "--config", "a/two.json", "--config", "a/one.json"}));
  auto with_summary = with_outputs({"check", "--config", "a/one.json"});
  with_summary.insert(with_summary.end(), {"-o", "markdown+=/tmp/s m"});
  CHECK(run_action("a/one.json", "", "", "/tmp/s m").arguments == with_summary);
  // A name with a blank is reached by a pattern.
  CHECK(run_action("b?c.json").arguments == with_outputs({"check", "--config", "b c.json"}));
}

TEST_CASE("the action refuses patterns that match nothing") {
  for (const char* config : {"", "   ", "c/*.json", "a/one.json missing.json"}) {
    const Ran ran = run_action(config);
    INFO(config);
    CHECK(ran.exit_code == 2);
    CHECK(ran.arguments.empty());
    CHECK(ran.err.starts_with("error[usage]: "));
  }
}

TEST_CASE("nothing in the action's inputs is executed") {
  const Ran ran = run_action("a/one.json", "$(touch called2); `exit 9` \"x'", "b; exit 8");
  CHECK(ran.exit_code == 7);
  CHECK(ran.arguments == with_outputs({"check", "--config", "a/one.json", "--policy",
                                       "$(touch called2); `exit 9` \"x'", "--baseline", "b; exit 8"}));
  CHECK(run_action("$(exit 5)").exit_code == 2);
}

TEST_CASE(
    "the action's description passes each input on as a variable and interpolates none into a command") {
  const std::string text = read_file(kAction + "action.yml");
  for (const std::string input : {"config", "policy", "baseline"}) {
    std::string name = input;
    for (char& c : name) c = static_cast<char>(c - 'a' + 'A');
    CHECK(text.find("\n  " + input + ":\n") != std::string::npos);
    CHECK(text.find("MOEPLAN_ACTION_" + name + ": ${{ inputs." + input + " }}") != std::string::npos);
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("run:") != std::string::npos) CHECK(line.find("${{") == std::string::npos);
  }
}

TEST_CASE("check has the options the action gives it, in builds that have the command") {
  if (run_moeplan("--help").out.find("\n  check ") == std::string::npos) {
    WARN("this build has no command check: its options were not compared");
    return;
  }
  const Output help = run_moeplan("check --help");
  for (const char* option : {"--config", "--policy", "--baseline", "-o"})
    CHECK(help.out.find(option) != std::string::npos);
}
