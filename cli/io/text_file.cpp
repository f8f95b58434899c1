#include "cli/io/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/io/json_document.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

Error unreadable(const std::string& path, std::string_view why) {
  return Error{ErrorCode::unreadable, "", concat("cannot read ", path, ": ", why), "check the path"};
}

Result<std::string> read_all(int descriptor, const std::string& name) {
  std::string text;
  char chunk[1 << 16];
  for (;;) {
    const ssize_t got = ::read(descriptor, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unreadable(name, std::strerror(errno));
    if (got == 0) return text;
    text.append(chunk, static_cast<std::size_t>(got));
    if (text.size() > kMaxInputBytes)
      return Error{ErrorCode::too_large, "", concat(name, " is longer than ", kMaxInputBytes, " bytes"),
                   "is this the right file?"};
  }
}

}  // namespace

Result<std::string> read_text(const std::string& path) {
  if (path == "-") return read_all(STDIN_FILENO, "standard input");
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return unreadable(path, std::strerror(errno));
  struct stat status {};
  const bool is_folder = ::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode);
  auto text =
      is_folder ? Result<std::string>(unreadable(path, "it is a folder")) : read_all(descriptor, path);
  ::close(descriptor);
  return text;
}

Status write_out(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(STDOUT_FILENO, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0)
      return Error{ErrorCode::unwritable, "", concat("cannot write standard output: ", std::strerror(errno)),
                   ""};
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return Ok{};
}

}  // namespace moeplan
