// Keys, and kernels compiled by the NVRTC of this machine; where there is none, that is said.
#include "runtime/jit/compiler.hpp"

#include <chrono>
#include <set>

#include "planner/core/text.hpp"
#include "tests/catch.hpp"
#include "tests/runtime/compiler_support.hpp"
#include "tests/temporary_folder.hpp"

using namespace moeplan;

namespace {

const Architecture& target() { return *find_architecture("sm_120"); }
constexpr KernelVariant kFill{KernelId::arena_fill, {}};
constexpr KernelVariant kScan{KernelId::arena_scan, {}};

}  // namespace

TEST_CASE("a key changes with everything that changes code") {
  const std::string key = kernel_key(kFill, target(), {13, 0}, "digest");
  std::set<std::string> keys = {key};
  keys.insert(kernel_key(kScan, target(), {13, 0}, "digest"));
  keys.insert(kernel_key(kFill, *find_architecture("sm_121"), {13, 0}, "digest"));
  keys.insert(kernel_key(kFill, target(), {13, 1}, "digest"));
  keys.insert(kernel_key(kFill, target(), {13, 0}, "other"));
  CHECK(keys.size() == 5);
  CHECK(kernel_key(kFill, target(), {13, 0}, "digest") == key);
}

TEST_CASE("every define of every kernel is part of its key") {
  for (const KernelRow& row : kernel_catalog()) {
    for (std::size_t i = 0; i < row.defines.size(); ++i) {
      INFO(row.name << " " << row.defines[i]);
      KernelVariant variant = some_variant_of(row);
      const std::string key = kernel_key(variant, target(), {13, 0}, "digest");
      CHECK(key.find(concat("option -D", row.defines[i], "=", variant.values[i], "\n")) != std::string::npos);
    }
  }
}

TEST_CASE("no fact of a single launch is part of a key") {
  for (const KernelRow& row : kernel_catalog()) {
    const std::string key = kernel_key(some_variant_of(row), target(), {13, 0}, "digest");
    for (const char* word : {"TOKENS", "CAPACITY", "MAX_M_BLOCKS", "ROUTES", "LIVE"}) {
      INFO(row.name << " " << word);
      CHECK(key.find(word) == std::string::npos);
    }
  }
}

TEST_CASE("a kernel compiles to the same bytes every time, alone or beside others") {
  auto compiler = compiler_of_this_machine();
  if (!compiler) return;
  const KernelVariant variants[] = {kFill, kScan, kFill};
  const auto first = compiler->compile(variants, target(), 2);
  const auto second = compiler->compile({variants, 1}, target(), 1);
  REQUIRE(first);
  REQUIRE(second);
  REQUIRE((*first)[0]);
  REQUIRE((*first)[1]);
  CHECK((*first)[0]->kernel.cubin == (*second)[0]->kernel.cubin);
  CHECK((*first)[0]->kernel.cubin == (*first)[2]->kernel.cubin);
  CHECK((*first)[0]->kernel.cubin != (*first)[1]->kernel.cubin);
  CHECK(
      (*first)[0]->kernel.cubin.starts_with("\x7f"
                                            "ELF"));
  CHECK((*first)[0]->kernel.resources.registers > 0);
}

TEST_CASE("a kernel that does not compile is told with the compiler's log, its name and line") {
  const test::TemporaryFolder folder;
  folder.write("arena/fill.cu", "extern \"C\" __global__ void arena_fill() {\n  wrong;\n}\n");
  auto compiler = compiler_of_this_machine({.kernel_dir = folder.path()});
  if (!compiler) return;
  const auto results = compiler->compile({&kFill, 1}, target(), 1);
  REQUIRE(results);
  REQUIRE_FALSE(results->front());
  const Error& error = results->front().error();
  CHECK(error.code == ErrorCode::kernel_compile);
  CHECK(error.message.find("arena_fill") != std::string::npos);
  CHECK(error.message.find("kernels/arena/fill.cu(2)") != std::string::npos);
  CHECK(error.message.find("wrong") != std::string::npos);
}

TEST_CASE("a kernel whose entry point has another name is refused") {
  const test::TemporaryFolder folder;
  folder.write("arena/fill.cu", "extern \"C\" __global__ void another() {}\n");
  auto compiler = compiler_of_this_machine({.kernel_dir = folder.path()});
  if (!compiler) return;
  const auto results = compiler->compile({&kFill, 1}, target(), 1);
  REQUIRE(results);
  CHECK_FALSE(results->front());
}

TEST_CASE("what was compiled once comes from the cache, the same") {
  const test::TemporaryFolder folder;
  std::vector<std::string> said;
  const auto open = [&] {
    auto cache = CubinCache::open(folder.path() + "/cache", kDefaultCacheLimit,
                                  [&](const std::string& text) { said.push_back(text); });
    REQUIRE(cache);
    return std::move(*cache);
  };
  auto compiler = compiler_of_this_machine({}, open());
  if (!compiler) return;
  const auto built = compiler->compile({&kFill, 1}, target(), 1);
  auto again = compiler_of_this_machine({}, open());
  const auto found = again->compile({&kFill, 1}, target(), 1);
  REQUIRE(built);
  REQUIRE(found);
  CHECK_FALSE(built->front()->is_from_cache);
  CHECK(found->front()->is_from_cache);
  CHECK(found->front()->kernel.cubin == built->front()->kernel.cubin);
  CHECK(found->front()->kernel.resources == built->front()->kernel.resources);
  const auto other = again->compile({&kFill, 1}, *find_architecture("sm_90"), 1);
  CHECK_FALSE(other->front()->is_from_cache);
  CHECK(said.empty());
}
