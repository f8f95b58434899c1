// CubinCache among processes: races, kill -9, full and read-only disks.
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "tests/random.hpp"
#include "tests/runtime/cubin_cache_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

constexpr std::string_view kNotPermitted = "not permitted: ";

// For a child: a file system of 64 KiB at `path` that only this process sees. "" or why not.
std::string mount_small_disk(const std::string& path) {
  const unsigned user = geteuid(), group = getegid();
  if (unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0)
    return concat(kNotPermitted, "unshare: ", std::strerror(errno));
  if (user != 0) {
    // In a namespace of their own, users keep their number; the disk is theirs.
    std::ofstream("/proc/self/uid_map") << user << ' ' << user << " 1";
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/gid_map") << group << ' ' << group << " 1";
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("none", path.c_str(), "tmpfs", 0,
            concat("size=64k,mode=0700,uid=", i64{user}, ",gid=", i64{group}).c_str()) != 0)
    return concat(kNotPermitted, "mount: ", std::strerror(errno));
  return "";
}

// Whether a test that needs a mount went well; where mounts are not permitted it says so and passes over.
void check_on_small_disk(const std::function<std::string()>& work) {
  const std::string problem = in_child(work);
  if (problem.starts_with(kNotPermitted))
    WARN(problem);
  else
    CHECK(problem == "");
}

std::string text_of(const std::vector<std::string>& warnings) {
  return concat(i64(warnings.size()), " warnings: ", join(warnings, "; "));
}

}  // namespace

TEST_CASE("processes that race over a few keys find what was stored or nothing") {
  CacheFixture fixture;
  const i64 limit = [] {
    CacheFixture alone;
    CubinCache cache = alone.open();
    cache.store(kernel_of(1, 3000));
    return 3 * cache.entries()->at(0).bytes;
  }();
  (void)fixture.open();
  const auto work = [&](unsigned seed) -> std::string {
    Random random;
    random.engine.seed(seed);
    CubinCache cache = fixture.open(limit);
    i64 found = 0;
    for (i64 round = 0; round < 200; ++round) {
      const CompiledKernel kernel = kernel_of(random.in(1, 5), 3000);
      const i64 choice = random.in(0, 99);
      if (choice < 3) {
        if (const Result<i64> cleared = cache.clear(); !cleared) return cleared.error().message;
      } else if (choice < 40) {
        cache.store(kernel);
      } else if (const auto got = cache.find(kernel.key)) {
        ++found;
        if (!is_same(*got, kernel)) return "another kernel";
      }
      if (choice == 50) {
        const Result<CubinCache::Verdict> verdict = cache.verify();
        if (!verdict || !verdict->damaged.empty()) return "a damaged entry";
      }
    }
    if (!fixture.warnings.empty()) return text_of(fixture.warnings);
    return found > 0 ? "" : "nothing was ever found";
  };
  for (unsigned round = 0; round < 4; ++round) {
    Child left([&] { return work(2 * round); });
    Child right([&] { return work(2 * round + 1); });
    CHECK(left.finish() == "");
    CHECK(right.finish() == "");
  }
  CubinCache cache = fixture.open(limit);
  CHECK(cache.verify()->damaged.empty());
  cache.store(kernel_of(6));
  CHECK(leftovers_in(fixture.path).empty());
}

