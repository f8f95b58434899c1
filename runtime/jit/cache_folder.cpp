#include "runtime/jit/cache_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr i64 kNanosecondsPerSecond = 1'000'000'000;
// Storing takes milliseconds. Where files cannot be locked, age alone tells that a writer is gone.
constexpr i64 kLeftoverAge_ns = 3600 * kNanosecondsPerSecond;
// How often a name that another process took is replaced by the next one.
constexpr int kMostAttempts = 100;
// Entries are flat. Something deeper is not ours to dig through.
constexpr int kMostDepth = 8;
constexpr std::string_view kTemporaryPrefix = ".unfinished-";
constexpr const char* kOtherFolder = "choose another folder with MOEPLAN_CACHE_DIR";

i64 nanoseconds(const timespec& time) { return i64{time.tv_sec} * kNanosecondsPerSecond + time.tv_nsec; }

// In nanoseconds, where UTIME_NOW moves every few milliseconds only.
timespec now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return time;
}

bool consists_of(std::string_view text, std::string_view characters) {
  return text.find_first_not_of(characters) == std::string_view::npos;
}

bool is_entry_name(std::string_view name) {
  return name.size() == 64 && consists_of(name, "0123456789abcdef");
}

bool is_temporary_name(std::string_view name) {
  return name.size() > kTemporaryPrefix.size() && name.starts_with(kTemporaryPrefix) &&
         consists_of(name.substr(kTemporaryPrefix.size()), "0123456789-");
}

// Unique among the threads of this process; another machine or container may have the same process number.
std::string new_temporary_name() {
  static std::atomic<i64> counter = 0;
  return concat(kTemporaryPrefix, i64{getpid()}, "-", counter++);
}

FileDescriptor open_folder(int parent, const char* name, int flags) {
  return FileDescriptor(openat(parent, name, O_DIRECTORY | O_CLOEXEC | flags));
}

// 0700 whatever the umask says: one of 0777 would leave a folder that its owner cannot enter.
int make_folder(int parent, const char* name) {
  if (mkdirat(parent, name, 0700) != 0) return errno;
  // Where this fails, opening the folder does too and tells.
  (void)fchmodat(parent, name, 0700, AT_SYMLINK_NOFOLLOW);
  return 0;
}

FileDescriptor open_or_make_folder(int parent, const char* name, int flags) {
  FileDescriptor folder = open_folder(parent, name, flags);
  if (folder || errno != ENOENT) return folder;
  // EEXIST: another process made it between the two.
  if (const int failure = make_folder(parent, name); failure != 0 && failure != EEXIST) {
    errno = failure;
    return {};
  }
  return open_folder(parent, name, flags);
}

// Names in a folder but "." and "..". 0, or errno.
int list(int folder, std::vector<std::string>& names) {
  // Opened anew: threads that share a descriptor would share the place where they read.
  FileDescriptor descriptor = open_folder(folder, ".", O_RDONLY);
  if (!descriptor) return errno;
  const auto close_stream = [](DIR* stream) { closedir(stream); };
  const std::unique_ptr<DIR, decltype(close_stream)> stream(fdopendir(descriptor.number()), close_stream);
  if (!stream) return errno;
  (void)descriptor.release();
  while (true) {
    errno = 0;
    const dirent* row = readdir(stream.get());
    if (!row) return errno;
    const std::string_view name = row->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
}

// 0, or errno; what another removes at the same time is no failure.
int remove_tree(int parent, const char* name, int depth) {
  if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) return 0;
  if (errno != EISDIR) return errno;
  if (depth == kMostDepth) return ENOTEMPTY;
  (void)fchmodat(parent, name, 0700, AT_SYMLINK_NOFOLLOW);
  const FileDescriptor folder = open_folder(parent, name, O_RDONLY | O_NOFOLLOW);
  if (!folder) return errno == ENOENT ? 0 : errno;
  std::vector<std::string> names;
  int failure = list(folder.number(), names);
  for (const std::string& inner : names) {
    const int inner_failure = remove_tree(folder.number(), inner.c_str(), depth + 1);
    if (failure == 0) failure = inner_failure;
  }
  if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return 0;
  return failure != 0 ? failure : errno;
}

bool is_same_file(const struct stat& left, const struct stat& right) {
  return left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

Error refused(std::string message, std::string help) {
  return {ErrorCode::cache_refused, "", std::move(message), std::move(help)};
}

Error cannot_open(const std::string& path, int failure) {
  return {ErrorCode::cache_unusable, "",
          concat("the kernel cache ", path, " cannot be opened: ", std::strerror(failure)), kOtherFolder};
}

std::vector<std::string> components_of(std::string_view path) {
  std::vector<std::string> components;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    if (end > at) components.emplace_back(path.substr(at, end - at));
    at = end + 1;
  }
  if (components.empty()) components.emplace_back(".");
  return components;
}

}  // namespace

