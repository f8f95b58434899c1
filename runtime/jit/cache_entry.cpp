#include "runtime/jit/cache_entry.hpp"

#include <fcntl.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "planner/core/text.hpp"
#include "runtime/jit/digest.hpp"

namespace moeplan {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kCubin = "cubin";
constexpr const char* kLog = "log";
constexpr const char* kResources = "resources.json";
constexpr const char* kFiles[] = {kCubin, kLog, kResources};
// Of resources.json. A key is a few hundred bytes.
constexpr i64 kMostResourcesBytes = i64{1} << 20;
// How often an entry is looked at again that others replace while it is read.
constexpr int kMostAttempts = 8;

struct ResourceField {
  const char* name;
  i64 KernelResources::*value;
};
constexpr ResourceField kResourceFields[] = {
    {"registers", &KernelResources::registers},
    {"stack_bytes", &KernelResources::stack_bytes},
    {"spill_store_bytes", &KernelResources::spill_store_bytes},
    {"spill_load_bytes", &KernelResources::spill_load_bytes},
    {"static_shared_bytes", &KernelResources::static_shared_bytes},
};

// The content of resources.json.
struct Description {
  std::string key;
  KernelResources resources;
  i64 cubin_bytes = 0;
  std::string cubin_sha256;
  i64 log_bytes = 0;
  std::string log_sha256;
};

// The last line of resources.json: the digest of everything before it.
std::string seal_of(std::string_view body) {
  return concat(",\n  \"sha256\": \"", sha256_hex(body), "\"\n}\n");
}

// None: the key is no UTF-8, which JSON cannot hold.
std::optional<std::string> text_of(const Description& description) {
  Json resources;
  for (const ResourceField& field : kResourceFields)
    resources[field.name] = description.resources.*field.value;
  const Json all = {{"key", description.key},
                    {"resources", std::move(resources)},
                    {"cubin_bytes", description.cubin_bytes},
                    {"cubin_sha256", description.cubin_sha256},
                    {"log_bytes", description.log_bytes},
                    {"log_sha256", description.log_sha256}};
  try {
    std::string body = all.dump(2);
    body.resize(body.size() - std::string_view("\n}").size());
    return body + seal_of(body);
  } catch (const Json::exception&) {
    return {};
  }
}

// None: not as written. Nothing is parsed before its digest is right.
std::optional<Description> description_of(const std::string& text) {
  static const std::size_t seal_bytes = seal_of("").size();
  if (text.size() < seal_bytes) return {};
  const std::string_view body = std::string_view(text).substr(0, text.size() - seal_bytes);
  if (text.substr(body.size()) != seal_of(body)) return {};
  try {
    const Json all = Json::parse(text);
    Description description;
    all.at("key").get_to(description.key);
    for (const ResourceField& field : kResourceFields)
      all.at("resources").at(field.name).get_to(description.resources.*field.value);
    all.at("cubin_bytes").get_to(description.cubin_bytes);
    all.at("cubin_sha256").get_to(description.cubin_sha256);
    all.at("log_bytes").get_to(description.log_bytes);
    all.at("log_sha256").get_to(description.log_sha256);
    return description;
  } catch (const Json::exception&) {
    return {};
  }
}

// Says nothing about the entry: another time it may be readable.
bool is_passing(int failure) {
  return failure == EMFILE || failure == ENFILE || failure == ENOMEM || failure == EIO || failure == ESTALE;
}

// Reads the files of one opened entry; the first thing that is wrong ends it.
class EntryReader {
 public:
  explicit EntryReader(int folder) : folder_(folder) {}

  CacheEntry read(const std::string& id) {
    if (read_all(id))
      entry_.state = EntryState::whole;
    else
      entry_.kernel = {};
    return std::move(entry_);
  }

 private:
  bool read_all(const std::string& id) {
    struct stat status {};
    if (fstat(folder_, &status) != 0) return failed("the folder", errno);
    if (!is_private(status)) return damaged("the folder", "others own it or may write to it");
    entry_.last_used_ns = modified_ns(status);

    std::string text;
    if (!read_file(kResources, {}, text)) return false;
    const std::optional<Description> description = description_of(text);
    if (!description) return damaged(kResources, "not as it was written");
    // With equal digests keys are equal.
    if (sha256_hex(description->key) != id) return damaged(kResources, "the key of another entry");
    CompiledKernel& kernel = entry_.kernel;
    kernel.key = description->key;
    kernel.resources = description->resources;
    return read_file(kCubin, description->cubin_bytes, kernel.cubin) &&
           has_digest(kCubin, kernel.cubin, description->cubin_sha256) &&
           read_file(kLog, description->log_bytes, kernel.log) &&
           has_digest(kLog, kernel.log, description->log_sha256);
  }

