// Where NVRTC is looked for, and what is said where it is not.
#include "runtime/jit/nvrtc.hpp"

#include <algorithm>
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace moeplan;

namespace {

// Candidates that lie below `root`, with it cut off: this machine's own toolkits do not count.
std::vector<std::string> below(const std::string& root, const RuntimeEnvironment& environment) {
  std::vector<std::string> found;
  for (const std::string& candidate : nvrtc_candidates(environment)) {
    if (candidate.starts_with(root)) found.push_back(candidate.substr(root.size()));
  }
  return found;
}

bool asks_loader(const RuntimeEnvironment& environment) {
  return std::ranges::count(nvrtc_candidates(environment), "libnvrtc.so.13") == 1;
}

}  // namespace

TEST_CASE("MOEPLAN_NVRTC is the only library tried") {
  CHECK(nvrtc_candidates(
            {.nvrtc = "/opt/x/libnvrtc.so.13", .cuda_home = "/usr/local/cuda", .path = "/usr/bin"}) ==
        std::vector<std::string>{"/opt/x/libnvrtc.so.13"});
}

TEST_CASE("a MOEPLAN_NVRTC that is relative or cannot be loaded is an error, whatever else is here") {
  for (const char* path : {"libnvrtc.so.13", "./libnvrtc.so.13", "/nowhere/libnvrtc.so.13"}) {
    const auto nvrtc = Nvrtc::load({.nvrtc = path, .cuda_home = "/usr/local/cuda"});
    INFO(path);
    REQUIRE_FALSE(nvrtc);
    CHECK(nvrtc.error().code == ErrorCode::no_nvrtc);
    CHECK(nvrtc.error().message.find(path) != std::string::npos);
    CHECK_FALSE(nvrtc.error().help.empty());
  }
}

TEST_CASE("a file that is no library is told as such") {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("libnvrtc.so.13", "no library");
  const auto nvrtc = Nvrtc::load({.nvrtc = path});
  REQUIRE_FALSE(nvrtc);
  CHECK(nvrtc.error().message.find("MOEPLAN_NVRTC") != std::string::npos);
}

TEST_CASE(
    "the loader's path comes first, then CUDA_HOME, then wheels beside the Python of PATH, newest first") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path();
  folder.write("cuda/lib64/libnvrtc.so.12", "");
  folder.write("cuda/lib64/libnvrtc.so.13", "");
  folder.write("cuda/lib64/libnvrtc.alt.so.13", "");
  folder.write("cuda/lib64/libnvrtc.so.11.2", "");
  folder.write("venv/bin/python3", "");
  folder.write("venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "");
  folder.write("venv/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13", "");
  folder.write("venv/lib/python3.9/site-packages/nvidia/cu13/lib/libnvrtc.so.13", "");
  folder.write("other/bin/perl", "");
  folder.write("other/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13", "");
  const RuntimeEnvironment environment{.cuda_home = root + "/cuda",
                                       .path = root + "/other/bin:" + root + "/venv/bin"};
  CHECK(below(root, environment) ==
        std::vector<std::string>{"/cuda/lib64/libnvrtc.so.13", "/cuda/lib64/libnvrtc.so.12",
                                 "/venv/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
                                 "/venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
                                 "/venv/lib/python3.9/site-packages/nvidia/cu13/lib/libnvrtc.so.13"});
  CHECK(nvrtc_candidates(environment).front() == "libnvrtc.so.13");
}

TEST_CASE("the working folder is never looked into") {
  const test::TemporaryFolder folder;
  folder.write("lib64/libnvrtc.so.13", "");
  folder.write("bin/python3", "");
  folder.write("lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13", "");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  for (const char* here : {".", "./", "bin", ""}) {
    INFO(here);
    for (const std::string& candidate : nvrtc_candidates({.cuda_home = here, .path = here}))
      CHECK((candidate.starts_with('/') || candidate.starts_with("libnvrtc.so.")));
    CHECK(below(folder.path(), {.cuda_home = here, .path = here}).empty());
  }
  std::filesystem::current_path(before);
  // The loader would look there for an entry that is empty or relative.
  CHECK(asks_loader({}));
  CHECK(asks_loader({.library_path = "/opt/lib:/usr/lib"}));
  for (const char* path : {":/opt/lib", "/opt/lib:", "/opt/lib::/usr/lib", "lib", "/opt/lib:./lib", "/a;b"}) {
    INFO(path);
    CHECK_FALSE(asks_loader({.library_path = path}));
  }
}

TEST_CASE("where NVRTC is nowhere, every place that was looked at is named") {
  const test::TemporaryFolder folder;
  folder.write("cuda/lib64/libnvrtc.so.13", "no library");
  const auto nvrtc = Nvrtc::load({.cuda_home = folder.path() + "/cuda", .library_path = "lib"});
  if (nvrtc) {
    WARN("SKIPPED: a toolkit under /usr/local answered, " << nvrtc->path());
    CHECK(nvrtc->path().starts_with("/usr/local/"));
    return;
  }
  for (const char* place : {"the loader's path", "LD_LIBRARY_PATH", "CUDA_HOME", "invalid ELF header",
                            "/usr/local/cuda*", "python3"}) {
    INFO(place);
    CHECK(nvrtc.error().message.find(place) != std::string::npos);
  }
}
