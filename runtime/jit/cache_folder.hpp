// CacheFolder: the cache's folder, checked and opened once. Everything in it is reached through its
// descriptor, so that renaming or replacing a parent changes nothing.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <vector>

#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"
#include "runtime/jit/file_descriptor.hpp"

namespace moeplan {

// Ours, and nobody else may write to it.
bool is_private(const struct stat& status);

// When it was last written to, since 1970.
i64 modified_ns(const struct stat& status);

class CacheFolder {
 public:
  // `path`: absolute. Makes the folder and its parents where they are missing, 0700. Errors: as those of
  // CubinCache::open.
  static Result<CacheFolder> open(const std::string& path);

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_.number(); }

  // What is ours by its name; anything else is left alone.
  struct Names {
    std::vector<std::string> entries;      // 64 hexadecimal digits
    std::vector<std::string> temporaries;  // being written or removed, or left behind
  };
  Result<Names> names() const;

  // An empty folder for one writer. Its lock goes with the writer, however that ends: nobody else removes it
  // before.
  struct Temporary {
    std::string name;
    FileDescriptor descriptor;
  };
  Result<Temporary> make_temporary() const;

  // Marks it as used now. Where this cannot be written, nothing can be evicted either.
  void touch(const std::string& name) const;

  // Takes an entry or a temporary away at once, then removes what is in it. 0, or errno; ENOENT: another was
  // faster.
  int remove(const std::string& name) const;

  // Removes temporaries whose writer is gone. 0, or errno of the first that stays.
  int remove_leftovers(const std::vector<std::string>& temporaries) const;

 private:
  CacheFolder(std::string path, FileDescriptor descriptor);
  std::string path_;
  FileDescriptor descriptor_;
};

}  // namespace moeplan
