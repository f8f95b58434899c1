#include "cli/commands/shared_limit.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "tests/catch.hpp"

using namespace moeplan;

TEST_CASE("too much shared memory names whose limit it is, and what would help") {
  CHECK(shared_limit(100, "sm_120", std::nullopt).source == "the limit of sm_120");
  CHECK(shared_limit(100, "sm_120", 100).pointer.empty());
  CHECK(shared_limit(100, "sm_120", 200).bytes == 100);
  const SharedLimit stated = shared_limit(100, "sm_120", 64);
  const Finding score = shared_memory_finding("k", KernelId::indexer_score, 80, stated, "/plans/0");
  CHECK(score.pointer == "/device/shared_memory_per_block_optin");
  CHECK(score.message ==
        "kernel k takes 80 B of shared memory a block, 64 B are to be had: the "
        "config's shared_memory_per_block_optin");
  CHECK(score.remedy == "a device with more");
  const Finding fused = shared_memory_finding("k", KernelId::fused_packed, 120,
                                              shared_limit(100, "sm_120", std::nullopt), "/plans/0");
  CHECK(fused.pointer == "/plans/0");
  CHECK(fused.message.ends_with("100 B are to be had: the limit of sm_120"));
  CHECK(fused.remedy == "a device with more, or another block size");
}

TEST_CASE("another block size is a remedy wherever the shared memory of a plan's kernels depends on it") {
  for (const KernelRow& row : kernel_catalog()) {
    INFO(row.name);
    const auto block = std::ranges::find(row.defines, "BLOCK") - row.defines.begin();
    const bool has_block = block < std::ssize(row.defines);
    CHECK((has_block || !row.shared_depends_on_block));
    if (!has_block || row.shared_depends_on_block) continue;
    std::map<KernelVariant, std::set<i64>> bytes;  // of variants that differ in their block alone
    for (const KernelVariant& variant : row.variants()) {
      KernelVariant others = variant;
      others.values[static_cast<std::size_t>(block)] = 0;
      bytes[others].insert(shared_bytes_of(variant));
    }
    for (const auto& [others, amounts] : bytes) CHECK(amounts.size() == 1);
  }
  for (const KernelId fused :
       {KernelId::fused_trellis, KernelId::fused_trellis_narrow, KernelId::fused_packed})
    CHECK(row_of(fused).shared_depends_on_block);
}
