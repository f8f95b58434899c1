#include "planner/launch/launch_key.hpp"

#include <algorithm>

#include "planner/core/text.hpp"
#include "planner/moe/geometry.hpp"

namespace moeplan {
namespace {

// Of a request that states none: docs/contracts.md section 1 and docs/launches.md section 3.
constexpr std::array<i64, 4> kDefaultTile = {64, 256, 64, 256};

constexpr i64 kPrewarmedOneByOne = 32;  // up to this capacity the plan compiles every token count's kernel
constexpr i64 kScaleGroup = 32;         // Trellis scales are e4m3_k32

Error not_modelled(std::string_view field, std::string message, std::string help) {
  return {ErrorCode::launch_not_modelled, std::string(field), std::move(message), std::move(help)};
}

Status check_modelled(const MoeRequest& request, const MoeLayout& layout) {
  const MoeWeights& weights = request.weights;
  if (request.kind != MoeKind::tensor_parallel || layout.implementation != Implementation::w4a16 ||
      layout.weight_layout != WeightLayout::trellis)
    return not_modelled("/weights/source_format", "launch keys are modelled for Trellis plans alone",
                        "size and audit answer for this plan");
  if (request.contract->lean_executor)
    return not_modelled(
        "/contract",
        concat("no engine launches plans of ", request.contract->id, ": launch keys are of engines"),
        "size and audit answer for this plan");
  if (weights.activation != Activation::silu || request.capacity.swiglu_limit)
    return not_modelled("/weights/activation", "launch keys are modelled for silu without a limit",
                        "size and audit answer for this plan");
  if (request.capacity.apply_router_weight_on_input.value_or(false))
    return Error{
        ErrorCode::launch_tiles, "/capacity/apply_router_weight_on_input",
        "the Trellis kernels do not apply the router weight to their input: planning its launch fails",
        "drop apply_router_weight_on_input"};
  if (!layout.route_block_size_m)
    return Error{ErrorCode::launch_needs_block_size, "/capacity/block_size_m",
                 "launch planning of a Trellis plan needs a pinned block size",
                 concat("pin block_size_m to one of ", join(kBlockSizes, ", "))};
  return Ok{};
}

i64 blocks_of(const LaunchPlan& plan, i64 tokens) {
  const i64 block = plan.tiles.block;
  return max_of(ceil_div(route_slots(tokens * plan.top_k, block, plan.route_experts), block), 1);
}

// `summed_routes`: of GemmKey.
Result<GemmKey> gemm_key(const LaunchPlan& plan, const GemmShape& gemm, const Tile& tile, bool single_token,
                         i64 summed_routes, i64 blocks) {
  const auto resident = blocks_per_multiprocessor(gemm, tile, plan.tiles);
  if (!resident) return resident.error();
  return GemmKey{.size_n = gemm.n,
                 .size_k = gemm.k,
                 .experts = plan.experts,
                 .top_k = gemm.top_k,
                 .tile = tile,
                 .block = plan.tiles.block,
                 .bits = plan.bits,
                 .single_token = single_token,
                 .summed_routes = summed_routes,
                 .max_m_blocks = blocks,
                 .shared_words = kernel_shared_words(tile, plan.tiles),
                 .blocks_per_sm = *resident};
}

Result<LaunchKey> key_of(const LaunchPlan& plan, i64 tokens, const TilePair& tiles, i64 blocks) {
  const auto fc1 = gemm_key(plan, plan.fc1(tokens), tiles.fc1, tokens == 1, 1, blocks);
  if (!fc1) return fc1.error();
  const auto fc2 = gemm_key(plan, plan.fc2(tokens), tiles.fc2, tokens == 1, plan.top_k, blocks);
  if (!fc2) return fc2.error();
  const i64 words = max_of(fc1->shared_words, fc2->shared_words);
  if (4 * words > plan.tiles.shared_memory)
    return Error{ErrorCode::launch_tiles, "",
                 concat("the kernel needs ", grouped(4 * words), " B of shared memory, the device has ",
                        grouped(plan.tiles.shared_memory)),
                 "another block size or device has room"};
  return LaunchKey{.hidden = plan.hidden,
                   .intermediate = plan.intermediate,
                   .experts = plan.experts,
                   .top_k = plan.top_k,
                   .bits = plan.bits,
                   .io_dtype = plan.io_dtype,
                   .fc1 = *fc1,
                   .fc2 = *fc2,
                   .multiprocessors = plan.tiles.multiprocessors,
                   .shared_words = words,
                   .blocks_per_sm = min_of(fc1->blocks_per_sm, fc2->blocks_per_sm)};
}

// The pinned tiles, with what planning checks of them.
Result<TilePair> pinned_tiles(const LaunchPlan& plan) {
  const auto& [k1, n1, k2, n2] = plan.pin;
  const TilePair tiles{{k1, n1, threads_of_tile(k1, n1)}, {k2, n2, threads_of_tile(k2, n2)}};
  const std::string pin = join(plan.pin, "x");
  if (tiles.fc1.threads != tiles.fc2.threads)
    return Error{ErrorCode::launch_tiles, "/weights/trellis_tile_config",
                 concat("the pinned tiles ", pin, " need different thread counts: planning the launch fails"),
                 "pin tiles of equal size"};
  // Gate and up are separate projections: a tile must not cross from one into the other.
  const bool fits = plan.intermediate % n1 == 0 &&
                    tile_fits(plan.fc1(plan.capacity), tiles.fc1, plan.tiles) &&
                    tile_fits(plan.fc2(plan.capacity), tiles.fc2, plan.tiles);
  if (!fits)
    return Error{ErrorCode::launch_tiles, "/weights/trellis_tile_config",
                 concat("the pinned tiles ", pin, " do not fit hidden ", plan.hidden, " and intermediate ",
                        plan.intermediate, ": planning the launch fails"),
                 "pin 64,128,64,128 where a size is no multiple of 256"};
  return tiles;
}

KeyElements elements_of(const GemmKey& g, bool is_fc1, std::string_view layout) {
  return {{"size_n", g.size_n},
          {"size_k", g.size_k},
          {"covered_n", g.size_n},
          {"covered_k", g.size_k},
          {"scale_k_groups", ceil_div(g.size_k, kScaleGroup)},
          {"has_tail", false},
          {"experts", g.experts},
          {"top_k", g.top_k},
          {"mul_topk_weights", false},
          {"tile_n", g.tile.n},
          {"tile_k", g.tile.k},
          {"threads", g.tile.threads},
          {"block", g.block},
          {"dtype", std::string_view("fp16")},
          {"relu2", false},
          {"layout", layout},
          {"bits", g.bits},
          {"scale_format", std::string_view("e4m3_k32")},
          {"w13_layout", std::string_view(is_fc1 ? "trellis3_t256_proj" : "packed")},
          {"source_n_rotation", i64{0}},
          {"single_token", g.single_token},
          {"direct_topk", false},
          {"dense_fast_path", false},
          {"dual_a", is_fc1},
          {"route_major_a", is_fc1},
          {"fused_topk_sum", false},
          {"fused_sum_topk", g.summed_routes},
          {"cta_m_blocks", m_blocks_of(g.block)},
          {"is_block8", g.block == 8},
          {"max_m_blocks", g.max_m_blocks},
          {"shared_words", g.shared_words},
          {"blocks_per_sm", g.blocks_per_sm},
          {"whole_tiles", true}};
}

void append_differences(std::vector<std::string>& out, const KeyElements& a, const KeyElements& b,
                        const std::string& prefix) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::string name = concat(prefix, a[i].name);
    if (const auto* nested = std::get_if<KeyElements>(&a[i].value)) {
      append_differences(out, *nested, std::get<KeyElements>(b[i].value), concat(name, "."));
    } else if (value_text(a[i]) != value_text(b[i])) {
      out.push_back(concat(name, " ", value_text(a[i]), ", not ", value_text(b[i])));
    }
  }
}

}  // namespace

