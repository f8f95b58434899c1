// A cache in a folder of its own, kernels to put in it, and processes that use it.
#pragma once

#include <dirent.h>
#include <grp.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "planner/core/text.hpp"
#include "runtime/jit/cubin_cache.hpp"
#include "runtime/jit/digest.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace moeplan::test {

inline constexpr unsigned kNobody = 65534;

// Every byte of it follows from the number: what a cache returns can be told right from wrong.
inline CompiledKernel kernel_of(i64 number, i64 cubin_bytes = 40) {
  std::string cubin(static_cast<std::size_t>(cubin_bytes), '\0');
  for (std::size_t at = 0; at < cubin.size(); ++at)
    cubin[at] = static_cast<char>((at * 31 + static_cast<std::size_t>(number) * 7) % 256);
  return {.key = concat("kernel ", number, "\narch sm_90\n"),
          .cubin = cubin,
          .resources = {.registers = number,
                        .stack_bytes = number + 1,
                        .spill_store_bytes = number + 2,
                        .spill_load_bytes = number + 3,
                        .static_shared_bytes = number + 4},
          .log = concat("ptxas info: kernel ", number, "\n")};
}

inline bool is_same(const CompiledKernel& left, const CompiledKernel& right) {
  return left.key == right.key && left.cubin == right.cubin && left.resources == right.resources &&
         left.log == right.log;
}

// A folder that does not exist yet, and what is said about the cache in it.
struct CacheFixture {
  TemporaryFolder parent;
  std::string path = parent.path() + "/cache";
  std::vector<std::string> warnings;

  CubinCache open(i64 limit_bytes = kDefaultCacheLimit) {
    Result<CubinCache> cache =
        CubinCache::open(path, limit_bytes, [this](const std::string& text) { warnings.push_back(text); });
    if (!cache) throw std::runtime_error(cache.error().message);
    return std::move(*cache);
  }
  std::string entry_of(const CompiledKernel& kernel) const { return path + "/" + sha256_hex(kernel.key); }
};

inline bool has(CubinCache& cache, const CompiledKernel& kernel) {
  const std::optional<CompiledKernel> found = cache.find(kernel.key);
  return found && is_same(*found, kernel);
}

inline bool exists(const std::string& path) {
  return std::filesystem::exists(std::filesystem::symlink_status(path));
}

inline std::vector<std::string> leftovers_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(path))
    if (const std::string name = item.path().filename().string(); name.starts_with(".unfinished-"))
      names.push_back(name);
  return names;
}

inline unsigned mode_of(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777u : 0u;
}

// A process that runs `work`; what that returns is what is wrong, "" nothing.
class Child {
 public:
  explicit Child(const std::function<std::string()>& work) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe");
    process_ = fork();
    if (process_ == 0) {
      ::close(ends[0]);
      std::string text;
      try {
        text = work();
      } catch (const std::exception& error) {
        text = error.what();
      }
      const ssize_t written = ::write(ends[1], text.data(), text.size());
      _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
    }
    ::close(ends[1]);
    out_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (process_ > 0) kill();
  }

  void kill() {
    ::kill(process_, SIGKILL);
    (void)finish();
  }

  std::string finish() {
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = ::read(out_, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(got));
    ::close(out_);
    int status = 0;
    waitpid(std::exchange(process_, -1), &status, 0);
    return status == 0 ? text : concat("ended with status ", status, ": ", text);
  }

 private:
  pid_t process_ = -1;
  int out_ = -1;
};

inline std::string in_child(const std::function<std::string()>& work) { return Child(work).finish(); }

// For a child: root's powers go, so that permissions bind. `folder` goes to the user that stays.
inline void become_a_normal_user(const std::string& folder) {
  if (geteuid() != 0) return;
  if (chown(folder.c_str(), kNobody, kNobody) != 0 || setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 ||
      setuid(kNobody) != 0)
    throw std::runtime_error("cannot become a normal user");
}

}  // namespace moeplan::test
