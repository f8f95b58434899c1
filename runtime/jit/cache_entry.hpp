// One entry of the cache: a folder with the files `cubin`, `log` and `resources.json`, which says the key,
// the resources, and the lengths and digests of all three. No byte of an entry can change unseen.
#pragma once

#include <string>

#include "planner/core/result.hpp"
#include "runtime/jit/cache_folder.hpp"
#include "runtime/jit/compiled_kernel.hpp"

namespace moeplan {

enum class EntryState {
  whole,
  absent,
  damaged,     // what is there is not what was stored
  unreadable,  // by now: too many open files, an error of the disk
};

struct CacheEntry {
  EntryState state = EntryState::absent;
  std::string what;       // is wrong with it
  CompiledKernel kernel;  // when it is whole
  i64 bytes = 0;          // of its files
  i64 last_used_ns = 0;   // since 1970
};

// Reads an entry and compares it with its digests. `id`: sha256_hex of its key.
CacheEntry read_entry(const CacheFolder& cache, const std::string& id);

// Bytes and last use alone, of whatever lies there; nothing is opened.
CacheEntry measure_entry(const CacheFolder& cache, const std::string& id);

// Writes the files of an entry into an empty folder. Error: the message is the system's reason.
Status write_entry(int folder, const CompiledKernel& kernel);

}  // namespace moeplan