Result<LaunchPlan> launch_plan(const MoeRequest& request, const MoeLayout& layout, i64 shared_memory) {
  if (auto s = check_modelled(request, layout); !s) return s.error();
  const MoeWeights& weights = request.weights;
  LaunchPlan plan;
  plan.contract = request.contract;
  plan.hidden = weights.hidden_size;
  plan.intermediate = weights.intermediate_size;
  plan.experts = weights.experts;
  plan.route_experts = layout.route_experts;
  plan.top_k = request.capacity.routes_per_token();
  plan.bits = weights.bits();
  plan.io_dtype = weights.io_dtype;
  plan.capacity = request.capacity.tokens();
  for (const TensorSpec& tensor : layout.arena.tensors) {
    if (tensor.name == "packed_route_indices") plan.arena_slots = tensor.shape.elements();
    if (tensor.name == "block_expert_ids") plan.arena_blocks = tensor.shape.elements();
  }
  plan.pin = kDefaultTile;
  if (weights.trellis_tile_config)
    std::ranges::copy_n(weights.trellis_tile_config->begin(), 4, plan.pin.begin());
  plan.tiles = {.block = *layout.route_block_size_m,
                .weight_bits = plan.bits,
                .scale_group = kScaleGroup,
                .multiprocessors = request.multiprocessors(),
                .shared_memory = shared_memory};
  return plan;
}

