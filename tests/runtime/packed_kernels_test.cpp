// Which kernels a plan of packed weights launches, and with what.
#include "runtime/moe/packed_kernels.hpp"

#include <algorithm>
#include <set>

#include "planner/moe/geometry.hpp"
#include "runtime/planned_kernels.hpp"
#include "tests/catch.hpp"
#include "tests/random.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

constexpr i64 kShared = 101'376;

struct Planned {
  MoeRequest request;
  MoeLayout layout;
  PackedPlan plan() const { return packed_plan(request, layout); }
  bool is_run() const { return missing_packed_kernels(request, layout).empty(); }
};

Planned planned_of(const char* contract, i64 experts, i64 top_k, i64 capacity, std::optional<i64> block) {
  Planned planned{packed_request(contract, experts, 512, 192, top_k, capacity, 188), {}};
  planned.request.capacity.block_size_m = block;
  const auto layout = plan_moe(planned.request);
  REQUIRE(layout);
  planned.layout = *layout;
  return planned;
}

// Arena and workspace start at addresses of their own choosing: nothing here is dereferenced.
std::byte* const kArena = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
int* const kWorkspace = reinterpret_cast<int*>(std::uintptr_t{1} << 41);

PackedLaunches launches_of(const Planned& planned, i64 tokens, PackedInputs inputs = {}) {
  inputs.kernel_workspace = kWorkspace;
  return packed_launches(planned.plan(), tokens, packed_tensors(planned.layout, kArena), {}, inputs);
}

std::vector<std::string> names_of(const std::vector<KernelVariant>& variants) {
  std::vector<std::string> names;
  for (const KernelVariant& variant : variants) names.push_back(text_of(variant));
  return names;
}

}  // namespace

TEST_CASE("a pinned packed plan has one fused kernel, and one of each other kernel for each type of ids") {
  const Planned planned = planned_of("sparkinfer-c2f135c", 16, 4, 64, 32);
  const std::vector<std::string> expected{"route_pack BLOCK=32 ID_BYTES=4", "route_pack BLOCK=32 ID_BYTES=8",
                                          "fused_packed BLOCK=32 TILE_K=64 TILE_N=128 STAGES=4 IO_BF16=1",
                                          "route_sum IO_BF16=1 ID_BYTES=4", "route_sum IO_BF16=1 ID_BYTES=8"};
  CHECK(names_of(packed_variants(planned.plan())) == expected);
  CHECK(names_of(planned_kernels(planned.request, planned.layout).variants) == expected);
}

TEST_CASE("a packed plan of few tokens packs no routes") {
  const Planned planned = planned_of("sparkinfer-c2f135c", 16, 4, 8, 8);
  CHECK(names_of(packed_variants(planned.plan())) ==
        std::vector<std::string>{"fused_packed BLOCK=8 TILE_K=64 TILE_N=128 STAGES=6 IO_BF16=1",
                                 "route_sum IO_BF16=1 ID_BYTES=4", "route_sum IO_BF16=1 ID_BYTES=8"});
  CHECK_FALSE(launches_of(planned, 8).route_pack);
}

TEST_CASE("every launch of every packed plan uses a kernel that the plan lists, and lists none in vain") {
  Random random;
  std::vector<int> map(1024);
  int run = 0;
  for (int i = 0; i < 60; ++i) {
    const char* contract = kContractIds[random.in(0, 2)];
    const i64 capacity = random.in(1, 300);
    const auto block = random.in(0, 1) ? std::optional<i64>(kBlockSizes[random.in(0, 4)]) : std::nullopt;
    const Planned planned =
        planned_of(contract, random.of({1, 4, 16, 60, 160, 384}), random.in(1, 12), capacity, block);
    if (!planned.is_run()) continue;
    ++run;
    const auto listed = packed_variants(planned.plan());
    std::set<KernelVariant> launched;
    for (i64 tokens = 1; tokens <= capacity; ++tokens) {
      for (i64 id_bytes : {4, 8}) {
        for (bool has_map : {false, true}) {
          if (has_map && !planned.plan().may_have_map) continue;
          PackedInputs inputs{.id_bytes = id_bytes};
          if (has_map) inputs.expert_map = map.data();
          const PackedLaunches launches = launches_of(planned, tokens, inputs);
          if (launches.route_pack) launched.insert(launches.route_pack->variant);
          launched.insert({launches.fused.variant, launches.route_sum.variant});
          CHECK(launches.fused.variant.values[0] == launches.block);
          CHECK(launches.fused.arguments.is_direct == !launches.route_pack);
        }
      }
    }
    CHECK(launched == std::set<KernelVariant>(listed.begin(), listed.end()));
  }
  CHECK(run > 30);
}

