// The README's examples print what it shows; … stands for anything.
#include <sstream>

#include "tests/catch.hpp"
#include "tests/cli/process.hpp"
#include "tests/support.hpp"

using namespace moeplan::test;

namespace {

struct Example {
  std::string command;
  std::vector<std::string> shown;
};

// The fenced blocks that start with "$ moeplan".
std::vector<Example> examples() {
  std::vector<Example> found;
  std::istringstream text(read_source("README.md"));
  bool in_block = false;
  bool in_command = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) {
      in_block = in_command = false;
    } else if (line.starts_with("$ moeplan")) {
      found.push_back({line.substr(2), {}});
      in_block = in_command = true;
    } else if (in_command && found.back().command.ends_with('\\')) {
      found.back().command += "\n" + line;
    } else if (in_block) {
      in_command = false;
      found.back().shown.push_back(line);
    }
  }
  return found;
}

// Both streams of a command in the source tree, with `moeplan` on its path.
std::string run_example(const std::string& command) {
  const TemporaryFolder folder;
  const std::string out = folder.path() + "/out";
  const std::string script = folder.write("script", "export MOEPLAN_CACHE_DIR='" + folder.path() +
                                                        "/cache'; cd '" MOEPLAN_SOURCE_DIR
                                                        "'; moeplan() { '" MOEPLAN_BINARY "' \"$@\"; }\n" +
                                                        command + "\n");
  (void)!std::system(("sh '" + script + "' >'" + out + "' 2>&1 </dev/null").c_str());
  return read_file(out);
}

// Whether `printed` starts at `at` with a line like `shown`; moves `at` behind it.
bool take_line(const std::string& printed, std::size_t& at, const std::string& shown) {
  const std::size_t end = printed.find('\n', at);
  if (end == std::string::npos) return false;
  const std::string line = printed.substr(at, end - at);
  const std::size_t gap = shown.find("…");
  const bool same = gap == std::string::npos ? line == shown : line.starts_with(shown.substr(0, gap));
  if (same) at = end + 1;
  return same;
}

}  // namespace

TEST_CASE("every example of the README prints what it shows") {
  const auto all = examples();
  CHECK(all.size() == 15);
  for (const Example& example : all) {
    const std::string printed = run_example(example.command);
    if (printed.starts_with("error[no_nvrtc]")) {
      WARN("NOT RUN: " << example.command << ": no NVRTC here");
      continue;
    }
    INFO(example.command << "\n" << printed);
    std::size_t at = 0;
    bool skips = false;
    for (const std::string& line : example.shown) {
      if (line == "…") {
        skips = true;
        continue;
      }
      INFO(line);
      // Behind a gap the next line may stand anywhere further down.
      bool found = take_line(printed, at, line);
      while (!found && skips && at < printed.size()) {
        at = printed.find('\n', at) + 1;
        if (at == 0) break;
        found = take_line(printed, at, line);
      }
      REQUIRE(found);
      skips = false;
    }
    if (!skips) CHECK(at == printed.size());
  }
}
