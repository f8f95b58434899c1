// Keys, and kernels compiled by the NVRTC of this machine; where there is none, that is said.
#include "runtime/jit/compiler.hpp"

#include <filesystem>
#include <set>

#include "planner/core/text.hpp"
#include "runtime/planned_kernels.hpp"
#include "tests/catch.hpp"
#include "tests/runtime/compiler_support.hpp"
#include "tests/support.hpp"
#include "tests/temporary_folder.hpp"

using namespace moeplan;

namespace {

const Architecture& target() { return *find_architecture("sm_120"); }

}  // namespace

TEST_CASE("a key changes with the kernel, the architecture, the compiler's version and the sources") {
  const std::string key = kernel_key(kArenaFill, target(), {13, 0}, "digest");
  std::set<std::string> keys = {key};
  keys.insert(kernel_key(kArenaScan, target(), {13, 0}, "digest"));
  keys.insert(kernel_key(kArenaFill, *find_architecture("sm_121"), {13, 0}, "digest"));
  keys.insert(kernel_key(kArenaFill, target(), {13, 1}, "digest"));
  keys.insert(kernel_key(kArenaFill, target(), {13, 0}, "other"));
  CHECK(keys.size() == 5);
  CHECK(kernel_key(kArenaFill, target(), {13, 0}, "digest") == key);
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

TEST_CASE("plans that differ in live tokens, capacity and routes alone share their kernels") {
  const auto kernels = [](i64 tokens, i64 top_k) {
    MoeRequest request = test::trellis_request("sparkinfer-de04125", 16, 512, 256, top_k, tokens, 188);
    request.capacity.block_size_m = 16;
    return planned_kernels(request, *plan_moe(request)).variants;
  };
  REQUIRE_FALSE(kernels(64, 4).empty());
  CHECK(kernels(64, 4) == kernels(3072, 4));
  CHECK(kernels(64, 4) == kernels(64, 8));
}

TEST_CASE("a kernel compiles to the same bytes every time, alone or beside others") {
  auto compiler = compiler_of_this_machine();
  if (!compiler) return;
  const KernelVariant variants[] = {kArenaFill, kArenaScan, kArenaFill};
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

TEST_CASE("a kernel's bytes do not depend on the working folder, nor on what lies there") {
  auto compiler = compiler_of_this_machine();
  if (!compiler) return;
  const auto cubin = [&] {
    const auto results = compiler->compile({&kArenaScan, 1}, target(), 1);
    REQUIRE(results);
    REQUIRE(results->front());
    return results->front()->kernel.cubin;
  };
  const test::TemporaryFolder folder;
  folder.write("kernels/arena/scan.cu", "#error not this one\n");
  folder.write("planner/core/integer.hpp", "#error nor this one\n");
  const auto before = std::filesystem::current_path();
  const std::string here = cubin();
  std::filesystem::current_path(folder.path());
  const std::string there = cubin();
  std::filesystem::current_path(before);
  CHECK((here == there));
  CHECK(there.find(folder.path()) == std::string::npos);
}

TEST_CASE("a kernel that does not compile is told with the compiler's log, its name and line") {
  const test::TemporaryFolder folder;
  folder.write("arena/fill.cu", "extern \"C\" __global__ void arena_fill() {\n  wrong;\n}\n");
  auto compiler = compiler_of_this_machine({.kernel_dir = folder.path()});
  if (!compiler) return;
  const auto results = compiler->compile({&kArenaFill, 1}, target(), 1);
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
  const auto results = compiler->compile({&kArenaFill, 1}, target(), 1);
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
  const auto built = compiler->compile({&kArenaFill, 1}, target(), 1);
  auto again = compiler_of_this_machine({}, open());
  const auto found = again->compile({&kArenaFill, 1}, target(), 1);
  REQUIRE(built);
  REQUIRE(found);
  CHECK_FALSE(built->front()->is_from_cache);
  CHECK(found->front()->is_from_cache);
  CHECK(found->front()->kernel.cubin == built->front()->kernel.cubin);
  CHECK(found->front()->kernel.resources == built->front()->kernel.resources);
  const auto other = again->compile({&kArenaFill, 1}, *find_architecture("sm_90"), 1);
  CHECK_FALSE(other->front()->is_from_cache);
  CHECK(said.empty());
}