TEST_CASE("a packed launch works in the tensors of the plan, its locks and barrier in the workspace") {
  const Planned planned = planned_of("sparkinfer-c2f135c", 8, 2, 100, 8);
  const auto offset = [&](std::string_view name) { return find_tensor(planned.layout, name)->offset; };
  const PackedLaunches launches = launches_of(planned, 33);
  const auto at = [](const void* address) { return static_cast<const std::byte*>(address) - kArena; };
  REQUIRE(launches.route_pack);
  CHECK(at(launches.route_pack->arguments.packed_route_indices) == offset("packed_route_indices"));
  CHECK(launches.route_pack->arguments.expert_counts == nullptr);
  CHECK(launches.route_pack->arguments.routes == 66);
  CHECK(launches.route_pack->arguments.slots == route_slots(64 * 2, 8, 8));
  CHECK(at(launches.fused.arguments.fc1_c_tmp) == offset("fc1_c_tmp"));
  CHECK(at(launches.fused.arguments.fc2_c_tmp) == offset("fc2_c_tmp"));
  CHECK(at(launches.fused.arguments.intermediate_cache2) == offset("intermediate_cache2"));
  CHECK(launches.fused.arguments.locks == kWorkspace);
  CHECK(launches.fused.arguments.barrier == kWorkspace + 4 * 188);
  CHECK(launches.fused.grid == 188);
  CHECK(launches.route_sum.grid == ceil_div(33 * 4, 8));
  // b12x has a tensor for the counts.
  const Planned counted = planned_of("b12x-36bce2c", 8, 2, 100, 8);
  CHECK(at(launches_of(counted, 33).route_pack->arguments.expert_counts) ==
        find_tensor(counted.layout, "expert_counts")->offset);
}

TEST_CASE("partial sums of every packed tile fit the scratch that is planned, whatever its bound") {
  Random random;
  for (int i = 0; i < 2000; ++i) {
    const i64 block = kBlockSizes[random.in(0, 4)], sms = random.in(1, 200);
    const i64 blocks = random.in(1, 400), columns = 128 * random.in(1, 60);
    const PackedTile tile = packed_tile(block);
    const i64 tiles = blocks * (columns / tile.tile_n);
    const i64 planned = gemm_scratch_elements(columns, blocks * block, block, sms);
    CHECK(min_of(tiles, sms) * packed_region_elements(tile) <= planned);
    // Where columns bound the scratch it is as large as all tiles' sums.
    if (planned < gemm_scratch_cap(block, sms) * (block == 8 ? 2 : 1))
      CHECK(tiles * packed_region_elements(tile) == planned);
  }
}

TEST_CASE("every packed tile fits a device with 99 KiB of shared memory and is read back from its variant") {
  for (i64 block : kBlockSizes) {
    const PackedTile tile = packed_tile(block);
    CHECK(packed_shared(tile).bytes <= kShared);
    const PackedTile read = packed_tile_of(fused_packed_variant(tile, true));
    CHECK((read.block == block && read.tile_k == tile.tile_k && read.tile_n == tile.tile_n &&
           read.stages == tile.stages));
  }
}

TEST_CASE("packed plans that our kernels do not run say why") {
  const auto missing = [](auto change, const char* contract = "b12x-36bce2c") {
    MoeRequest request = packed_request(contract, 16, 512, 192, 4, 64, 188);
    change(request);
    const auto layout = plan_moe(request);
    REQUIRE(layout);
    return planned_kernels(request, *layout).missing;
  };
  const auto says = [](const std::string& text, std::string_view word) {
    return text.find(word) != std::string::npos;
  };
  CHECK(missing([](MoeRequest&) {}).empty());
  CHECK(says(missing([](MoeRequest& r) { r.weights.activation = Activation::situ; }), "silu"));
  CHECK(says(missing([](MoeRequest& r) {
               r.weights.source_format = SourceFormat::fp4_e8m0_k32;
               r.weights.intermediate_size = 256;
             }),
             "NVFP4"));
  CHECK(says(missing([](MoeRequest& r) { r.weights.intermediate_size = 96; }), "64"));
  CHECK(says(missing([](MoeRequest& r) { r.capacity.route_experts = 2000; }), "1024"));
  // de04125 does not reserve what few tokens need that take their routes directly.
  CHECK(says(missing(
                 [](MoeRequest& r) {
                   r.weights.experts = 2;
                   r.capacity.max_tokens = 4;
                   r.capacity.block_size_m = 64;
                 },
                 "sparkinfer-de04125"),
             "more than the plan reserves"));
}
