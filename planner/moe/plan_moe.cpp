#include "planner/moe/plan_moe.hpp"

#include <algorithm>

#include "planner/core/text.hpp"
#include "planner/moe/capacity.hpp"
#include "planner/moe/expert_parallel.hpp"
#include "planner/moe/micro_dynamic.hpp"
#include "planner/moe/token_counts.hpp"
#include "planner/moe/w4a16.hpp"

namespace moeplan {
namespace {

// Router logits and the routing result, ahead of the core.
struct RouterSizes {
  i64 tokens;  // exact, not bucketed
  i64 experts;
  i64 top_k;
};

using Rule = TensorRule<RouterSizes>;
using S = const RouterSizes&;
constexpr Rule kRouterRules[] = {
    {"router_logits", ElementType::logits, [](S s) { return shape(s.tokens, s.experts); },
     "max_tokens*route_experts"},
    {"topk_logits", ElementType::float32, [](S s) { return shape(s.tokens, s.top_k); }, "max_tokens*topk"},
    {"topk_ids", ElementType::int32, [](S s) { return shape(s.tokens, s.top_k); }, "max_tokens*topk"},
    {"topk_weights", ElementType::float32, [](S s) { return shape(s.tokens, s.top_k); }, "max_tokens*topk"},
};

void place_router(ArenaLayout& arena, const MoeRequest& request) {
  const MoeCapacity& capacity = request.capacity;
  const RouterSizes sizes{.tokens = capacity.tokens(),
                          .experts = max_of(capacity.route_experts.value_or(request.weights.experts), 0),
                          .top_k = capacity.routes_per_token()};
  if (sizes.experts == 0) return;
  const DType io = request.weights.io_dtype;
  const ElementTypes types{.cache = io, .io = io, .logits = capacity.route_logits_dtype.value_or(io)};
  for (const Rule& rule : kRouterRules) place(arena, rule, sizes, types, Region::route, kMoeAlignment);
  arena.end = align_up(arena.end, kMoeAlignment);
}

Status check_mode(const MoeRequest& request) {
  const MoeWeights& weights = request.weights;
  if (auto s = check_source_mode(*request.contract, weights.source_format, weights.quant_mode); !s) return s;
  const auto& modes = weights.weight_quant_modes;
  if (!modes || std::ranges::count(*modes, weights.quant_mode) > 0) return Ok{};
  return Error{ErrorCode::mode_not_in_weight_plan, "/weights/quant_mode",
               concat("quant_mode ", name_of(weights.quant_mode), " is not in weight_quant_modes"),
               "prepare the weights for the mode that is requested"};
}

// What the layout itself refuses.
Status check_layout(const MoeRequest& request, const WeightPlan& plan) {
  const MoeWeights& weights = request.weights;
  if (weights.io_dtype != DType::bfloat16 && weights.io_dtype != DType::float16)
    return Error{ErrorCode::unsupported_io_dtype, "/weights/io_dtype",
                 concat("activations are bfloat16 or float16, got ", name_of(weights.io_dtype)), ""};
  const bool w4a8 = weights.quant_mode == QuantMode::w4a8_nvfp4 || weights.quant_mode == QuantMode::w4a8_mx;
  if (w4a8 && weights.activation == Activation::swigluoai_uninterleave)
    return Error{ErrorCode::activation_mode_mismatch, "/weights/activation",
                 "swigluoai_uninterleave is not supported by the W4A8 modes", "use w4a16 or nvfp4"};
  if (weights.quant_mode != QuantMode::w4a16 || !plan.trellis) return Ok{};

  for (const auto& [field, value] : {std::pair<std::string_view, i64>{"hidden_size", weights.hidden_size},
                                     {"intermediate_size", weights.intermediate_size}}) {
    if (value % 128 != 0)
      return Error{
          ErrorCode::misaligned_shape, concat("/weights/", field),
          concat("Trellis needs hidden_size and this rank's intermediate_size to be multiples of 128, "
                 "got ",
                 field, " ", value),
          concat("the Hadamard rotation works on blocks of 128; the nearest above is ",
                 align_up(value, 128))};
  }
  if (weights.trellis_pair_kinds && weights.intermediate_size != 256)
    return Error{ErrorCode::trellis_rates, "/weights/intermediate_size",
                 concat("per-expert-pair rates need intermediate_size 256, got ", weights.intermediate_size),
                 "use uniform rates"};
  return Ok{};
}

Status check_launch(const MoeRequest& request, const WeightPlan& plan) {
  const bool refused = request.purpose == Purpose::launch && request.contract->trellis_launch_needs_pin &&
                       request.device.type.value_or(DeviceType::cuda) == DeviceType::cuda && plan.trellis &&
                       request.weights.quant_mode == QuantMode::w4a16 && !request.capacity.block_size_m;
  if (!refused) return Ok{};
  return Error{ErrorCode::launch_needs_block_size, "/capacity/block_size_m",
               "launch planning of a Trellis plan needs a pinned block size; only the size query prices an "
               "unpinned one",
               concat("pin block_size_m to one of ", join(kBlockSizes, ", "))};
}

// The plan's core at each listed count: the largest count's tensors stay in `layout.arena`.
template <class PlaceCore>
void plan_core(MoeLayout& layout, std::span<const i64> counts, PlaceCore place_core) {
  layout.bound_tokens = std::ranges::max(counts);
  layout.by_tokens.reserve(counts.size());
  for (i64 tokens : counts) {
    i64 bytes = 0;
    if (tokens == layout.bound_tokens) {
      place_core(layout.arena, tokens, true);
      bytes = layout.arena.end - layout.route_bytes;
    } else {
      ArenaLayout other{.keeps_tensors = false};
      place_core(other, tokens, false);
      bytes = other.end;
    }
    layout.by_tokens.push_back({tokens, bytes});
    // A smaller count can need more than the largest: its bytes are then an unused tail of the arena.
    layout.core_bytes = max_of(layout.core_bytes, bytes);
  }
  layout.total_bytes = max_of(layout.route_bytes + layout.core_bytes, 1);
}

// The layout of a request that passed every check. One return, so that the layout is built where it is used.
Result<MoeLayout> lay_out(const MoeRequest& request, const WeightPlan& weights) {
  Result<MoeLayout> result{MoeLayout{}};
  MoeLayout& layout = *result;
  layout.contract = request.contract;
  layout.w13_layout = weights.w13_layout;
  place_router(layout.arena, request);
  layout.route_bytes = layout.arena.end;

  const bool is_w4a16 = request.weights.quant_mode == QuantMode::w4a16;
  const auto counts = core_token_counts(request, is_w4a16 && !weights.trellis);
  if (is_w4a16) {
    const W4a16Plan plan = prepare_w4a16(request, weights, counts);
    layout.weight_layout = weights.layout;
    layout.scale_format = weights.scale_format;
    layout.route_experts = plan.experts;
    layout.route_block_size_m = plan.block_size;
    plan_core(layout, counts, [&](ArenaLayout& arena, i64 tokens, bool bound) {
      const CoreSizes sizes = place_w4a16_core(arena, plan, tokens);
      if (bound) layout.route_slots = sizes.slots;
    });
  } else {
    layout.route_experts = request.weights.experts;
    plan_core(layout, counts, [&](ArenaLayout& arena, i64 tokens, bool bound) {
      const MicroDynamicCore core = place_micro_dynamic_core(arena, request, tokens);
      if (!bound) return;
      layout.implementation = core.implementation;
      layout.tile_m = core.tile_m;
      layout.tile_n = core.tile_n;
      layout.max_tokens_per_launch = core.max_tokens_per_launch;
    });
  }
  return result;
}

}  // namespace

Result<MoeLayout> plan_moe(const MoeRequest& request) {
  MOEPLAN_CHECK(request.contract && request.device.sm_count, "a request without contract or SM count");
  if (request.contract->lean_executor) {
    if (auto s = check_lean(request); !s) return s.error();
  }
  if (request.kind == MoeKind::expert_parallel) return plan_expert_parallel(request);

  const auto weights = plan_weights(*request.contract, request.weights);
  if (!weights) return weights.error();
  if (auto s = check_mode(request); !s) return s.error();
  if (auto s = check_swiglu(request); !s) return s.error();
  if (auto s = check_block_size(request.capacity); !s) return s.error();
  if (auto s = check_layout(request, *weights); !s) return s.error();
  if (auto s = check_launch(request, *weights); !s) return s.error();
  return lay_out(request, *weights);
}

}  // namespace moeplan
