// Runs the moeplan binary as a user's shell would.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace moeplan::test {

struct Output {
  int exit_code;
  std::string out;
  std::string err;
};

// A folder of its own, removed with its content.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    char pattern[] = P_tmpdir "/moeplan-test-XXXXXX";
    path_ = mkdtemp(pattern);
  }
  ~TemporaryFolder() { (void)!std::system(("rm -rf '" + path_ + "'").c_str()); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// `arguments` is shell text behind the binary's name; the working folder is the source tree.
inline Output run_moeplan(const std::string& arguments, const std::string& input = "") {
  const TemporaryFolder folder;
  const std::string in = folder.write("in", input), out = folder.path() + "/out",
                    err = folder.path() + "/err";
  const std::string command = "cd '" MOEPLAN_SOURCE_DIR "' && '" MOEPLAN_BINARY "' " + arguments + " <'" +
                              in + "' >'" + out + "' 2>'" + err + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, read_file(out), read_file(err)};
}

}  // namespace moeplan::test
