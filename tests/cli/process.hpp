// Runs the moeplan binary as a user's shell would.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/temporary_folder.hpp"

namespace moeplan::test {

struct Output {
  int exit_code;
  std::string out;
  std::string err;
};

// `arguments` is shell text behind the binary's name; the working folder is the source tree. `environment` is
// shell text ahead of it, such as "NAME=value".
inline Output run_moeplan(const std::string& arguments, const std::string& input = "",
                          const std::string& environment = "") {
  const TemporaryFolder folder;
  const std::string in = folder.write("in", input), out = folder.path() + "/out",
                    err = folder.path() + "/err";
  const std::string command = "cd '" MOEPLAN_SOURCE_DIR "' && " + environment + " '" MOEPLAN_BINARY "' " +
                              arguments + " <'" + in + "' >'" + out + "' 2>'" + err + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, read_file(out), read_file(err)};
}

}  // namespace moeplan::test
