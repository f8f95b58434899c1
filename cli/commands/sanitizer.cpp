#include "cli/commands/sanitizer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

#include "planner/core/text.hpp"
#include "runtime/environment.hpp"

namespace moeplan {
namespace {

constexpr std::string_view kOption = "--sanitizer";

// Folders that may hold it. Relative ones are not used.
std::vector<std::string> folders() {
  const RuntimeEnvironment environment = read_runtime_environment();
  std::vector<std::string> folders;
  const std::string path = environment.path.value_or("");
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    folders.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  if (environment.cuda_home) folders.push_back(*environment.cuda_home + "/bin");
  folders.push_back("/usr/local/cuda/bin");
  std::erase_if(folders, [](const std::string& folder) { return !folder.starts_with('/'); });
  return folders;
}

// This process's arguments, as it was started with them.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

// Without the option and its value.
std::vector<std::string> without_option(const std::vector<std::string>& arguments) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == kOption)
      ++i;
    else if (!arguments[i].starts_with(concat(kOption, "=")))
      kept.push_back(arguments[i]);
  }
  return kept;
}

}  // namespace

Error run_sanitized(const std::string& tool) {
  // The link itself would be compute-sanitizer's own, where that reads it.
  char own_path[4096];
  const auto length = readlink("/proc/self/exe", own_path, sizeof own_path);
  const std::vector<std::string> arguments = without_option(own_arguments());
  if (length <= 0 || arguments.empty())
    return {ErrorCode::no_sanitizer, "", "cannot read /proc/self, which has this command line",
            "mount /proc"};
  std::vector<std::string> command = {"compute-sanitizer",
                                      "--tool",
                                      tool,
                                      "--error-exitcode",
                                      "1",
                                      "--log-file",
                                      "/dev/stderr",
                                      std::string(own_path, static_cast<std::size_t>(length))};
  command.insert(command.end(), arguments.begin() + 1, arguments.end());
  std::vector<char*> pointers;
  for (std::string& argument : command) pointers.push_back(argument.data());
  pointers.push_back(nullptr);

  std::vector<std::string> looked_at;
  for (const std::string& folder : folders()) {
    const std::string program = folder + "/compute-sanitizer";
    if (access(program.c_str(), X_OK) == 0) {
      execv(program.c_str(), pointers.data());
      return {ErrorCode::no_sanitizer, "", concat(program, " does not start: ", std::strerror(errno)),
              "install it anew, with the CUDA toolkit"};
    }
    looked_at.push_back(folder);
  }
  return {ErrorCode::no_sanitizer, "", concat("compute-sanitizer is in none of ", join(looked_at, ", ")),
          "install the CUDA toolkit, or set CUDA_HOME to where it is"};
}

}  // namespace moeplan
