// CubinCache in one process: what it keeps, what it notices, what it evicts, and whom it refuses.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/resource.h>

#include <atomic>
#include <climits>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/runtime/cubin_cache_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

const std::vector<std::string> kFiles = {"cubin", "log", "resources.json"};

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

i64 bytes_of_entry(const CompiledKernel& kernel) {
  CacheFixture alone;
  CubinCache cache = alone.open();
  cache.store(kernel);
  return cache.entries()->at(0).bytes;
}

// Breaks a whole entry in one way and expects that verify() names it and leaves it, and that find() says it
// once, removes it and makes room for a new one.
void check_is_damage(const std::string& what, const std::function<void(const std::string& entry)>& break_it) {
  INFO(what);
  CacheFixture fixture;
  CubinCache cache = fixture.open();
  const CompiledKernel kernel = kernel_of(1);
  cache.store(kernel);
  REQUIRE(has(cache, kernel));
  break_it(fixture.entry_of(kernel));

  const CubinCache::Verdict verdict = *cache.verify();
  CHECK(verdict.whole == 0);
  REQUIRE(verdict.damaged.size() == 1);
  CHECK(verdict.damaged[0].id == sha256_hex(kernel.key));
  CHECK_FALSE(verdict.damaged[0].what.empty());
  CHECK(cache.entries()->empty());
  CHECK(exists(fixture.entry_of(kernel)));

  CHECK_FALSE(cache.find(kernel.key));
  REQUIRE(fixture.warnings.size() == 1);
  CHECK(fixture.warnings[0].find(sha256_hex(kernel.key)) != std::string::npos);
  CHECK(fixture.warnings[0].find(verdict.damaged[0].what) != std::string::npos);
  CHECK_FALSE(exists(fixture.entry_of(kernel)));
  CHECK(leftovers_in(fixture.path).empty());

  cache.store(kernel);
  CHECK(has(cache, kernel));
  CHECK(fixture.warnings.size() == 1);
}

void set_age(const std::string& path, i64 seconds) {
  timespec times[2] = {};
  clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= seconds;
  times[1] = times[0];
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
}

}  // namespace

TEST_CASE("a kernel comes back from the cache byte for byte, in this process and in the next") {
  CacheFixture fixture;
  const CompiledKernel kernel = kernel_of(3, 5000);
  CompiledKernel empty = kernel_of(4);
  empty.cubin.clear();
  empty.log.clear();
  {
    CubinCache cache = fixture.open();
    CHECK_FALSE(cache.find(kernel.key));
    cache.store(kernel);
    cache.store(empty);
    CHECK(has(cache, kernel));
  }
  CubinCache cache = fixture.open();
  CHECK(has(cache, kernel));
  CHECK(has(cache, empty));
  CHECK_FALSE(cache.find(kernel_of(5).key));
  CHECK(cache.folder() == fixture.path);
  CHECK(fixture.warnings.empty());
}

TEST_CASE("a key that is stored already keeps its entry") {
  CacheFixture fixture;
  CubinCache cache = fixture.open();
  cache.store(kernel_of(1));
  CompiledKernel other = kernel_of(1);
  other.log = "another";
  cache.store(other);
  CHECK(has(cache, kernel_of(1)));
  CHECK(leftovers_in(fixture.path).empty());
}

TEST_CASE("resources.json is JSON that says key, resources, lengths and digests") {
  CacheFixture fixture;
  CubinCache cache = fixture.open();
  const CompiledKernel kernel = kernel_of(7);
  cache.store(kernel);
  const nlohmann::json all = nlohmann::json::parse(read_file(fixture.entry_of(kernel) + "/resources.json"));
  CHECK(all.at("key") == kernel.key);
  CHECK(all.at("resources").at("registers") == 7);
  CHECK(all.at("resources").at("static_shared_bytes") == 11);
  CHECK(all.at("cubin_bytes") == 40);
  CHECK(all.at("cubin_sha256") == sha256_hex(kernel.cubin));
  CHECK(all.at("log_sha256") == sha256_hex(kernel.log));
}

