#include "runtime/validate/shrink.hpp"

#include <algorithm>

#include "planner/core/check.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

const HighWater& use_of(const std::vector<HighWater>& uses, std::string_view tensor) {
  const auto found = std::ranges::find(uses, tensor, &HighWater::tensor);
  MOEPLAN_CHECK(found != uses.end(), "a tensor of the arena was not measured");
  return *found;
}

// The guard that took the element's place was written: the write nearest to the tensor's new end, or nothing.
const StrayWrite* hit_behind(const std::vector<Measurement>& measurements, std::string_view tensor,
                             i64 element) {
  for (const Measurement& measurement : measurements) {
    for (const StrayWrite& write : measurement.stray_writes) {
      if (write.tensor == tensor && write.side == Side::behind && write.distance <= element) return &write;
    }
  }
  return nullptr;
}

}  // namespace

Placement place_shrunk(const PlannedArena& arena, std::string_view shrunk) {
  std::vector<TensorSpec> tensors(arena.layout.tensors.begin(), arena.layout.tensors.end());
  for (TensorSpec& tensor : tensors) {
    if (tensor.name == shrunk) tensor.bytes -= item_bytes(tensor.dtype);
  }
  return place_guarded(tensors, arena.total_bytes, GuardMode::strict);
}

ShrinkOutcome Shrink::outcome() const {
  if (!is_observable) return ShrinkOutcome::not_observable;
  return refusal.empty() && guard.empty() ? ShrinkOutcome::missed : ShrinkOutcome::caught;
}

std::string Shrink::text() const {
  if (!is_observable) return std::string(kNotObservable);
  return concat(refusal.empty() ? "not refused" : concat("refused: ", refusal), "; ",
                guard.empty() ? "no guard was hit" : concat("caught by a guard: ", guard));
}

std::vector<TestLaunch> launches_to_shrink(const FusedPlan& plan, bool may_lack_map, bool may_have_map) {
  std::vector<TestLaunch> launches;
  // With a map the route packer may count more experts.
  for (const bool has_map : {false, true}) {
    if (has_map ? !may_have_map : !may_lack_map) continue;
    for (const i64 tokens : live_counts(plan.runtime(has_map)))
      launches.push_back({tokens, RoutingKind::uniform, has_map});
    // As many route blocks as there can be.
    launches.push_back({plan.capacity, RoutingKind::most_padding, has_map});
  }
  return launches;
}

Result<std::vector<Shrink>> shrink_tensors(const PlannedArena& arena, const std::string& tensor,
                                           const MeasureIn& measure) {
  const auto whole = measure(place_shrunk(arena, ""), RoomCheck::on);
  if (!whole) return whole.error();
  const std::vector<HighWater> uses = high_water_of(*whole);

  std::vector<Shrink> shrinks;
  for (const TensorSpec& spec : arena.layout.tensors) {
    if (spec.offset == kOutsideArena || (!tensor.empty() && spec.name != tensor)) continue;
    Shrink& shrink = shrinks.emplace_back(std::string(spec.name), item_bytes(spec.dtype));
    shrink.is_observable = use_of(uses, spec.name).end_touched == spec.bytes && spec.bytes > 0;
    if (!shrink.is_observable) continue;
    const Placement placement = place_shrunk(arena, spec.name);
    const auto asked = measure(placement, RoomCheck::on);
    if (!asked && asked.error().code != ErrorCode::scratch_too_small) return asked.error();
    if (!asked) shrink.refusal = asked.error().message;
    const auto measured = measure(placement, RoomCheck::off);
    if (!measured) return measured.error();
    if (const StrayWrite* write = hit_behind(*measured, spec.name, shrink.taken_bytes))
      shrink.guard = text_of(*write);
  }
  return shrinks;
}

MoeRequest small_request(const MoeRequest& request, WeightLayout layout) {
  MoeRequest small = request;
  small.weights.hidden_size = min_of(request.weights.hidden_size, 256);
  small.weights.intermediate_size = min_of(request.weights.intermediate_size, 128);
  small.weights.experts = min_of(request.weights.experts, 8);
  // A pinned tile is the engine's and made for the whole shape.
  small.weights.trellis_tile_config.reset();
  small.capacity.top_k = min_of(request.capacity.top_k, 4);
  small.capacity.max_tokens = min_of(request.capacity.max_tokens, 33);
  if (layout == WeightLayout::packed) {
    small.weights.experts = min_of(request.weights.experts, 16);
    small.capacity.top_k = 1;
    small.capacity.max_tokens = min_of(request.capacity.max_tokens, small.weights.experts);
  }
  small.capacity.core_token_counts.reset();
  if (small.capacity.route_experts && *small.capacity.route_experts > 0)
    small.capacity.route_experts =
        max_of(small.weights.experts, min_of(*small.capacity.route_experts, 2 * small.weights.experts));
  return small;
}

}  // namespace moeplan
