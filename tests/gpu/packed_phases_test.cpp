// The kernels of packed NVFP4 plans on a GPU against the reference: each phase's tensors and the output, for
// every block size and type, with products that are split along K and that are not, in an arena of the plan's
// own size between guards.
#include <map>
#include <set>

#include "planner/moe/geometry.hpp"
#include "runtime/moe/packed_kernels.hpp"
#include "runtime/oracle/packed_reference.hpp"
#include "runtime/oracle/trellis_reference.hpp"
#include "tests/gpu/moe_support.hpp"
#include "tests/random.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

// The second is no number as a half, a bf16 number or a float. A byte that is written in both rounds shows in
// one of them.
constexpr ArenaPattern kRounds[] = {{.poison = 0x5A, .seed = 1}, {.poison = 0xFF, .seed = 0}};

// ---- Shapes, weights, tokens and routings: the same in every run. ----

struct LayerShape {
  const char* contract;
  i64 hidden, intermediate, experts, top_k, capacity;
  i64 router_experts;
};
// An odd number of 64 intermediate columns: a tile of FC1 has gate and up columns. The second one's router
// knows experts of other ranks, so that its launches have a map; and its hidden rows are the longer ones.
constexpr LayerShape kOwnExperts{"sparkinfer-c2f135c", 256, 192, 8, 3, 40, 8};
constexpr LayerShape kMappedExperts{"b12x-36bce2c", 384, 64, 5, 4, 24, 40};

double random_size(Random& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random.in(0, 1 << 20)) / (1 << 20);
}

// A matrix, and what its weights are multiplied by so that products with values near one are so too.
void add_matrix(Random& random, i64 inputs, i64 outputs, bool is_bfloat16,
                std::vector<oracle::PackedMatrix>& matrices, std::vector<double>& globals) {
  oracle::Nvfp4Matrix matrix{inputs, outputs, {}, {}};
  for (i64 i = 0; i < inputs * outputs; ++i)
    matrix.codes.push_back(static_cast<std::uint8_t>(random.in(0, 15)));
  // From 1/4 to 4, and a few blocks of zeros.
  for (i64 i = 0; i < inputs / 16 * outputs; ++i)
    matrix.scales.push_back(static_cast<std::uint8_t>(random.in(0, 15) == 0 ? 0 : random.in(0x28, 0x48)));
  const double factor = is_bfloat16 ? oracle::largest_scale_factor(matrix) : 1;
  matrices.push_back(oracle::pack_nvfp4(matrix, factor));
  globals.push_back(random_size(random, 0.5, 1.5) / (4 * std::sqrt(static_cast<double>(inputs))) / factor);
}

oracle::PackedLayer layer_of(const LayerShape& s, bool is_bfloat16) {
  Random random;
  oracle::PackedLayer layer{
      .hidden = s.hidden, .intermediate = s.intermediate, .experts = s.experts, .is_bfloat16 = is_bfloat16};
  for (i64 expert = 0; expert < s.experts; ++expert) {
    add_matrix(random, s.hidden, 2 * s.intermediate, is_bfloat16, layer.w13, layer.w13_globals);
    add_matrix(random, s.intermediate, s.hidden, is_bfloat16, layer.w2, layer.w2_globals);
  }
  return layer;
}

std::uint16_t io_bits(double value, bool is_bfloat16) {
  return is_bfloat16 ? oracle::bfloat16_of(static_cast<float>(value)) : oracle::half_of(value);
}

// Rows of x in the layer's type, and their values.
struct Tokens {
  std::vector<std::uint16_t> bits;
  std::vector<double> values;
};
Tokens tokens_of(const LayerShape& s, bool is_bfloat16) {
  Random random;
  Tokens tokens;
  for (i64 i = 0; i < s.capacity * s.hidden; ++i) {
    const double value =
        oracle::rounded_to_io(static_cast<double>(random.in(-2000, 2000)) / 1000, is_bfloat16);
    tokens.bits.push_back(io_bits(value, is_bfloat16));
    tokens.values.push_back(value);
  }
  return tokens;
}

