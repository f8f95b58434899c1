// CubinCache: compiled kernels on disk, a folder a key. Safe against kill -9, processes that race, a full or
// read-only disk and damaged entries; refuses a folder that others could have written to. Threads may share
// one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/result.hpp"
#include "runtime/environment.hpp"
#include "runtime/jit/compiled_kernel.hpp"

namespace moeplan {

inline constexpr i64 kDefaultCacheLimit = i64{512} << 20;  // bytes

// Where the cache lies: MOEPLAN_CACHE_DIR, else XDG_CACHE_HOME/moeplan, else HOME/.cache/moeplan. Error: none
// of them is set, or the one that is set is no absolute path.
Result<std::string> cache_folder(const RuntimeEnvironment& environment);

// An entry without its code and log, which `find` reads.
struct CachedKernel {
  std::string id;  // sha256_hex of the key: the folder's name
  std::string key;
  KernelResources resources;
  i64 bytes = 0;         // of the entry's files
  i64 last_used_ns = 0;  // since 1970
};

class CubinCache {
 public:
  // Receives what has to be said once, such as a damaged entry that is rebuilt. One thread at a time; it does
  // not call the cache.
  using Warn = std::function<void(const std::string&)>;

  // `folder`: absolute. Creates it and its parents (0700) where they are missing. Error `cache_refused`: it
  // is a link, another user's, or others may write to it. Error `cache_unusable`: it cannot be made or
  // opened.
  static Result<CubinCache> open(const std::string& folder, i64 limit_bytes, Warn warn);

  CubinCache(CubinCache&&) noexcept;
  CubinCache& operator=(CubinCache&&) noexcept;
  ~CubinCache();

  // The kernel of that key, or none. A damaged entry is said once, removed, and counts as none.
  std::optional<CompiledKernel> find(std::string_view key);
  // Keeps a kernel; an entry that its key already has stays. What cannot be written is said once and
  // forgotten: the cache is a convenience. Evicts the least recently used entries above the limit, never the
  // one just written.
  void store(const CompiledKernel& kernel);

  // Every whole entry, most recently used first. Counts as no use. Error: the folder cannot be listed.
  Result<std::vector<CachedKernel>> entries() const;
  struct Damage {
    std::string id;
    std::string what;  // "cubin: has another digest"
  };
  struct Verdict {
    i64 whole = 0;
    std::vector<Damage> damaged;  // by id
  };
  // Reads every entry and compares its digests; damaged entries stay where they are. Error: the folder
  // cannot be listed.
  Result<Verdict> verify() const;
  // Removes every entry and what interrupted writers left behind; files that are not the cache's stay.
  // Returns the entries removed. Error: one cannot be removed.
  Result<i64> clear();

  const std::string& folder() const;

 private:
  struct State;
  explicit CubinCache(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace moeplan
