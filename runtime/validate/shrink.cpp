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

Placement place_shrunk(const MoeLayout& layout, std::string_view shrunk) {
  std::vector<TensorSpec> tensors(layout.arena.tensors.begin(), layout.arena.tensors.end());
  for (TensorSpec& tensor : tensors) {
    if (tensor.name == shrunk) tensor.bytes -= item_bytes(tensor.dtype);
  }
  return place_guarded(tensors, layout.total_bytes, GuardMode::strict);
}

Result<std::vector<Shrink>> shrink_tensors(const MoeLayout& layout, const std::string& tensor,
                                           const MeasureIn& measure) {
  const auto whole = measure(place_shrunk(layout, ""));
  if (!whole) return whole.error();
  const std::vector<HighWater> uses = high_water_of(*whole);

  std::vector<Shrink> shrinks;
  for (const TensorSpec& spec : layout.arena.tensors) {
    if (spec.offset == kOutsideArena || (!tensor.empty() && spec.name != tensor)) continue;
    Shrink shrink{std::string(spec.name), item_bytes(spec.dtype), ShrinkOutcome::not_observable,
                  std::string(kNotObservable)};
    if (use_of(uses, spec.name).end_touched == spec.bytes && spec.bytes > 0) {
      const auto measured = measure(place_shrunk(layout, spec.name));
      if (!measured) return measured.error();
      const StrayWrite* write = hit_behind(*measured, spec.name, shrink.taken_bytes);
      shrink.outcome = write ? ShrinkOutcome::caught : ShrinkOutcome::missed;
      shrink.how = write ? concat("caught by a guard: ", text_of(*write))
                         : "its last element is a guard's, and no launch was caught writing there";
    }
    shrinks.push_back(std::move(shrink));
  }
  return shrinks;
}

MoeRequest small_request(const MoeRequest& request) {
  MoeRequest small = request;
  small.weights.hidden_size = min_of(request.weights.hidden_size, 256);
  small.weights.intermediate_size = min_of(request.weights.intermediate_size, 128);
  small.weights.experts = min_of(request.weights.experts, 8);
  // A pinned tile is the engine's and made for the whole shape.
  small.weights.trellis_tile_config.reset();
  small.capacity.top_k = min_of(request.capacity.top_k, 4);
  small.capacity.max_tokens = min_of(request.capacity.max_tokens, 33);
  small.capacity.core_token_counts.reset();
  if (small.capacity.route_experts && *small.capacity.route_experts > 0)
    small.capacity.route_experts =
        max_of(small.weights.experts, min_of(*small.capacity.route_experts, 2 * small.weights.experts));
  return small;
}

}  // namespace moeplan