bool bucket_fits(const LaunchPlan& plan, i64 tokens) {
  const i64 bucket = pow2_ceil(tokens);
  const i64 slots = route_slots(bucket * plan.top_k, plan.tiles.block, plan.route_experts);
  return slots <= plan.arena_slots && blocks_of(plan, bucket) <= plan.arena_blocks;
}

i64 max_m_blocks(const LaunchPlan& plan, i64 tokens) {
  return blocks_of(plan, bucket_fits(plan, tokens) ? pow2_ceil(tokens) : tokens);
}

Result<LaunchKey> launch_key(const LaunchPlan& plan, i64 tokens) {
  const auto tiles = plan.contract->launch_takes_pin
                         ? pinned_tiles(plan)
                         : select_tiles(plan.fc1(tokens), plan.fc2(tokens), plan.tiles);
  if (!tiles) return tiles.error();
  return key_of(plan, tokens, *tiles, max_m_blocks(plan, tokens));
}

Result<std::vector<LaunchKey>> prewarmed_keys(const LaunchPlan& plan) {
  const auto tiles = pinned_tiles(plan);
  if (!tiles) return tiles.error();
  const i64 first = plan.capacity <= kPrewarmedOneByOne ? 1 : plan.capacity;
  std::vector<LaunchKey> keys;
  for (i64 tokens = first; tokens <= plan.capacity; ++tokens) {
    auto key = key_of(plan, tokens, *tiles, plan.arena_blocks);
    if (!key) return key.error();
    if (std::ranges::find(keys, *key) == keys.end()) keys.push_back(*key);
  }
  return keys;
}

KeyElements elements_of(const LaunchKey& key) {
  // The name is of the checkpoint's coding, whatever the bits.
  constexpr std::string_view kLayout = "trellis3_t256";
  return {{"hidden_size", key.hidden},
          {"intermediate_size", key.intermediate},
          {"fc1_cols", key.fc1.size_n},
          {"experts", key.experts},
          {"top_k", key.top_k},
          {"activation", std::string_view("silu")},
          {"is_gated", true},
          {"is_situ", false},
          {"is_swigluoai", false},
          {"has_swiglu_limit", false},
          {"swiglu_limit", WholeFloat{0}},
          {"swiglu_alpha", WholeFloat{1}},
          {"swiglu_beta", WholeFloat{0}},
          {"weight_layout", kLayout},
          {"trellis_bits", key.bits},
          {"scale_format", std::string_view("e4m3_k32")},
          {"apply_router_weight_on_input", false},
          {"zero_fc2_output", false},
          {"element_dtype", std::string_view("fp16")},
          {"fast_math", true},
          {"direct_topk", false},
          {"tc_zero_output", true},
          {"collect_amax", false},
          {"intermediate_rotation", true},
          {"dual_a", true},
          {"full_rotation", true},
          {"broadcast_suh", false},
          {"rotation_input_dtype", std::string_view(key.io_dtype == DType::bfloat16 ? "bf16" : "fp16")},
          {"fc1", elements_of(key.fc1, true, kLayout)},
          {"fc2", elements_of(key.fc2, false, kLayout)},
          {"cta_threads", key.fc1.tile.threads},
          {"sms", key.multiprocessors},
          {"shared_words", key.shared_words},
          {"blocks_per_sm", key.blocks_per_sm}};
}

std::string value_text(const KeyElement& element) {
  if (const auto* truth = std::get_if<bool>(&element.value)) return *truth ? "true" : "false";
  if (const auto* number = std::get_if<i64>(&element.value)) return std::to_string(*number);
  if (const auto* whole = std::get_if<WholeFloat>(&element.value)) return concat(whole->value, ".0");
  if (const auto* text = std::get_if<std::string_view>(&element.value)) return concat("\"", *text, "\"");
  return "";
}

std::vector<std::string> key_differences(const LaunchKey& key, const LaunchKey& other) {
  std::vector<std::string> differences;
  append_differences(differences, elements_of(key), elements_of(other), "");
  return differences;
}

}  // namespace moeplan