// The weights' expert of a route, or -1.
int expert_of(const LayerShape& s, const Routing& routing, i64 route) {
  const int expert = oracle::expert_of(routing.ids[static_cast<std::size_t>(route)], s.router_experts,
                                       routing.map_or_null());
  return expert < s.experts ? expert : -1;
}

// ---- A plan, and one layer with what every launch of it has to come to. ----

struct PlanChoice {
  std::optional<i64> block;
  i64 multiprocessors;
  bool is_bfloat16;
  bool weights_on_input = false;
};

struct Planned {
  MoeLayout layout;
  PackedPlan plan;
};

Planned planned_of(const LayerShape& s, const PlanChoice& choice) {
  MoeRequest request = packed_request(s.contract, s.experts, s.hidden, s.intermediate, s.top_k, s.capacity,
                                      choice.multiprocessors);
  request.weights.io_dtype = choice.is_bfloat16 ? DType::bfloat16 : DType::float16;
  request.capacity.block_size_m = choice.block;
  request.capacity.apply_router_weight_on_input = choice.weights_on_input;
  request.capacity.route_experts = s.router_experts;
  const MoeLayout layout = must(plan_moe(request));
  REQUIRE(missing_packed_kernels(request, layout) == "");
  return {layout, packed_plan(request, layout)};
}

PackedTensors tensors_of(const DeviceArena& arena) {
  return packed_tensors([&](std::string_view name) {
    return find_tensor(arena.placement(), name) == kNoTensor ? nullptr : arena.address(name);
  });
}

std::vector<std::uint32_t> words_of(const std::vector<oracle::PackedMatrix>& matrices) {
  std::vector<std::uint32_t> words;
  for (const auto& matrix : matrices) words.insert(words.end(), matrix.words.begin(), matrix.words.end());
  return words;
}
std::vector<std::uint8_t> scales_of(const std::vector<oracle::PackedMatrix>& matrices) {
  std::vector<std::uint8_t> scales;
  for (const auto& matrix : matrices) scales.insert(scales.end(), matrix.scales.begin(), matrix.scales.end());
  return scales;
}
std::vector<float> folded(const std::vector<double>& globals, bool is_bfloat16) {
  std::vector<float> all;
  for (const double global : globals) all.push_back(oracle::folded_global(global, is_bfloat16));
  return all;
}

class Case {
 public:
  Case(const LayerShape& s, bool is_bfloat16)
      : shape(s),
        routings(routings_of(s)),
        is_bfloat16_(is_bfloat16),
        layer_(layer_of(s, is_bfloat16)),
        reference_(layer_),
        tokens_(tokens_of(s, is_bfloat16)),
        w13_(words_of(layer_.w13)),
        w2_(words_of(layer_.w2)),
        w13_scales_(scales_of(layer_.w13)),
        w2_scales_(scales_of(layer_.w2)),
        w13_globals_(folded(layer_.w13_globals, is_bfloat16)),
        w2_globals_(folded(layer_.w2_globals, is_bfloat16)),
        x_(tokens_.bits) {}

  const LayerShape shape;
  const std::vector<Routing> routings;

  PackedWeights weights() const {
    return {.w13 = reinterpret_cast<const unsigned char*>(w13_.get()),
            .w2 = reinterpret_cast<const unsigned char*>(w2_.get()),
            .w13_scales = w13_scales_.get(),
            .w2_scales = w2_scales_.get(),
            .w13_globals = w13_globals_.get(),
            .w2_globals = w2_globals_.get()};
  }
  const HalfBits* x() const { return x_.get(); }
  bool is_bfloat16() const { return is_bfloat16_; }
  Tolerance tolerance() const { return is_bfloat16_ ? kBfloat16Tolerance : kHalfTolerance; }

  // Of a route with a valid expert.
  const oracle::PackedRoute& route(const Routing& routing, i64 route, bool weight_on_input) {
    const auto [place, is_new] = routes_.try_emplace({routing.name, route, weight_on_input});
    if (is_new)
      place->second = reference_.route(
          std::span(tokens_.values)
              .subspan(static_cast<std::size_t>(route / shape.top_k * shape.hidden),
                       static_cast<std::size_t>(shape.hidden)),
          expert_of(shape, routing, route),
          static_cast<double>(routing.weights[static_cast<std::size_t>(route)]), weight_on_input);
    return place->second;
  }