TEST_CASE(
    "a cache whose writers are killed at any point is usable, never wrong, and gets rid of what they left") {
  CacheFixture fixture;
  (void)fixture.open();
  constexpr i64 kKeys = 6, kKills = 120, kCubinBytes = 20'000;
  const auto write_forever = [&]() -> std::string {
    CubinCache cache = fixture.open(4 * kCubinBytes);
    for (i64 round = 0;; ++round) cache.store(kernel_of(round % kKeys, kCubinBytes));
  };
  Random random;
  i64 kills_with_leftovers = 0, found = 0, wrong = 0;
  for (i64 kill = 0; kill < kKills; ++kill) {
    {
      Child writer(write_forever);
      std::this_thread::sleep_for(std::chrono::microseconds(random.in(500, 6000)));
      writer.kill();
    }
    kills_with_leftovers += !leftovers_in(fixture.path).empty();
    CubinCache cache = fixture.open();
    wrong += static_cast<i64>(cache.verify()->damaged.size());
    for (i64 number = 0; number < kKeys; ++number) {
      const CompiledKernel kernel = kernel_of(number, kCubinBytes);
      const std::optional<CompiledKernel> got = cache.find(kernel.key);
      found += got.has_value();
      wrong += got && !is_same(*got, kernel);
    }
  }
  CHECK(wrong == 0);
  CHECK(found > 0);
  CHECK(kills_with_leftovers > 0);
  CHECK(fixture.warnings == std::vector<std::string>{});
  CubinCache cache = fixture.open();
  cache.store(kernel_of(kKeys));
  CHECK(has(cache, kernel_of(kKeys)));
  CHECK(leftovers_in(fixture.path).empty());
}