TEST_CASE("entries() lists every whole entry, most recently used first, with its bytes") {
  CacheFixture fixture;
  CubinCache cache = fixture.open();
  for (const i64 number : {1, 2, 3}) cache.store(kernel_of(number, 100 * number));
  CHECK(cache.find(kernel_of(1).key));
  const std::vector<CachedKernel> entries = *cache.entries();
  REQUIRE(entries.size() == 3);
  const i64 order[] = {1, 3, 2};
  for (std::size_t at = 0; at < 3; ++at) {
    const CompiledKernel kernel = kernel_of(order[at], 100 * order[at]);
    CHECK(entries[at].key == kernel.key);
    CHECK(entries[at].id == sha256_hex(kernel.key));
    CHECK(entries[at].resources == kernel.resources);
    i64 bytes = 0;
    for (const std::string& file : kFiles)
      bytes += static_cast<i64>(read_file(fixture.entry_of(kernel) + "/" + file).size());
    CHECK(entries[at].bytes == bytes);
  }
  // Looking is no use.
  CHECK(cache.entries()->at(0).last_used_ns == entries[0].last_used_ns);
}

TEST_CASE("every flipped bit of every file of an entry is noticed") {
  CacheFixture fixture;
  CubinCache cache = fixture.open();
  const CompiledKernel kernel = kernel_of(1);
  i64 flips = 0, seen = 0, refused = 0;
  for (const std::string& file : kFiles) {
    cache.store(kernel);
    const std::string path = fixture.entry_of(kernel) + "/" + file;
    const std::string text = read_file(path);
    REQUIRE_FALSE(text.empty());
    for (std::size_t at = 0; at < text.size(); ++at) {
      const int number = open(path.c_str(), O_WRONLY);
      for (int bit = 0; bit < 8; ++bit) {
        const char flipped = static_cast<char>(text[at] ^ (1 << bit));
        REQUIRE(pwrite(number, &flipped, 1, static_cast<off_t>(at)) == 1);
        ++flips;
        seen += static_cast<i64>(cache.verify()->damaged.size());
      }
      close(number);
      // The last of them is found out by find() too, which removes the entry.
      refused += !cache.find(kernel.key) && !exists(fixture.entry_of(kernel));
      cache.store(kernel);
    }
    CHECK(has(cache, kernel));
  }
  CHECK(flips == 8 * bytes_of_entry(kernel));
  CHECK(seen == flips);
  CHECK(refused == flips / 8);
  CHECK(static_cast<i64>(fixture.warnings.size()) == refused);
}

TEST_CASE("files of an entry that are cut, longer or missing are noticed") {
  for (const std::string& file : kFiles) {
    const std::string text = [&] {
      CacheFixture whole;
      whole.open().store(kernel_of(1));
      return read_file(whole.entry_of(kernel_of(1)) + "/" + file);
    }();
    for (std::size_t bytes = 0; bytes < text.size(); bytes += bytes < 3 ? 1 : 97)
      check_is_damage(concat(file, " cut to ", bytes), [&](const std::string& entry) {
        write_text(entry + "/" + file, text.substr(0, bytes));
      });
    check_is_damage(file + " without its last byte", [&](const std::string& entry) {
      write_text(entry + "/" + file, text.substr(0, text.size() - 1));
    });
    for (const std::string& more : {std::string("\n"), std::string(1, '\0'), std::string(5000, 'x')})
      check_is_damage(file + " longer",
                      [&](const std::string& entry) { write_text(entry + "/" + file, text + more); });
    check_is_damage(file + " missing",
                    [&](const std::string& entry) { REQUIRE(unlink((entry + "/" + file).c_str()) == 0); });
    check_is_damage(file + " huge", [&](const std::string& entry) {
      REQUIRE(truncate((entry + "/" + file).c_str(), off_t{1} << 40) == 0);
    });
  }
}

