#include "runtime/jit/cubin_cache.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>

#include "planner/core/text.hpp"
#include "runtime/jit/cache_entry.hpp"
#include "runtime/jit/cache_folder.hpp"
#include "runtime/jit/digest.hpp"

namespace moeplan {
namespace {

Result<std::string> absolute(const char* variable, const std::string& path, std::string_view below) {
  if (path.starts_with('/')) return concat(path, below);
  return Error{ErrorCode::cache_unusable, "", concat(variable, " is no absolute path: ", path),
               concat("write an absolute path into ", variable)};
}

}  // namespace

Result<std::string> cache_folder(const RuntimeEnvironment& environment) {
  if (environment.cache_dir) return absolute("MOEPLAN_CACHE_DIR", *environment.cache_dir, "");
  // The XDG base directory specification: relative paths are ignored.
  if (environment.xdg_cache_home && environment.xdg_cache_home->starts_with('/'))
    return concat(*environment.xdg_cache_home, "/moeplan");
  if (environment.home) return absolute("HOME", *environment.home, "/.cache/moeplan");
  return Error{
      ErrorCode::cache_unusable, "",
      "there is no place for the kernel cache: neither MOEPLAN_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set",
      "write an absolute path into MOEPLAN_CACHE_DIR"};
}

struct CubinCache::State {
  CacheFolder folder;
  i64 limit_bytes;
  Warn warn;

  std::mutex mutex;  // of what is below, and of `warn`
  std::set<std::string> said;

  void say(const std::string& message) {
    const std::scoped_lock lock(mutex);
    if (warn) warn(message);
  }

  void say_once(const std::string& message) {
    const std::scoped_lock lock(mutex);
    if (said.insert(message).second && warn) warn(message);
  }

  void drop_damaged(const std::string& id, const std::string& what) {
    const std::string message =
        concat("entry ", id, " of the kernel cache ", folder.path(), " is damaged (", what, ")");
    const int failure = folder.remove(id);
    // Of threads and processes that meet the same damage, the one that removes it says so.
    if (failure == 0)
      say(concat(message, "; it is compiled anew"));
    else if (failure != ENOENT)
      say_once(concat(message, " and cannot be removed: ", std::strerror(failure)));
  }