 private:
  bool is_bfloat16_;
  oracle::PackedLayer layer_;
  oracle::PackedReference reference_;
  Tokens tokens_;
  Uploaded<std::uint32_t> w13_, w2_;
  Uploaded<std::uint8_t> w13_scales_, w2_scales_;
  Uploaded<float> w13_globals_, w2_globals_;
  Uploaded<HalfBits> x_;
  std::map<std::tuple<std::string, i64, bool>, oracle::PackedRoute> routes_;
};

// What launches have beside the arena, each with words of poison behind it.
class Outside {
 public:
  Outside(const LayerShape& s, i64 multiprocessors)
      : workspace_words_(packed_workspace_words(multiprocessors)),
        output_(must(DeviceMemory::allocate((s.capacity + 1) * s.hidden * 2, "an output"))),
        workspace_(must(DeviceMemory::allocate(4 * (workspace_words_ + kBehind), "a workspace"))) {
    must(set_bytes(workspace_.data(), 0xFF, workspace_.bytes()));
    must(set_bytes(workspace_.data(), 0, 4 * workspace_words_));
  }
  void poison_output() { must(set_bytes(output_.data(), 0xFF, output_.bytes())); }

  HalfBits* output() const { return reinterpret_cast<HalfBits*>(output_.data()); }
  int* workspace() const { return reinterpret_cast<int*>(workspace_.data()); }
  std::vector<HalfBits> output_bits() const {
    return values_of<HalfBits>(must(bytes_at(output_.data(), output_.bytes())));
  }
  void check_workspace() const {
    const auto words = values_of<int>(must(bytes_at(workspace_.data(), workspace_.bytes())));
    CHECK(std::count(words.begin(), words.begin() + workspace_words_, 0) == workspace_words_);
    CHECK(std::count(words.begin() + workspace_words_, words.end(), -1) == kBehind);
  }

 private:
  static constexpr i64 kBehind = 64;
  i64 workspace_words_;
  DeviceMemory output_, workspace_;
};

// A routing on the device.
class Routed {
 public:
  explicit Routed(const Routing& routing)
      : routing_(routing),
        wide_ids_(routing.ids),
        narrow_ids_(std::vector<int>(routing.ids.begin(), routing.ids.end())),
        weights_(routing.weights),
        map_(routing.map.value_or(std::vector<int>())) {}

  PackedInputs inputs(const Case& which, const Outside& outside) const {
    PackedInputs inputs{.x = which.x(),
                        .id_bytes = routing_.id_bytes,
                        .topk_weights = weights_.get(),
                        .output = outside.output(),
                        .kernel_workspace = outside.workspace()};
    inputs.topk_ids = routing_.id_bytes == 8 ? static_cast<const void*>(wide_ids_.get()) : narrow_ids_.get();
    if (routing_.map) inputs.expert_map = map_.get();
    return inputs;
  }

 private:
  const Routing& routing_;
  Uploaded<i64> wide_ids_;
  Uploaded<int> narrow_ids_;
  Uploaded<float> weights_;
  Uploaded<int> map_;
};

void launch(const PackedLaunches& launches) {
  if (launches.route_pack) test::launch(*launches.route_pack);
  test::launch(launches.fused);
  test::launch(launches.route_sum);
}

// ---- What a launch has to leave. ----