TEST_CASE(
    "a file of an entry that is replaced by a folder, link, FIFO or socket is noticed and does not block") {
  for (const std::string& file : kFiles) {
    const auto replaced_by = [&](const char* what, const std::function<void(const std::string&)>& make) {
      check_is_damage(concat(file, " is ", what), [&](const std::string& entry) {
        const std::string path = entry + "/" + file;
        // A link to the right bytes is no better.
        REQUIRE(rename(path.c_str(), (entry + "/../../moved").c_str()) == 0);
        make(path);
      });
    };
    replaced_by("a folder", [](const std::string& path) { REQUIRE(mkdir(path.c_str(), 0700) == 0); });
    replaced_by("a folder with content", [](const std::string& path) {
      REQUIRE(mkdir(path.c_str(), 0700) == 0);
      write_text(path + "/inside", "x");
      REQUIRE(chmod(path.c_str(), 0500) == 0);
    });
    replaced_by("a link",
                [](const std::string& path) { REQUIRE(symlink("../../moved", path.c_str()) == 0); });
    replaced_by("a FIFO", [](const std::string& path) { REQUIRE(mkfifo(path.c_str(), 0600) == 0); });
    replaced_by("a socket",
                [](const std::string& path) { REQUIRE(mknod(path.c_str(), S_IFSOCK | 0600, 0) == 0); });
  }
}

TEST_CASE("a FIFO in place of an empty log is noticed though it reads like one") {
  CacheFixture fixture;
  CubinCache cache = fixture.open();
  CompiledKernel kernel = kernel_of(1);
  kernel.log.clear();
  cache.store(kernel);
  const std::string path = fixture.entry_of(kernel) + "/log";
  REQUIRE(unlink(path.c_str()) == 0);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK(cache.verify()->damaged.size() == 1);
  CHECK_FALSE(cache.find(kernel.key));
}

TEST_CASE("an entry that its owner cannot enter or change is noticed and removed") {
  for (const unsigned mode : {0u, 0500u, 0200u}) {
    CacheFixture fixture;
    CHECK(in_child([&]() -> std::string {
            become_a_normal_user(fixture.parent.path());
            CubinCache cache = fixture.open();
            cache.store(kernel_of(1));
            write_text(fixture.entry_of(kernel_of(1)) + "/cubin", "x");
            chmod(fixture.entry_of(kernel_of(1)).c_str(), mode);
            if (cache.find(kernel_of(1).key)) return "found";
            if (!leftovers_in(fixture.path).empty()) return "a leftover";
            cache.store(kernel_of(1));
            return has(cache, kernel_of(1)) ? "" : "not kept";
          }) == "");
  }
}

TEST_CASE("a folder of an entry that is replaced, empty or another key's is noticed") {
  const auto move_away = [](const std::string& entry) {
    REQUIRE(rename(entry.c_str(), (entry + "/../../moved").c_str()) == 0);
  };
  check_is_damage("a file", [&](const std::string& entry) {
    move_away(entry);
    write_text(entry, "x");
  });
  check_is_damage("a link to the whole entry", [&](const std::string& entry) {
    move_away(entry);
    REQUIRE(symlink("../moved", entry.c_str()) == 0);
  });
  check_is_damage("a FIFO", [&](const std::string& entry) {
    move_away(entry);
    REQUIRE(mkfifo(entry.c_str(), 0600) == 0);
  });
  check_is_damage("empty", [&](const std::string& entry) {
    move_away(entry);
    REQUIRE(mkdir(entry.c_str(), 0700) == 0);
  });
  check_is_damage("another key's", [&](const std::string& entry) {
    move_away(entry);
    CacheFixture other;
    other.open().store(kernel_of(2));
    REQUIRE(rename(other.entry_of(kernel_of(2)).c_str(), entry.c_str()) == 0);
  });
}

TEST_CASE("an entry that others own or may write to is not used") {
  for (const unsigned mode : {0720u, 0702u})
    check_is_damage(concat("folder of mode ", mode),
                    [&](const std::string& entry) { REQUIRE(chmod(entry.c_str(), mode) == 0); });
  for (const std::string& file : kFiles) {
    for (const unsigned mode : {0620u, 0602u})
      check_is_damage(concat(file, " of mode ", mode), [&](const std::string& entry) {
        REQUIRE(chmod((entry + "/" + file).c_str(), mode) == 0);
      });
    if (geteuid() == 0)
      check_is_damage(file + " of another user", [&](const std::string& entry) {
        REQUIRE(chown((entry + "/" + file).c_str(), kNobody, kNobody) == 0);
      });
  }
  if (geteuid() == 0)
    check_is_damage("folder of another user",
                    [](const std::string& entry) { REQUIRE(chown(entry.c_str(), kNobody, kNobody) == 0); });
  else
    WARN("entries of another user are tried as root only");
}