TEST_CASE("an entry that another process removes while it is read is none, not damaged") {
  CacheFixture fixture;
  CubinCache cache = fixture.open();
  // Large: most of a reader's time passes between the first file and the last.
  const CompiledKernel kernel = kernel_of(1, 200'000);
  Child other([&]() -> std::string {
    do cache.store(kernel);
    while (cache.clear());
    return "cannot clear";
  });
  i64 missed = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  while (std::chrono::steady_clock::now() < end) {
    const std::optional<CompiledKernel> got = cache.find(kernel.key);
    if (!got)
      ++missed;
    else
      REQUIRE(is_same(*got, kernel));
  }
  other.kill();
  CHECK(missed > 0);
  CHECK(fixture.warnings == std::vector<std::string>{});
}

TEST_CASE("who tidies up takes nothing from a writer") {
  CacheFixture fixture;
  CubinCache cache = fixture.open();
  Child tidier([&]() -> std::string {
    while (cache.clear()) continue;
    return "cannot clear";
  });
  for (i64 round = 0; round < 300; ++round) cache.store(kernel_of(round));
  tidier.kill();
  CHECK(fixture.warnings == std::vector<std::string>{});
  CHECK(cache.verify()->damaged.empty());
}

TEST_CASE("a full disk is said once, leaves nothing behind and hurts no entry") {
  CacheFixture fixture;
  REQUIRE(mkdir(fixture.path.c_str(), 0700) == 0);
  check_on_small_disk([&]() -> std::string {
    if (const std::string problem = mount_small_disk(fixture.path); !problem.empty()) return problem;
    CubinCache cache = fixture.open();
    cache.store(kernel_of(1));
    for (const i64 bytes : {60'000, 100'000, 52'000}) cache.store(kernel_of(2, bytes));
    if (fixture.warnings.size() != 1) return text_of(fixture.warnings);
    if (fixture.warnings[0].find(std::strerror(ENOSPC)) == std::string::npos) return fixture.warnings[0];
    if (cache.find(kernel_of(2).key)) return "an entry that did not fit is found";
    if (!leftovers_in(fixture.path).empty()) return "a leftover";
    if (!has(cache, kernel_of(1))) return "the entry before is gone";
    cache.store(kernel_of(3, 20'000));
    if (!has(cache, kernel_of(3, 20'000))) return "an entry that fits is not kept";

    // What a killed writer left may be what fills the disk.
    (void)cache.clear();
    const std::string left = fixture.path + "/.unfinished-1-1";
    mkdir(left.c_str(), 0700);
    std::ofstream(left + "/cubin") << std::string(40'000, 'x');
    for (int time = 0; time < 2; ++time) cache.store(kernel_of(4, 30'000));
    if (!has(cache, kernel_of(4, 30'000))) return "a leftover keeps the disk full";
    return fixture.warnings.size() == 1 ? "" : text_of(fixture.warnings);
  });
}

TEST_CASE("a file that may not grow is said once, leaves nothing behind and hurts no entry") {
  CacheFixture fixture;
  CHECK(in_child([&]() -> std::string {
          CubinCache cache = fixture.open();
          cache.store(kernel_of(1));
          signal(SIGXFSZ, SIG_IGN);
          rlimit size{};
          getrlimit(RLIMIT_FSIZE, &size);
          const rlimit small{.rlim_cur = 5000, .rlim_max = size.rlim_max};
          setrlimit(RLIMIT_FSIZE, &small);
          for (const i64 bytes : {5001, 70'000}) cache.store(kernel_of(2, bytes));
          if (fixture.warnings.size() != 1) return text_of(fixture.warnings);
          if (fixture.warnings[0].find(std::strerror(EFBIG)) == std::string::npos) return fixture.warnings[0];
          if (!leftovers_in(fixture.path).empty()) return "a leftover";
          if (cache.find(kernel_of(2).key) || !has(cache, kernel_of(1))) return "not as before";
          setrlimit(RLIMIT_FSIZE, &size);
          cache.store(kernel_of(2, 5001));
          return has(cache, kernel_of(2, 5001)) ? "" : "not kept";
        }) == "");
}

namespace {

// With entry 1 whole and entry 2 damaged, on a disk or in a folder that nothing can be written to.
std::string problem_of_reading_only(CacheFixture& fixture) {
  CubinCache cache = fixture.open(1);
  if (!has(cache, kernel_of(1))) return "the whole entry is not found";
  if (!fixture.warnings.empty()) return text_of(fixture.warnings);
  for (int time = 0; time < 2; ++time) cache.store(kernel_of(3));
  if (fixture.warnings.size() != 1) return text_of(fixture.warnings);
  for (int time = 0; time < 2; ++time)
    if (cache.find(kernel_of(2).key)) return "the damaged entry is found";
  if (fixture.warnings.size() != 2) return text_of(fixture.warnings);
  if (fixture.warnings[1].find("cannot be removed") == std::string::npos) return fixture.warnings[1];
  if (cache.verify()->whole != 1 || cache.verify()->damaged.size() != 1) return "verify() is wrong";
  const Result<i64> cleared = cache.clear();
  if (cleared || cleared.error().code != ErrorCode::cache_unusable) return "cleared";
  return has(cache, kernel_of(1)) ? "" : "the whole entry is gone";
}

void store_a_whole_and_a_damaged_entry(CacheFixture& fixture) {
  CubinCache cache = fixture.open();
  for (const i64 number : {1, 2}) cache.store(kernel_of(number));
  std::ofstream(fixture.entry_of(kernel_of(2)) + "/cubin") << "x";
}

}  // namespace

TEST_CASE("from a folder that may not be written to, entries are read: what cannot be done is said once") {
  CacheFixture fixture;
  CHECK(in_child([&]() -> std::string {
          become_a_normal_user(fixture.parent.path());
          store_a_whole_and_a_damaged_entry(fixture);
          chmod(fixture.path.c_str(), 0500);
          const std::string problem = problem_of_reading_only(fixture);
          chmod(fixture.path.c_str(), 0700);
          return problem;
        }) == "");
}

TEST_CASE("from a read-only disk, entries are read: what cannot be done is said once") {
  CacheFixture fixture;
  REQUIRE(mkdir(fixture.path.c_str(), 0700) == 0);
  check_on_small_disk([&]() -> std::string {
    if (const std::string problem = mount_small_disk(fixture.path); !problem.empty()) return problem;
    store_a_whole_and_a_damaged_entry(fixture);
    if (mount(nullptr, fixture.path.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0)
      return concat(kNotPermitted, "remount: ", std::strerror(errno));
    return problem_of_reading_only(fixture);
  });
}