// The experts of the route blocks, one behind the other.
std::vector<int> check_routes(const LayerShape& s, const Routing& routing, const PackedLaunches& launches,
                              Seen& seen, bool has_counts) {
  const i64 routes = launches.fused.arguments.routes;
  std::vector<int> experts;
  if (!launches.route_pack) {
    for (i64 route = 0; route < routes; ++route) experts.push_back(expert_of(s, routing, route));
    for (const CoreTensor tensor : {CoreTensor::packed_route_indices, CoreTensor::block_expert_ids,
                                    CoreTensor::packed_route_count, CoreTensor::expert_offsets})
      check_equal_then_poison(std::string(name_of(tensor)), seen.values<int>(tensor), {});
    return experts;
  }
  const RoutePackArguments& args = launches.route_pack->arguments;
  const auto expected =
      oracle::pack_routes(std::span(routing.ids).first(static_cast<std::size_t>(args.routes)), args.experts,
                          routing.map_or_null(), launches.block, args.slots, args.blocks);
  check_equal_then_poison("packed_route_indices", seen.values<int>(CoreTensor::packed_route_indices),
                          expected.route_indices);
  check_equal_then_poison("block_expert_ids", seen.values<int>(CoreTensor::block_expert_ids),
                          expected.block_experts);
  check_equal_then_poison("packed_route_count", seen.values<int>(CoreTensor::packed_route_count),
                          {expected.count});
  check_equal_then_poison("expert_offsets", seen.values<int>(CoreTensor::expert_offsets), expected.offsets);
  if (has_counts)
    check_equal_then_poison("expert_counts", seen.values<int>(CoreTensor::expert_counts), expected.counts);
  experts.assign(expected.block_experts.begin(),
                 expected.block_experts.begin() + expected.count / launches.block);
  return experts;
}

void check_phases(Case& which, const Routing& routing, bool weights_on_input, i64 tokens, Seen& seen,
                  std::vector<HalfBits> output_bits) {
  const LayerShape& s = which.shape;
  const auto checker = [&](std::string name, std::vector<HalfBits> values) {
    return RowChecker<HalfBits>(std::move(name), std::move(values), which.is_bfloat16(), which.tolerance());
  };
  auto activated = checker("intermediate_cache2", seen.values<HalfBits>(CoreTensor::intermediate_cache2));
  auto cache13 = checker("intermediate_cache13", seen.values<HalfBits>(CoreTensor::intermediate_cache13));
  auto fc1 =
      checker("intermediate_cache13 behind FC1", seen.values<HalfBits>(CoreTensor::intermediate_cache13));
  auto output = checker("output", std::move(output_bits));
  const i64 routes = tokens * s.top_k, width = 2 * s.intermediate;
  std::vector<std::vector<double>> sums(static_cast<std::size_t>(tokens),
                                        std::vector<double>(static_cast<std::size_t>(s.hidden)));
  for (i64 route = 0; route < routes; ++route) {
    if (expert_of(s, routing, route) < 0) continue;
    const oracle::PackedRoute& expected = which.route(routing, route, weights_on_input);
    activated.row(route * s.intermediate, expected.activated);
    cache13.row(route * s.hidden, expected.fc2);
    auto& sum = sums[static_cast<std::size_t>(route / s.top_k)];
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += expected.fc2[i];
  }
  // FC1's rows, where FC2's did not take their place.
  for (i64 route = 0; route < routes; ++route) {
    if (expert_of(s, routing, route) < 0) continue;
    if (!cache13.covers_any(route * width, width))
      fc1.row(route * width, which.route(routing, route, weights_on_input).fc1);
    fc1.cover(route * width, width);
    fc1.cover(route * s.hidden, s.hidden);
  }
  for (i64 route = 0; route < routes; ++route)
    if (expert_of(s, routing, route) >= 0) cache13.cover(route * width, width);
  for (i64 token = 0; token < tokens; ++token)
    output.row(token * s.hidden, sums[static_cast<std::size_t>(token)]);
  for (const auto* rows : {&activated, &cache13, &fc1, &output}) rows->finish();
}

// Where the scratch of a product ends that a launch touches, in bytes: behind the last tile of the last wave
// that several blocks of the grid share.
i64 scratch_end(const std::vector<int>& block_experts, i64 block, i64 columns, i64 depth, i64 grid) {
  const PackedTile tile = packed_tile(block);
  const i64 column_tiles = columns / tile.tile_n, steps = depth / tile.tile_k;
  const i64 tiles = std::ssize(block_experts) * column_tiles, left = tiles % grid;
  const i64 share = ceil_div(left * steps, grid);
  i64 end = 0;
  for (i64 region = 0; region < left; ++region) {
    const bool is_split = region * steps / share != ((region + 1) * steps - 1) / share;
    const i64 route_block = (tiles - left + region) / column_tiles;
    if (is_split && block_experts[static_cast<std::size_t>(route_block)] >= 0)
      end = (region + 1) * packed_region_elements(tile) * 4;
  }
  return end;
}