TEST_CASE("something that is no folder does not keep an entry out of its place") {
  CacheFixture fixture;
  CubinCache cache = fixture.open();
  write_text(fixture.entry_of(kernel_of(1)), "x");
  cache.store(kernel_of(1));
  CHECK(has(cache, kernel_of(1)));
  CHECK(fixture.warnings.empty());
  CHECK(leftovers_in(fixture.path).empty());
}

TEST_CASE("an entry that cannot be read for now is not called damaged, and stays") {
  // Descriptors that may still be opened: none, or the entry's folder alone.
  for (const unsigned descriptors : {0u, 1u}) {
    CacheFixture fixture;
    CHECK(in_child([&]() -> std::string {
            CubinCache cache = fixture.open();
            cache.store(kernel_of(1));
            const int next = dup(0);
            close(next);
            rlimit files{};
            getrlimit(RLIMIT_NOFILE, &files);
            const rlimit few{.rlim_cur = static_cast<unsigned>(next) + descriptors,
                             .rlim_max = files.rlim_max};
            setrlimit(RLIMIT_NOFILE, &few);
            if (cache.find(kernel_of(1).key) || cache.find(kernel_of(1).key)) return "found without a file";
            if (fixture.warnings.size() != 1) return join(fixture.warnings, "; ");
            if (fixture.warnings[0].find("damaged") != std::string::npos) return fixture.warnings[0];
            if (descriptors == 0 && (cache.verify() || cache.entries() || cache.clear()))
              return "listed without a descriptor";
            cache.store(kernel_of(2));
            setrlimit(RLIMIT_NOFILE, &files);
            if (!has(cache, kernel_of(1))) return "the entry is gone";
            if (cache.find(kernel_of(2).key)) return "kept without a file";
            cache.store(kernel_of(3));
            return leftovers_in(fixture.path).empty() ? "" : "a leftover";
          }) == "");
  }
}

TEST_CASE("a key that JSON cannot hold or that is too long is said once and not kept") {
  CacheFixture fixture;
  CubinCache cache = fixture.open();
  for (const std::string& key : {std::string("\xff"), std::string(std::size_t{1} << 20, 'k')}) {
    CompiledKernel kernel = kernel_of(1);
    kernel.key = key;
    fixture.warnings.clear();
    cache.store(kernel);
    cache.store(kernel);
    CHECK(fixture.warnings.size() == 1);
    CHECK_FALSE(cache.find(key));
    CHECK(fixture.warnings.size() == 1);
  }
  CHECK(leftovers_in(fixture.path).empty());
}

TEST_CASE("above its limit the cache evicts the least recently used entries") {
  CacheFixture fixture;
  const i64 bytes = bytes_of_entry(kernel_of(1));
  CubinCache cache = fixture.open(3 * bytes);
  for (const i64 number : {1, 2, 3}) cache.store(kernel_of(number));
  CHECK(cache.entries()->size() == 3);
  CHECK(has(cache, kernel_of(1)));
  cache.store(kernel_of(4));  // evicts 2: 1 was used after it
  CHECK(cache.entries()->size() == 3);
  CHECK_FALSE(cache.find(kernel_of(2).key));
  for (const i64 number : {3, 1, 4}) CHECK(has(cache, kernel_of(number)));
  cache.store(kernel_of(5, bytes));  // room of two
  CHECK(cache.entries()->size() == 2);
  CHECK(has(cache, kernel_of(4)));
  CHECK(has(cache, kernel_of(5, bytes)));
  CHECK(fixture.warnings.empty());
  CHECK(leftovers_in(fixture.path).empty());
}

TEST_CASE("the entry just written stays, even alone above the limit and with a clock that went back") {
  CacheFixture fixture;
  CubinCache cache = fixture.open(1);
  for (const i64 number : {1, 2}) {
    cache.store(kernel_of(number));
    CHECK(has(cache, kernel_of(number)));
    CHECK(cache.entries()->size() == 1);
    set_age(fixture.entry_of(kernel_of(number)), -3600);
  }
}