  Status keep(const std::string& id, const CompiledKernel& kernel) const {
    struct stat status {};
    if (fstatat(folder.descriptor(), id.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(status.st_mode))
      return Ok{};
    const Result<CacheFolder::Temporary> temporary = folder.make_temporary();
    if (!temporary) return temporary.error();
    Status kept = write_entry(temporary->descriptor.number(), kernel);
    if (kept) {
      const int failure = put_in_place(temporary->name, id);
      if (failure == 0) return kept;
      // Otherwise another writer was faster: both have the same kernel.
      if (failure != EEXIST && failure != ENOTEMPTY)
        kept = Error{ErrorCode::cache_unusable, "", std::strerror(failure), ""};
    }
    // Not left to the next one who tidies up: where files cannot be locked, that takes an hour.
    (void)folder.remove(temporary->name);
    return kept;
  }

  // 0, or errno.
  int put_in_place(const std::string& temporary, const std::string& id) const {
    folder.touch(temporary);
    const auto rename = [&] {
      const int at = folder.descriptor();
      return renameat(at, temporary.c_str(), at, id.c_str()) == 0 ? 0 : errno;
    };
    const int failure = rename();
    // ENOTDIR: what has the entry's name is no folder, so no cache wrote it.
    return failure == ENOTDIR && folder.remove(id) == 0 ? rename() : failure;
  }

  // Looks at every entry again: other processes store and evict too.
  void make_room(const std::string& kept) const {
    const Result<CacheFolder::Names> names = folder.names();
    if (!names) return;
    (void)folder.remove_leftovers(names->temporaries);
    struct Use {
      i64 last_ns;
      i64 bytes;
      const std::string* id;
    };
    std::vector<Use> uses;
    i64 total = 0;
    for (const std::string& id : names->entries) {
      const CacheEntry entry = measure_entry(folder, id);
      total += entry.bytes;
      if (id != kept) uses.push_back({entry.last_used_ns, entry.bytes, &id});
    }
    std::ranges::sort(uses, {}, &Use::last_ns);
    for (const Use& use : uses) {
      if (total <= limit_bytes) return;
      const int failure = folder.remove(*use.id);
      if (failure == 0 || failure == ENOENT) total -= use.bytes;
    }
  }
};

Result<CubinCache> CubinCache::open(const std::string& folder, i64 limit_bytes, Warn warn) {
  Result<CacheFolder> opened = CacheFolder::open(folder);
  if (!opened) return opened.error();
  return CubinCache(std::unique_ptr<State>(
      new State{.folder = std::move(*opened), .limit_bytes = limit_bytes, .warn = std::move(warn)}));
}

CubinCache::CubinCache(std::unique_ptr<State> state) : state_(std::move(state)) {}
CubinCache::CubinCache(CubinCache&&) noexcept = default;
CubinCache& CubinCache::operator=(CubinCache&&) noexcept = default;
CubinCache::~CubinCache() = default;

std::optional<CompiledKernel> CubinCache::find(std::string_view key) {
  const std::string id = sha256_hex(key);
  CacheEntry entry = read_entry(state_->folder, id);
  switch (entry.state) {
    case EntryState::absent:
      return {};
    case EntryState::damaged:
      state_->drop_damaged(id, entry.what);
      return {};
    case EntryState::unreadable:
      state_->say_once(concat("the kernel cache ", folder(), " cannot be read: ", entry.what));
      return {};
    case EntryState::whole:
      break;
  }
  state_->folder.touch(id);
  return std::move(entry.kernel);
}

void CubinCache::store(const CompiledKernel& kernel) {
  const std::string id = sha256_hex(kernel.key);
  if (const Status kept = state_->keep(id, kernel); !kept)
    state_->say_once(concat("the kernel cache ", folder(), " does not keep kernels: ", kept.error().message));
  // Also when nothing was kept: what others left behind may be what fills the disk.
  state_->make_room(id);
}

Result<std::vector<CachedKernel>> CubinCache::entries() const {
  const Result<CacheFolder::Names> names = state_->folder.names();
  if (!names) return names.error();
  std::vector<CachedKernel> kernels;
  for (const std::string& id : names->entries) {
    CacheEntry entry = read_entry(state_->folder, id);
    if (entry.state != EntryState::whole) continue;
    kernels.push_back(
        {id, std::move(entry.kernel.key), entry.kernel.resources, entry.bytes, entry.last_used_ns});
  }
  std::ranges::sort(kernels, std::greater{}, &CachedKernel::last_used_ns);
  return kernels;
}

Result<CubinCache::Verdict> CubinCache::verify() const {
  const Result<CacheFolder::Names> names = state_->folder.names();
  if (!names) return names.error();
  Verdict verdict;
  for (const std::string& id : names->entries) {
    CacheEntry entry = read_entry(state_->folder, id);
    if (entry.state == EntryState::whole)
      ++verdict.whole;
    else if (entry.state != EntryState::absent)
      verdict.damaged.push_back({id, std::move(entry.what)});
  }
  std::ranges::sort(verdict.damaged, {}, &Damage::id);
  return verdict;
}

Result<i64> CubinCache::clear() {
  const Result<CacheFolder::Names> names = state_->folder.names();
  if (!names) return names.error();
  i64 removed = 0;
  int failure = state_->folder.remove_leftovers(names->temporaries);
  for (const std::string& id : names->entries) {
    const int entry_failure = state_->folder.remove(id);
    if (entry_failure == 0)
      ++removed;
    else if (entry_failure != ENOENT && failure == 0)
      failure = entry_failure;
  }
  if (failure == 0) return removed;
  return Error{ErrorCode::cache_unusable, "",
               concat("the kernel cache ", folder(), " cannot be cleared: ", std::strerror(failure)),
               "see whether its file system is writable and who owns what is in it"};
}

const std::string& CubinCache::folder() const { return state_->folder.path(); }

}  // namespace moeplan
