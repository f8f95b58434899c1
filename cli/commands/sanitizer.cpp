#include "cli/commands/sanitizer.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
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

// Where it is; "": nowhere. Notes the folders that were looked at.
std::string find_sanitizer(std::vector<std::string>& looked_at) {
  for (const std::string& folder : folders()) {
    const std::string program = folder + "/compute-sanitizer";
    struct stat found {};
    if (stat(program.c_str(), &found) == 0 && S_ISREG(found.st_mode) && access(program.c_str(), X_OK) == 0)
      return program;
    if (std::ranges::find(looked_at, folder) == looked_at.end()) looked_at.push_back(folder);
  }
  return "";
}

// Hands on what is written to the pipe until its last writer is gone.
void copy_to_stderr(int pipe) {
  char bytes[4096];
  for (;;) {
    const ssize_t count = read(pipe, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    for (ssize_t at = 0; at < count;) {
      const ssize_t written = write(STDERR_FILENO, bytes + at, static_cast<std::size_t>(count - at));
      if (written < 0 && errno != EINTR) return;
      if (written > 0) at += written;
    }
  }
}

Error failed(std::string_view what) {
  return {ErrorCode::no_sanitizer, "",
          concat("compute-sanitizer does not start: ", what, ": ", std::strerror(errno)),
          "install it anew, with the CUDA toolkit"};
}

}  // namespace

Error run_sanitized(const std::string& tool) {
  std::vector<std::string> looked_at;
  const std::string program = find_sanitizer(looked_at);
  if (program.empty())
    return {ErrorCode::no_sanitizer, "", concat("compute-sanitizer is in none of ", join(looked_at, ", ")),
            "install the CUDA toolkit, or set CUDA_HOME to where it is"};
  // The link itself would be compute-sanitizer's own, where that reads it.
  char own_path[4096];
  const auto length = readlink("/proc/self/exe", own_path, sizeof own_path);
  const std::vector<std::string> arguments = without_option(own_arguments());
  if (length <= 0 || arguments.empty())
    return {ErrorCode::no_sanitizer, "", "cannot read /proc/self, which has this command line",
            "mount /proc"};
  // Its report goes through a pipe: a file that is named would be opened anew, and what is in it lost.
  int ends[2];
  if (pipe(ends) != 0) return failed("pipe");
  std::vector<std::string> command = {"compute-sanitizer",
                                      "--tool",
                                      tool,
                                      "--error-exitcode",
                                      "1",
                                      "--log-file",
                                      concat("/proc/self/fd/", i64{ends[1]}),
                                      std::string(own_path, static_cast<std::size_t>(length))};
  command.insert(command.end(), arguments.begin() + 1, arguments.end());
  std::vector<char*> pointers;
  for (std::string& argument : command) pointers.push_back(argument.data());
  pointers.push_back(nullptr);

  const pid_t child = fork();
  if (child < 0) return failed("fork");
  if (child == 0) {
    close(ends[0]);
    execv(program.c_str(), pointers.data());
    _exit(127);
  }
  close(ends[1]);
  copy_to_stderr(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

}  // namespace moeplan