TEST_CASE("folders and files are their owner's alone, whatever the umask") {
  for (const unsigned mask : {0u, 0777u}) {
    CacheFixture fixture;
    fixture.path = fixture.parent.path() + "/a/b//cache/";
    const std::string problem = in_child([&]() -> std::string {
      become_a_normal_user(fixture.parent.path());
      umask(static_cast<mode_t>(mask));
      CubinCache cache = fixture.open();
      cache.store(kernel_of(1));
      if (!has(cache, kernel_of(1))) return join(fixture.warnings, "; ") + " not found";
      for (const std::string folder : {"/a", "/a/b", "/a/b/cache"})
        if (mode_of(fixture.parent.path() + folder) != 0700) return folder;
      if (mode_of(fixture.entry_of(kernel_of(1))) != 0700) return "the entry";
      for (const std::string& file : kFiles)
        if (mode_of(fixture.entry_of(kernel_of(1)) + "/" + file) != 0600) return file;
      return "";
    });
    CHECK(problem == "");
  }
}

TEST_CASE("a cache that its owner cannot enter is an error, not a folder of damaged entries") {
  for (const mode_t mode : {0000u, 0200u, 0400u, 0500u}) {
    const test::TemporaryFolder folder;
    const std::string path = folder.path() + "/cache";
    REQUIRE(mkdir(path.c_str(), 0700) == 0);
    REQUIRE(chmod(path.c_str(), mode) == 0);
    const auto cache = CubinCache::open(path, kDefaultCacheLimit, [](const std::string&) {});
    INFO(mode);
    // Reading alone is enough to use what is there.
    CHECK(static_cast<bool>(cache) == (mode == 0500));
    if (!cache) CHECK(cache.error().code == ErrorCode::cache_unusable);
    CHECK(chmod(path.c_str(), 0700) == 0);
  }
}

TEST_CASE("a cache that others may write to, that is a link or another user's is refused with a remedy") {
  CacheFixture fixture;
  const auto refusal = [&](const std::string& path) {
    const Result<CubinCache> cache = CubinCache::open(path, kDefaultCacheLimit, nullptr);
    REQUIRE_FALSE(cache);
    CHECK(cache.error().code == ErrorCode::cache_refused);
    CHECK(cache.error().message.find(path) != std::string::npos);
    CHECK(cache.error().help.find("MOEPLAN_CACHE_DIR") != std::string::npos);
    return cache.error();
  };
  REQUIRE(mkdir(fixture.path.c_str(), 0700) == 0);
  for (const auto& [mode, text] :
       {std::pair{0720u, "0720"}, {0702u, "0702"}, {0777u, "0777"}, {01777u, "1777"}}) {
    REQUIRE(chmod(fixture.path.c_str(), mode) == 0);
    const Error error = refusal(fixture.path);
    CHECK(error.message.find(text) != std::string::npos);
    CHECK(error.help.find("chmod 700 " + fixture.path) != std::string::npos);
  }
  // Others may look: a kernel is no secret.
  REQUIRE(chmod(fixture.path.c_str(), 0755) == 0);
  CHECK(CubinCache::open(fixture.path, kDefaultCacheLimit, nullptr));

  const std::string link = fixture.parent.path() + "/link";
  REQUIRE(symlink("cache", link.c_str()) == 0);
  CHECK(refusal(link).message.find("symbolic link") != std::string::npos);
  REQUIRE(rmdir(fixture.path.c_str()) == 0);
  CHECK(refusal(link).message.find("symbolic link") != std::string::npos);
  CHECK_FALSE(exists(fixture.path));

  std::string others = "/";
  if (geteuid() == 0) {
    others = fixture.path;
    REQUIRE(mkdir(others.c_str(), 0700) == 0);
    REQUIRE(chown(others.c_str(), kNobody, kNobody) == 0);
  }
  CHECK(refusal(others).message.find("belongs to user") != std::string::npos);
}

TEST_CASE("a cache that is no folder or cannot be made is unusable, and the reason is said") {
  CacheFixture fixture;
  const std::string file = fixture.parent.write("file", "x");
  for (const std::string& path : {file, file + "/cache", std::string("/proc/no/cache")}) {
    const Result<CubinCache> cache = CubinCache::open(path, kDefaultCacheLimit, nullptr);
    REQUIRE_FALSE(cache);
    CHECK(cache.error().code == ErrorCode::cache_unusable);
    CHECK(cache.error().message.find(path) != std::string::npos);
    CHECK_FALSE(cache.error().help.empty());
  }
  CHECK(read_file(file) == "x");
}

