// Every kernel in every variant that a plan can ask for, compiled for the part it is made for and for the one
// it is tried on.
#include <thread>

#include "tests/catch.hpp"
#include "tests/runtime/compiler_support.hpp"

using namespace moeplan;

namespace {

constexpr i64 kSharedLimit = 101'376;          // bytes a block on sm_120
constexpr i64 kRegistersOfGridBarriers = 128;  // 188 blocks of 256 threads are resident on 132 SMs up to here

void check_architecture(const char* name) {
  auto compiler = compiler_of_this_machine();
  if (!compiler) return;
  std::vector<KernelVariant> variants;
  for (const KernelRow& row : kernel_catalog()) {
    const auto of_row = row.variants();
    REQUIRE_FALSE(of_row.empty());
    variants.insert(variants.end(), of_row.begin(), of_row.end());
  }
  const auto results =
      compiler->compile(variants, *find_architecture(name), std::thread::hardware_concurrency());
  REQUIRE(results);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    INFO(text_of(variants[i]) << " for " << name);
    const Result<CompiledVariant>& result = (*results)[i];
    if (!result) FAIL_CHECK(result.error().message);
    if (!result) continue;
    const KernelResources& resources = result->kernel.resources;
    const KernelRow& row = row_of(variants[i].kernel);
    const i64 shared = shared_bytes_of(variants[i]) + resources.static_shared_bytes;
    CHECK(resources.spill_store_bytes == 0);
    CHECK(resources.spill_load_bytes == 0);
    CHECK(resources.stack_bytes == 0);  // an array that is indexed at run time lies in memory
    CHECK(shared <= kSharedLimit);
    CHECK(resident_blocks(*find_architecture(name), resources.registers, threads_of(variants[i]), shared) >=
          1);
    if (row.has_grid_barrier) CHECK(resources.registers <= kRegistersOfGridBarriers);
  }
}

}  // namespace

TEST_CASE("every kernel compiles for sm_120 without spills, within its shared memory") {
  check_architecture("sm_120");
}
TEST_CASE("every kernel compiles for sm_90 without spills, within the shared memory of sm_120") {
  check_architecture("sm_90");
}

TEST_CASE("one variant of every kernel compiles for every architecture") {
  auto compiler = compiler_of_this_machine();
  if (!compiler) return;
  std::vector<KernelVariant> variants;
  for (const KernelRow& row : kernel_catalog()) variants.push_back(some_variant_of(row));
  for (const Architecture& architecture : architectures()) {
    const auto results = compiler->compile(variants, architecture, 2);
    INFO(architecture.name);
    REQUIRE(results);
    for (const auto& result : *results) {
      if (!result) FAIL_CHECK(result.error().message);
    }
  }
}