  // `bytes`: the length it has to have; none where that is not known yet.
  bool read_file(const char* name, std::optional<i64> bytes, std::string& text) {
    // A FIFO in place of the file would block without O_NONBLOCK.
    const FileDescriptor file(
        openat(folder_, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status {};
    if (!file || fstat(file.number(), &status) != 0) return failed(name, errno);
    if (!S_ISREG(status.st_mode)) return damaged(name, "no regular file");
    if (!is_private(status)) return damaged(name, "others own it or may write to it");
    const i64 size = status.st_size;
    if (bytes ? size != *bytes : size > kMostResourcesBytes)
      return damaged(name, concat("has ", size, " bytes"));
    text.resize(static_cast<std::size_t>(size));
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t got = ::read(file.number(), text.data() + at, text.size() - at);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failed(name, errno);
      if (got == 0) return damaged(name, "became shorter while it was read");
      at += static_cast<std::size_t>(got);
    }
    entry_.bytes += size;
    return true;
  }

  bool has_digest(const char* name, std::string_view text, const std::string& digest) {
    return sha256_hex(text) == digest || damaged(name, "has another digest");
  }

  bool failed(std::string_view name, int failure) {
    damaged(name, std::strerror(failure));
    if (is_passing(failure)) entry_.state = EntryState::unreadable;
    return false;
  }

  bool damaged(std::string_view name, std::string_view what) {
    entry_.state = EntryState::damaged;
    entry_.what = concat(name, ": ", what);
    return false;
  }

  int folder_;
  CacheEntry entry_;
};

// 0, or errno.
int write_file(int folder, const char* name, std::string_view text) {
  FileDescriptor file(openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  // 0600 whatever the umask says.
  if (!file || fchmod(file.number(), 0600) != 0) return errno;
  while (!text.empty()) {
    const ssize_t written = ::write(file.number(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return file.close();
}

}  // namespace

CacheEntry read_entry(const CacheFolder& cache, const std::string& id) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const FileDescriptor folder(
        openat(cache.descriptor(), id.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder) {
      if (errno == ENOENT) return {};
      return {.state = is_passing(errno) ? EntryState::unreadable : EntryState::damaged,
              .what = concat("the folder: ", std::strerror(errno))};
    }
    CacheEntry entry = EntryReader(folder.number()).read(id);
    if (entry.state == EntryState::whole) return entry;
    // Files also go missing when another process removes the entry while it is read; then its name is gone,
    // or is that of a newer entry.
    struct stat opened {
    }, named{};
    if (fstat(folder.number(), &opened) != 0) return entry;
    if (fstatat(cache.descriptor(), id.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) return {};
      return entry;
    }
    if (opened.st_dev == named.st_dev && opened.st_ino == named.st_ino) return entry;
  }
  return {};
}

CacheEntry measure_entry(const CacheFolder& cache, const std::string& id) {
  CacheEntry entry;
  struct stat status {};
  if (fstatat(cache.descriptor(), id.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return entry;
  entry.last_used_ns = modified_ns(status);
  if (!S_ISDIR(status.st_mode)) return entry;
  for (const char* name : kFiles) {
    const std::string path = concat(id, "/", name);
    if (fstatat(cache.descriptor(), path.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
      entry.bytes += status.st_size;
  }
  return entry;
}

Status write_entry(int folder, const CompiledKernel& kernel) {
  const std::optional<std::string> text = text_of({.key = kernel.key,
                                                   .resources = kernel.resources,
                                                   .cubin_bytes = static_cast<i64>(kernel.cubin.size()),
                                                   .cubin_sha256 = sha256_hex(kernel.cubin),
                                                   .log_bytes = static_cast<i64>(kernel.log.size()),
                                                   .log_sha256 = sha256_hex(kernel.log)});
  if (!text) return Error{ErrorCode::cache_unusable, "", "the key of a kernel is no UTF-8", ""};
  if (static_cast<i64>(text->size()) > kMostResourcesBytes)
    return Error{ErrorCode::cache_unusable, "", "the key of a kernel is too long", ""};
  int failure = write_file(folder, kCubin, kernel.cubin);
  if (failure == 0) failure = write_file(folder, kLog, kernel.log);
  if (failure == 0) failure = write_file(folder, kResources, *text);
  if (failure != 0) return Error{ErrorCode::cache_unusable, "", std::strerror(failure), ""};
  return Ok{};
}

}  // namespace moeplan