TEST_CASE("a parent that is a link is followed, and one that is swapped later changes nothing") {
  CacheFixture fixture;
  const std::string root = fixture.parent.path();
  REQUIRE(mkdir((root + "/real").c_str(), 0700) == 0);
  REQUIRE(symlink("real", (root + "/link").c_str()) == 0);
  fixture.path = root + "/link/cache";
  CubinCache cache = fixture.open();
  cache.store(kernel_of(1));
  REQUIRE(rename((root + "/real").c_str(), (root + "/old").c_str()) == 0);
  REQUIRE(mkdir((root + "/real").c_str(), 0700) == 0);
  REQUIRE(mkdir((root + "/real/cache").c_str(), 0700) == 0);
  cache.store(kernel_of(2));
  CHECK(has(cache, kernel_of(1)));
  CHECK(has(cache, kernel_of(2)));
  CHECK(*cache.clear() == 2);
  CHECK(std::filesystem::is_empty(root + "/old/cache"));
  CHECK(std::filesystem::is_empty(root + "/real/cache"));
}

TEST_CASE("clear() removes entries and leftovers and nothing else") {
  CacheFixture fixture;
  CubinCache cache = fixture.open();
  for (const i64 number : {1, 2, 3}) cache.store(kernel_of(number));
  REQUIRE(mkdir((fixture.path + "/.unfinished-1-2").c_str(), 0700) == 0);
  write_text(fixture.path + "/.unfinished-1-2/cubin", "half");
  // A damaged entry counts as one.
  write_text(fixture.entry_of(kernel_of(2)) + "/cubin", "x");
  std::vector<std::string> foreign = {"README",
                                      ".unfinished-",
                                      ".unfinished-mine",
                                      std::string(64, 'A'),
                                      std::string(64, 'g'),
                                      std::string(63, 'a'),
                                      std::string(65, 'a')};
  for (const std::string& name : foreign) write_text(fixture.path + "/" + name, "foreign");
  REQUIRE(mkdir((fixture.path + "/folder").c_str(), 0700) == 0);
  write_text(fixture.path + "/folder/file", "foreign");

  CHECK(*cache.clear() == 3);
  CHECK(cache.entries()->empty());
  std::vector<std::string> left;
  for (const auto& item : std::filesystem::directory_iterator(fixture.path))
    left.push_back(item.path().filename().string());
  foreign.push_back("folder");
  std::ranges::sort(left);
  std::ranges::sort(foreign);
  CHECK(left == foreign);
  CHECK(read_file(fixture.path + "/folder/file") == "foreign");
  CHECK(*cache.clear() == 0);

  cache.store(kernel_of(1));
  CHECK(has(cache, kernel_of(1)));
  CHECK(cache.verify()->whole == 1);
  CHECK(cache.verify()->damaged.empty());
}