const HighWater& use_of(const ArenaFindings& findings, CoreTensor tensor) {
  const auto use = std::ranges::find(findings.high_water, name_of(tensor), &HighWater::tensor);
  REQUIRE(use != findings.high_water.end());
  return *use;
}

std::set<i64> live_counts(i64 capacity) {
  std::set<i64> counts{1, 2, 8, 9, 33, capacity - 1, capacity};
  std::erase_if(counts, [&](i64 tokens) { return tokens > capacity; });
  return counts;
}

// Launches of one plan: every routing with every live token count.
void check_plan(Case& which, const PlanChoice& choice) {
  const LayerShape& s = which.shape;
  const Planned planned = planned_of(s, choice);
  must(resolver().resolve(packed_variants(planned.plan)));
  auto [own, arena] = arena_of(placed(planned.layout, GuardMode::strict));
  const PackedTensors tensors = tensors_of(arena);
  Outside outside(s, choice.multiprocessors);

  for (const Routing& routing : which.routings) {
    const Routed routed(routing);
    for (const i64 tokens : live_counts(s.capacity)) {
      const PackedLaunches launches =
          packed_launches(planned.plan, tokens, tensors, which.weights(), routed.inputs(which, outside));
      INFO(concat("block ", launches.block, ", ", choice.is_bfloat16 ? "bf16" : "fp16", ", ", tokens,
                  " tokens, ", routing.name, ", ", choice.multiprocessors, " multiprocessors"));
      if (choice.block) REQUIRE(launches.block == *choice.block);
      ArenaFindings findings;
      std::vector<HalfBits> output;
      for (const ArenaPattern& round : kRounds) {
        must(arena.fill(round, nullptr));
        outside.poison_output();
        launch(launches);
        outside.check_workspace();
        ArenaFindings found = must(arena.scan(nullptr));
        const auto bits = outside.output_bits();
        if (&round == kRounds) {
          findings = std::move(found);
          output = bits;
        } else {
          merge(findings, found);
          const bool is_same = output == bits;
          CHECK(is_same);
        }
      }
      for (const StrayWrite& write : findings.stray_writes) FAIL_CHECK(text_of(write));

      Seen seen(arena);
      const auto experts = check_routes(s, routing, launches, seen, tensors.expert_counts != nullptr);
      check_phases(which, routing, choice.weights_on_input, tokens, seen, output);
      CHECK(use_of(findings, CoreTensor::fc1_c_tmp).end_touched ==
            scratch_end(experts, launches.block, 2 * s.intermediate, s.hidden, launches.fused.grid));
      CHECK(use_of(findings, CoreTensor::fc2_c_tmp).end_touched ==
            scratch_end(experts, launches.block, s.hidden, s.intermediate, launches.fused.grid));
    }
  }
}

// A grid of the whole GPU, which splits these few tiles; and one so small that most tiles are whole.
void check_shape(const LayerShape& shape, bool is_bfloat16, std::initializer_list<i64> blocks) {
  Case which(shape, is_bfloat16);
  for (const i64 block : blocks)
    for (const i64 multiprocessors : {gpu().launcher.gpu().sm_count, i64{5}})
      check_plan(which, {block, multiprocessors, is_bfloat16});
}

}  // namespace

TEST_CASE("every phase of packed plans agrees with the reference: bf16") {
  check_shape(kOwnExperts, true, {8, 16, 32, 48, 64});
}
TEST_CASE("every phase of packed plans agrees with the reference: fp16") {
  check_shape(kOwnExperts, false, {8, 16, 32, 48, 64});
}
TEST_CASE("with an expert map every phase of packed plans agrees as well") {
  check_shape(kMappedExperts, true, {8, 48});
  check_shape(kMappedExperts, false, {16, 64});
}

