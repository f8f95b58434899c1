// Which kernels a Trellis plan launches, and with what.
#include "runtime/moe/trellis_kernels.hpp"

#include <algorithm>
#include <set>

#include "planner/moe/geometry.hpp"
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
  TrellisPlan plan() const { return trellis_plan(request, layout); }
};

Planned planned_of(const char* contract, i64 experts, i64 top_k, i64 capacity, std::optional<i64> block) {
  Planned planned{trellis_request(contract, experts, 512, 256, top_k, capacity, 188), {}};
  planned.request.capacity.block_size_m = block;
  const auto layout = plan_moe(planned.request);
  REQUIRE(layout);
  planned.layout = *layout;
  return planned;
}

// Its arena starts at an address of its own choosing: nothing here is dereferenced.
std::byte* const kArena = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);

TrellisLaunches launches_of(const Planned& planned, i64 tokens, const TrellisInputs& inputs = {}) {
  return trellis_launches(planned.plan(), tokens, trellis_tensors(planned.layout, kArena), {}, inputs);
}

}  // namespace

TEST_CASE("a pinned plan has one fused kernel, and one of each other kernel for each type of ids") {
  const Planned planned = planned_of("sparkinfer-de04125", 16, 4, 64, 32);
  std::vector<std::string> names;
  for (const KernelVariant& variant : trellis_variants(planned.plan())) names.push_back(text_of(variant));
  CHECK(names == std::vector<std::string>{
                     "route_pack BLOCK=32 ID_BYTES=4", "route_pack BLOCK=32 ID_BYTES=8",
                     "fused_trellis BLOCK=32 BITS=3 TILE_K=64 TILE_N=128 STAGES=4 CODEBOOK=1 INPUT_BF16=0",
                     "top_k_sum ID_BYTES=4", "top_k_sum ID_BYTES=8"});
}

TEST_CASE("every launch of every plan uses a kernel that the plan lists, and lists no block in vain") {
  Random random;
  std::vector<int> map(1024);
  for (int i = 0; i < 60; ++i) {
    const char* contract = kContractIds[random.in(0, 2)];
    const i64 capacity = random.in(1, 300);
    const auto block = random.in(0, 1) ? std::optional<i64>(kBlockSizes[random.in(0, 4)]) : std::nullopt;
    const Planned planned =
        planned_of(contract, random.of({1, 4, 16, 60, 160, 384}), random.in(1, 12), capacity, block);
    const auto listed = trellis_variants(planned.plan());
    std::set<KernelVariant> launched;
    for (i64 tokens = 1; tokens <= capacity; ++tokens) {
      for (i64 id_bytes : {4, 8}) {
        for (bool has_map : {false, true}) {
          if (has_map && !planned.plan().may_have_map) continue;
          TrellisInputs inputs{.id_bytes = id_bytes};
          if (has_map) inputs.expert_map = map.data();
          const TrellisLaunches launches = launches_of(planned, tokens, inputs);
          launched.insert({launches.route_pack.variant, launches.fused.variant, launches.top_k_sum.variant});
          CHECK(launches.route_pack.variant.values[0] == launches.block);
          CHECK(launches.fused.variant.values[0] == launches.block);
        }
      }
    }
    CHECK(launched == std::set<KernelVariant>(listed.begin(), listed.end()));
  }
}

TEST_CASE("a launch works in the tensors of the plan, and its routes fill what its bucket of tokens needs") {
  const Planned planned = planned_of("sparkinfer-de04125", 8, 2, 100, 8);
  const auto offset = [&](std::string_view name) { return find_tensor(planned.layout, name)->offset; };
  const TrellisLaunches launches = launches_of(planned, 33);
  const auto at = [](const void* address) { return static_cast<const std::byte*>(address) - kArena; };
  CHECK(at(launches.route_pack.arguments.packed_route_indices) == offset("packed_route_indices"));
  CHECK(at(launches.fused.arguments.rotation_a_up) == offset("rotation_a_up"));
  CHECK(at(launches.fused.arguments.barrier) ==
        offset("kernel_workspace") + bytes_of(planned.layout, "kernel_workspace") - 8);
  CHECK(at(launches.top_k_sum.arguments.output) == offset("full_rotation_output"));
  CHECK(launches.route_pack.arguments.routes == 66);
  CHECK(launches.route_pack.arguments.slots == route_slots(64 * 2, 8, 8));
  CHECK(launches.route_pack.arguments.blocks == ceil_div(route_slots(64 * 2, 8, 8), 8));
  CHECK(launches.fused.grid == 188);
  CHECK(launches.top_k_sum.grid == ceil_div(33, 8));
  // 128 tokens are not planned for: the routes are packed as many as they are.
  CHECK(launches_of(planned, 99).route_pack.arguments.slots == route_slots(99 * 2, 8, 8));
}

TEST_CASE(
    "every tile fits a device with 99 KiB of shared memory a block, and is read back from its variant") {
  for (i64 block : kBlockSizes) {
    for (i64 bits = kFewestTrellisBits; bits <= kMostTrellisBits; ++bits) {
      const TrellisTile tile = trellis_tile(block, bits);
      CHECK(trellis_shared(tile).bytes <= kShared);
      const TrellisTile read = trellis_tile_of(fused_trellis_variant(tile, Codebook::mcg, true));
      CHECK((read.block == block && read.bits == bits && read.tile_k == tile.tile_k &&
             read.tile_n == tile.tile_n && read.stages == tile.stages));
    }
  }
}

TEST_CASE("plans that our kernels do not run say why") {
  const auto missing = [](auto change) {
    MoeRequest request = trellis_request("b12x-36bce2c", 16, 512, 256, 4, 64, 188);
    change(request);
    const auto layout = plan_moe(request);
    REQUIRE(layout);
    return missing_trellis_kernels(request, *layout);
  };
  CHECK(missing([](MoeRequest&) {}).empty());
  CHECK(missing([](MoeRequest& r) { r.weights.activation = Activation::situ; }).find("silu") !=
        std::string::npos);
  CHECK(missing([](MoeRequest& r) { r.weights.trellis_codebook = TrellisCodebook::sqg_e4m3; }).find("mcg") !=
        std::string::npos);
  CHECK(missing([](MoeRequest& r) { r.capacity.route_experts = 2000; }).find("1024") != std::string::npos);
  CHECK(missing([](MoeRequest& r) {
          r = trellis_request(kLeanContractId, 16, 512, 256, 4, 64, 188);
        }).find("not of moeplan-lean-1") != std::string::npos);
}