TEST_CASE(
    "what an interrupted writer left goes with the next store: what a writer still holds stays an hour") {
  CacheFixture fixture;
  CubinCache cache = fixture.open();
  const auto leave = [&](const std::string& name) {
    const std::string path = fixture.path + "/" + name;
    REQUIRE(mkdir(path.c_str(), 0700) == 0);
    write_text(path + "/cubin", "half");
    return path;
  };
  leave(".unfinished-1-1");
  write_text(fixture.path + "/.unfinished-1-2", "no folder");
  set_age(fixture.path + "/.unfinished-1-2", 3700);
  const std::string held = leave(".unfinished-1-3");
  const int lock = open(held.c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(flock(lock, LOCK_EX) == 0);
  set_age(held, 3500);

  cache.store(kernel_of(1));
  CHECK(leftovers_in(fixture.path) == std::vector<std::string>{".unfinished-1-3"});
  CHECK(*cache.clear() == 1);
  CHECK(leftovers_in(fixture.path).size() == 1);
  set_age(held, 3700);
  cache.store(kernel_of(2));
  CHECK(leftovers_in(fixture.path).empty());
  close(lock);
  CHECK(fixture.warnings.empty());
}

TEST_CASE("a temporary name that is taken is passed over") {
  CacheFixture fixture;
  CubinCache cache = fixture.open();
  // Names are counted through; the one that this store takes tells which come next.
  const int watch = inotify_init1(IN_NONBLOCK);
  REQUIRE(inotify_add_watch(watch, fixture.path.c_str(), IN_CREATE) >= 0);
  cache.store(kernel_of(1));
  alignas(inotify_event) char event[sizeof(inotify_event) + NAME_MAX + 1];
  REQUIRE(read(watch, event, sizeof event) > 0);
  close(watch);
  const std::string name = reinterpret_cast<const inotify_event*>(event)->name;
  const std::size_t dash = name.rfind('-');
  const i64 number = std::stoll(name.substr(dash + 1));
  for (i64 next = number + 1; next <= number + 50; ++next) {
    const std::string path = concat(fixture.path, "/", name.substr(0, dash + 1), next);
    // Recent, and no folder: nobody may remove it.
    write_text(path, "x");
  }
  cache.store(kernel_of(2));
  CHECK(has(cache, kernel_of(2)));
  CHECK(leftovers_in(fixture.path).size() == 50);
  CHECK(fixture.warnings.empty());
}

TEST_CASE("threads share a cache") {
  CacheFixture fixture;
  CubinCache cache = fixture.open(4 * bytes_of_entry(kernel_of(1)));
  std::atomic<i64> wrong = 0, found = 0;
  const auto work = [&](i64 thread) {
    for (i64 round = 0; round < 150; ++round) {
      const CompiledKernel kernel = kernel_of((round * 5 + thread) % 7);
      if (round % 3 == 0) cache.store(kernel);
      const std::optional<CompiledKernel> got = cache.find(kernel.key);
      if (got) ++found;
      if (got && !is_same(*got, kernel)) ++wrong;
      if (round % 50 == 49 && (!cache.clear() || !cache.verify() || !cache.entries())) ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (i64 thread = 0; thread < 4; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(found > 0);
  CHECK(fixture.warnings == std::vector<std::string>{});
  CHECK(leftovers_in(fixture.path).empty());
}

TEST_CASE("of threads that meet the same damage or the same failure, one says so") {
  CacheFixture fixture;
  CubinCache cache = fixture.open();
  CompiledKernel unkept = kernel_of(0);
  unkept.key = "\xff";
  constexpr i64 kRounds = 60;
  std::atomic<i64> wrong = 0;
  for (i64 round = 1; round <= kRounds; ++round) {
    const CompiledKernel kernel = kernel_of(round);
    cache.store(kernel);
    write_text(fixture.entry_of(kernel) + "/cubin", "x");
    std::atomic<i64> ready = 0;
    const auto work = [&] {
      // Together: threads start later than one of them takes.
      for (++ready; ready < 4;) std::this_thread::yield();
      if (cache.find(kernel.key)) ++wrong;
      cache.store(unkept);
    };
    std::vector<std::thread> threads;
    for (i64 thread = 0; thread < 4; ++thread) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
  }
  CHECK(wrong == 0);
  CHECK(fixture.warnings.size() == kRounds + 1);
}

TEST_CASE(
    "the cache lies in MOEPLAN_CACHE_DIR, else in XDG_CACHE_HOME, else in HOME: the paths are absolute") {
  CHECK(*cache_folder({.cache_dir = "/c", .home = "/h", .xdg_cache_home = "/x"}) == "/c");
  CHECK(*cache_folder({.home = "/h", .xdg_cache_home = "/x"}) == "/x/moeplan");
  CHECK(*cache_folder({.home = "/h"}) == "/h/.cache/moeplan");
  CHECK(*cache_folder({.home = "/h", .xdg_cache_home = "x"}) == "/h/.cache/moeplan");
  for (const RuntimeEnvironment& environment :
       {RuntimeEnvironment{.cache_dir = "c", .home = "/h", .xdg_cache_home = "/x"},
        RuntimeEnvironment{.xdg_cache_home = "x"}, RuntimeEnvironment{.home = "h"}, RuntimeEnvironment{}}) {
    const Result<std::string> folder = cache_folder(environment);
    REQUIRE_FALSE(folder);
    CHECK(folder.error().code == ErrorCode::cache_unusable);
    CHECK(folder.error().help.find("write an absolute path") == 0);
  }
}