TEST_CASE("packed plans that leave the block to the launch agree, and weights of the router on the input") {
  Case which(kOwnExperts, true);
  check_plan(which, {{}, gpu().launcher.gpu().sm_count, true});
  check_plan(which, {8, 7, true, true});
  check_plan(which, {64, gpu().launcher.gpu().sm_count, true, true});
}

TEST_CASE("a packed plan's scratch is touched to its end where the columns bound it, at every block size") {
  // Two tokens of two routes, none of which share a block: the grid has more blocks than they have tiles.
  constexpr LayerShape kFewRoutes{"sparkinfer-c2f135c", 256, 128, 8, 2, 2, 8};
  for (const i64 block : kBlockSizes) {
    INFO("block " << block);
    const PlanChoice choice{block, gpu().launcher.gpu().sm_count, true};
    REQUIRE(choice.multiprocessors >= 16);  // as many as there are steps: all tiles are split
    Case which(kFewRoutes, true);
    const Planned planned = planned_of(kFewRoutes, choice);
    must(resolver().resolve(packed_variants(planned.plan)));
    auto [own, arena] = arena_of(placed(planned.layout, GuardMode::strict));
    Outside outside(kFewRoutes, choice.multiprocessors);
    const Routed routed(which.routings[0]);
    const PackedLaunches launches =
        packed_launches(planned.plan, 2, tensors_of(arena), which.weights(), routed.inputs(which, outside));
    const ArenaFindings findings = findings_after(arena, [&] { launch(launches); });
    for (const CoreTensor tensor : {CoreTensor::fc1_c_tmp, CoreTensor::fc2_c_tmp}) {
      const HighWater& use = use_of(findings, tensor);
      // Every element of every slot, and as much again at block 8.
      CHECK(use.planned_bytes == 4 * block * 256 * 4 * (block == 8 ? 2 : 1));
      CHECK(use.end_touched == use.planned_bytes);
      // At block 8 every second run is left alone.
      CHECK(use.touched_bytes <= 4 * block * 256 * 4);
    }
    CHECK(findings.stray_writes.empty());
  }
}

TEST_CASE("a packed launch repeats its bytes in the arena that the last one left, without any reset") {
  Case which(kOwnExperts, true);
  const i64 multiprocessors = gpu().launcher.gpu().sm_count;
  const Planned planned = planned_of(kOwnExperts, {{}, multiprocessors, true});
  must(resolver().resolve(packed_variants(planned.plan)));
  auto [own, arena] = arena_of(placed(planned.layout, GuardMode::packed));
  Outside outside(kOwnExperts, multiprocessors);
  must(arena.fill(kRounds[1], nullptr));
  const Routed routed(which.routings[0]);
  std::map<i64, std::vector<HalfBits>> first;
  for (int round = 0; round < 3; ++round) {
    for (const i64 tokens : {40, 1, 33, 8}) {
      outside.poison_output();
      launch(packed_launches(planned.plan, tokens, packed_tensors(planned.layout, arena.arena()),
                             which.weights(), routed.inputs(which, outside)));
      const auto [place, is_new] = first.try_emplace(tokens, outside.output_bits());
      const bool is_same = place->second == outside.output_bits();
      CHECK(is_same);
    }
  }
  outside.check_workspace();
}

TEST_CASE("no tokens leave a packed plan's tensors and the output as they were") {
  const i64 multiprocessors = gpu().launcher.gpu().sm_count;
  const Planned planned = planned_of(kOwnExperts, {16, multiprocessors, true});
  must(resolver().resolve(packed_variants(planned.plan)));
  auto [own, arena] = arena_of(placed(planned.layout, GuardMode::strict));
  Outside outside(kOwnExperts, multiprocessors);
  outside.poison_output();
  const PackedInputs inputs{.output = outside.output(), .kernel_workspace = outside.workspace()};
  const ArenaFindings findings =
      findings_after(arena, [&] { launch(packed_launches(planned.plan, 0, tensors_of(arena), {}, inputs)); });
  CHECK(findings.stray_writes.empty());
  for (const HighWater& use : findings.high_water) CHECK(use.touched_bytes == 0);
  const auto output = outside.output_bits();
  CHECK(std::count(output.begin(), output.end(), 0xFFFF) == std::ssize(output));
  outside.check_workspace();
}