bool is_private(const struct stat& status) {
  return status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

i64 modified_ns(const struct stat& status) { return nanoseconds(status.st_mtim); }

CacheFolder::CacheFolder(std::string path, FileDescriptor descriptor)
    : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

Result<CacheFolder> CacheFolder::open(const std::string& path) {
  MOEPLAN_CHECK(path.starts_with('/'), "the folder of a cache is an absolute path");
  FileDescriptor parent = open_folder(AT_FDCWD, "/", O_PATH);
  std::vector<std::string> parents = components_of(path);
  const std::string name = std::move(parents.back());
  parents.pop_back();
  for (const std::string& step : parents) {
    FileDescriptor next = open_or_make_folder(parent.number(), step.c_str(), O_PATH);
    if (!next) return cannot_open(path, errno);
    parent = std::move(next);
  }

  FileDescriptor folder = open_or_make_folder(parent.number(), name.c_str(), O_RDONLY | O_NOFOLLOW);
  const int failure = errno;
  struct stat status {};
  if (!folder) {
    if (fstatat(parent.number(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode))
      return refused(concat("the kernel cache ", path, " is a symbolic link"),
                     "name the folder it points to with MOEPLAN_CACHE_DIR");
    return cannot_open(path, failure);
  }
  if (fstat(folder.number(), &status) != 0) return cannot_open(path, errno);
  if (status.st_uid != geteuid())
    return refused(concat("the kernel cache ", path, " belongs to user ", i64{status.st_uid},
                          ", not to user ", i64{geteuid()}, " who runs this"),
                   kOtherFolder);
  if (!is_private(status)) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(status.st_mode) & 07777u);
    return refused(concat("the kernel cache ", path, " may be written to by others: its mode is ", mode),
                   concat("run chmod 700 ", path, ", or ", kOtherFolder));
  }
  // Every entry would look damaged to an owner who may not enter.
  constexpr mode_t kEnter = S_IRUSR | S_IXUSR;
  if ((status.st_mode & kEnter) != kEnter)
    return Error{ErrorCode::cache_unusable, "", concat("the kernel cache ", path, " is closed to its owner"),
                 concat("run chmod 700 ", path, ", or ", kOtherFolder)};
  return CacheFolder(path, std::move(folder));
}

Result<CacheFolder::Names> CacheFolder::names() const {
  std::vector<std::string> all;
  if (const int failure = list(descriptor(), all); failure != 0)
    return Error{ErrorCode::cache_unusable, "",
                 concat("the kernel cache ", path_, " cannot be listed: ", std::strerror(failure)), ""};
  Names names;
  for (std::string& name : all) {
    if (is_entry_name(name))
      names.entries.push_back(std::move(name));
    else if (is_temporary_name(name))
      names.temporaries.push_back(std::move(name));
  }
  return names;
}

Result<CacheFolder::Temporary> CacheFolder::make_temporary() const {
  int failure = EEXIST;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    std::string name = new_temporary_name();
    failure = make_folder(descriptor(), name.c_str());
    if (failure == EEXIST) continue;
    if (failure != 0) break;
    FileDescriptor folder = open_folder(descriptor(), name.c_str(), O_RDONLY | O_NOFOLLOW);
    if (!folder && errno != ENOENT) {
      failure = errno;
      (void)unlinkat(descriptor(), name.c_str(), AT_REMOVEDIR);
      break;
    }
    // Another process that tidies up may have taken the folder before it was locked: then the next one. Where
    // locks do not exist, writing goes on without.
    if (!folder || (flock(folder.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)) continue;
    struct stat opened {
    }, named{};
    if (fstat(folder.number(), &opened) == 0 &&
        fstatat(descriptor(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && is_same_file(opened, named))
      return Temporary{std::move(name), std::move(folder)};
  }
  return Error{ErrorCode::cache_unusable, "", std::strerror(failure), ""};
}

void CacheFolder::touch(const std::string& name) const {
  const timespec times[2] = {now(), now()};
  (void)utimensat(descriptor(), name.c_str(), times, AT_SYMLINK_NOFOLLOW);
}

int CacheFolder::remove(const std::string& name) const {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    // Renamed first: who opens an entry by its name finds all of it or nothing.
    const std::string aside = new_temporary_name();
    if (renameat(descriptor(), name.c_str(), descriptor(), aside.c_str()) == 0)
      return remove_tree(descriptor(), aside.c_str(), 0);
    const bool is_taken = errno == EEXIST || errno == ENOTEMPTY || errno == EISDIR || errno == ENOTDIR;
    if (!is_taken) return errno;
  }
  return EEXIST;
}

int CacheFolder::remove_leftovers(const std::vector<std::string>& temporaries) const {
  int first_failure = 0;
  for (const std::string& name : temporaries) {
    struct stat status {};
    if (fstatat(descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    // Held until it is removed, so that no writer takes the folder for its own meanwhile.
    const FileDescriptor folder = open_folder(descriptor(), name.c_str(), O_RDONLY | O_NOFOLLOW);
    const bool is_abandoned = folder && flock(folder.number(), LOCK_EX | LOCK_NB) == 0;
    if (!is_abandoned && nanoseconds(now()) - modified_ns(status) < kLeftoverAge_ns) continue;
    const int failure = remove(name);
    if (first_failure == 0 && failure != ENOENT) first_failure = failure;
  }
  return first_failure;
}

}  // namespace moeplan
