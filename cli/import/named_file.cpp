#include "cli/import/named_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

Error refused(const std::string& name, std::string_view why, std::string help) {
  return Error{ErrorCode::unreadable, "", concat("cannot read ", name, ": ", why), std::move(help)};
}

}  // namespace

Result<std::string> read_named_file(const std::string& folder, const std::string& name) {
  namespace fs = std::filesystem;
  const std::string help = "copy it beside the file that names it";
  if (folder.empty()) return refused(name, "files named on standard input are not read", help);
  std::error_code failed;
  const fs::path root = fs::canonical(folder, failed);
  if (failed) return refused(name, failed.message(), help);
  const fs::path path = fs::canonical(root / name, failed);
  if (failed) return refused(name, failed.message(), help);
  const auto [end, unused] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  if (end != root.end()) return refused(name, "it lies outside the folder of the file that names it", help);
  // The path is free of links now; one that appears since is not followed.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (descriptor < 0) return refused(name, std::strerror(errno), help);
  struct stat status {};
  std::string text;
  Result<std::string> answer = text;
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    answer = refused(name, "it is no regular file", help);
  } else if (static_cast<std::size_t>(status.st_size) > kMaxNamedFileBytes) {
    answer = refused(name, "it is longer than 1 MiB", "is this the right file?");
  } else {
    text.resize(kMaxNamedFileBytes);
    std::size_t size = 0;
    ssize_t got = 0;
    while (size < text.size() && (got = ::read(descriptor, text.data() + size, text.size() - size)) > 0)
      size += static_cast<std::size_t>(got);
    text.resize(size);
    answer = got < 0 ? Result<std::string>(refused(name, std::strerror(errno), help)) : std::move(text);
  }
  ::close(descriptor);
  return answer;
}

bool has_named_file(const std::string& folder, const std::string& name) {
  std::error_code failed;
  return !folder.empty() && std::filesystem::exists(std::filesystem::path(folder) / name, failed);
}

}  // namespace moeplan
