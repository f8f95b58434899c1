#include "planner/moe/soundness_advice.hpp"

#include <algorithm>

#include "planner/core/text.hpp"
#include "planner/moe/geometry.hpp"
#include "planner/moe/lean_geometry.hpp"
#include "planner/moe/plan_moe.hpp"

namespace moeplan {
namespace {

bool is_sound(const MoeRequest& request, ExpertMap map) {
  const auto layout = plan_moe(request);
  return layout && may_have(request, map) &&
         !audit_moe(request, *layout, map, AuditSearch::peaks).counter_example();
}

// The largest capacities below `capacity` at which a lean plan is of another kind or has wider slices.
std::vector<i64> lean_peaks(const MoeRequest& request) {
  const i64 capacity = request.capacity.tokens(), top_k = request.capacity.routes_per_token();
  const bool is_decode = is_lean_decode(capacity);
  std::vector<i64> peaks;
  if (!is_decode) peaks.push_back(kLeanDecodeTokens);
  const i64 hidden = request.weights.hidden_size;
  for (i64 columns = lean_slice_columns(capacity, capacity * top_k, hidden) + 128; columns <= hidden;
       columns += 128) {
    const i64 wider = (is_decode ? kLeanDecodeRowsBytes : kLeanPrefillRowsBytes) / 2 / columns / top_k;
    if (wider < 1 || is_lean_decode(wider) != is_decode) break;
    peaks.push_back(wider);
  }
  return peaks;
}

// Block 8 reserves twice its scratch, so a larger pin can cost less.
void compare_pins(const MoeRequest& request, const MoeLayout& layout, std::vector<SizeSurprise>& out) {
  if (request.pinned_block() != 8) return;
  for (i64 block : kBlockSizes) {
    if (block == 8) continue;
    MoeRequest other = request;
    other.capacity.block_size_m = block;
    const auto larger = plan_moe(other);
    if (!larger || larger->total_bytes >= layout.total_bytes) continue;
    const i64 saved = layout.total_bytes - larger->total_bytes;
    out.push_back({"block-8-doubles", "/capacity/block_size_m",
                   concat("pinned to block ", block, " it would reserve ", grouped(saved),
                          " B less: block 8 doubles its split-K scratch"),
                   saved});
    return;
  }
}

// Capacities that may reserve more than the larger one of the request: those at which the block size that is
// resolved from the capacity changes, or a lean plan's slices.
std::vector<i64> peaking_capacities(const MoeRequest& request, const MoeLayout& layout) {
  if (request.contract->lean_executor) return lean_peaks(request);
  std::vector<i64> ends;
  if (request.capacity.block_size_m || !layout.route_block_size_m) return ends;
  for (const LiveRange& range : rising_ranges(live_runtime(request, layout, ExpertMap::absent)))
    ends.push_back(range.last);
  return ends;
}

void compare_capacities(const MoeRequest& request, const MoeLayout& layout, std::vector<SizeSurprise>& out) {
  i64 most = layout.total_bytes, most_at = 0;
  for (i64 capacity : peaking_capacities(request, layout)) {
    if (capacity >= request.capacity.tokens()) continue;
    MoeRequest smaller = request;
    smaller.capacity.max_tokens = capacity;
    const auto other = plan_moe(smaller);
    if (!other || other->total_bytes <= most) continue;
    most = other->total_bytes;
    most_at = capacity;
  }
  if (most_at == 0) return;
  out.push_back(
      {"capacity-not-monotone", "/capacity/max_tokens",
       concat("planned for ", most_at, " tokens it would reserve ", grouped(most), " B, ",
              grouped(most - layout.total_bytes), " B more than for ", request.capacity.tokens(),
              request.contract->lean_executor ? ": its tensors and the columns of a slice follow the capacity"
                                              : ": the block size follows the capacity"),
       most - layout.total_bytes});
}

}  // namespace

std::vector<std::string> sound_alternatives(const MoeRequest& request, ExpertMap map) {
  std::vector<std::string> sound;
  if (!request.capacity.block_size_m && request.kind == MoeKind::tensor_parallel &&
      !request.contract->lean_executor) {
    std::vector<i64> pins;
    for (i64 block : kBlockSizes) {
      MoeRequest pinned = request;
      pinned.capacity.block_size_m = block;
      if (is_sound(pinned, map)) pins.push_back(block);
    }
    if (!pins.empty()) sound.push_back(concat("sound when pinned to block ", join(pins, ", ", " or ")));
  }
  MoeRequest packed = request;
  packed.weights.weight_layout = LayoutOverride::mma_packed;
  if (request.weights.weight_layout != LayoutOverride::mma_packed && is_sound(packed, map))
    sound.push_back("sound with weight_layout mma_packed");
  std::vector<std::string_view> ids;
  for (const Contract& contract : contracts()) {
    MoeRequest other = request;
    other.contract = &contract;
    if (&contract != request.contract && is_sound(other, map)) ids.push_back(contract.id);
  }
  if (!ids.empty()) sound.push_back(concat("sound under contract ", join(ids, ", ", " or ")));
  return sound;
}

std::vector<SizeSurprise> size_surprises(const MoeRequest& request, const MoeLayout& layout) {
  std::vector<SizeSurprise> surprises;
  if (request.kind != MoeKind::tensor_parallel || layout.implementation != Implementation::w4a16)
    return surprises;
  compare_pins(request, layout, surprises);
  compare_capacities(request, layout, surprises);
  return surprises;
}

}  // namespace moeplan
