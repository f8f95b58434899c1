#include "cli/io/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

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

Error unwritable(const std::string& path, int error_number) {
  const bool no_folder = error_number == ENOENT || error_number == ENOTDIR;
  return Error{ErrorCode::unwritable, "", concat("cannot write ", path, ": ", std::strerror(error_number)),
               no_folder                ? "make its folder first"
               : error_number == ENOSPC ? "free some space, or write elsewhere"
                                        : "write where you may, for example to another folder"};
}

// 0, or the error number.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(descriptor, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return 0;
}

// Writes to what is there, or to a new file.
Status write_in_place(const std::string& path, std::string_view text, int flags) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  if (descriptor < 0) return unwritable(path, errno);
  int error_number = write_all(descriptor, text);
  if (::close(descriptor) != 0 && error_number == 0) error_number = errno;
  if (error_number != 0) return unwritable(path, error_number);
  return Ok{};
}

// Names of open streams may stand for regular files, whose readers a new file would not reach.
bool is_stream(const std::string& path) {
  return path == "/dev/stdout" || path == "/dev/stderr" || path.starts_with("/dev/fd/") ||
         (path.starts_with("/proc/") && path.find("/fd/") != std::string::npos);
}

// The rights of a file that is there, else of a new one.
mode_t rights_of(const struct stat* existing) {
  if (existing) return existing->st_mode & 07777;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

// A link stays one: what it names, there or not, is written. Links that end nowhere are told by their caller.
std::filesystem::path target_of(std::filesystem::path path) {
  std::error_code none;
  while (std::filesystem::is_symlink(path, none)) {
    const auto next = std::filesystem::read_symlink(path, none);
    if (none) break;
    path = path.parent_path() / next;  // an absolute one stands for itself
  }
  return path;
}

// As write_file; without a text all but the writing, and nothing is left of it.
Status put_file(const std::string& path, const std::string_view* text) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  const int error_number_of_stat = exists ? 0 : errno;
  if (is_stream(path) || (exists && !S_ISREG(status.st_mode))) {
    if (text) return write_in_place(path, *text, O_APPEND);
    const int error_number = S_ISDIR(status.st_mode) ? EISDIR : ::access(path.c_str(), W_OK) == 0 ? 0 : errno;
    return error_number == 0 ? Status(Ok{}) : unwritable(path, error_number);
  }
  if (!exists && error_number_of_stat == ELOOP) return unwritable(path, ELOOP);
  const std::filesystem::path target = target_of(path);

  std::string temporary = target.string() + ".XXXXXX";
  const int descriptor = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return unwritable(path, errno);
  int error_number = text ? write_all(descriptor, *text) : 0;
  if (error_number == 0 && ::fchmod(descriptor, rights_of(exists ? &status : nullptr)) != 0)
    error_number = errno;
  if (::close(descriptor) != 0 && error_number == 0) error_number = errno;
  if (text && error_number == 0) {
    if (::rename(temporary.c_str(), target.c_str()) == 0) return Ok{};
    error_number = errno;
  }
  ::unlink(temporary.c_str());
  return error_number == 0 ? Status(Ok{}) : unwritable(path, error_number);
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
  const int error_number = write_all(STDOUT_FILENO, text);
  if (error_number == 0) return Ok{};
  // Where the signal is ignored, as under some runners, a closed pipe is as quiet.
  if (error_number == EPIPE) _exit(128 + SIGPIPE);
  return unwritable("standard output", error_number);
}

Status write_file(const std::string& path, std::string_view text) { return put_file(path, &text); }

Status may_write_file(const std::string& path) { return put_file(path, nullptr); }

Status append_file(const std::string& path, std::string_view text) {
  return write_in_place(path, text, O_CREAT | O_APPEND);
}

Result<GrowingFile> GrowingFile::open(const std::string& path, bool appends) {
  const int how = appends || is_stream(path) ? O_APPEND : O_TRUNC;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | how, 0666);
  if (descriptor < 0) return unwritable(path, errno);
  return GrowingFile(path, descriptor);
}

GrowingFile::GrowingFile(GrowingFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

GrowingFile::~GrowingFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status GrowingFile::write(std::string_view text) {
  const int error_number = write_all(descriptor_, text);
  if (error_number != 0) return unwritable(path_, error_number);
  return Ok{};
}

}  // namespace moeplan
