#include "runtime/arena/guards.hpp"

#include <algorithm>
#include <utility>

#include "planner/core/check.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

std::vector<PlacedTensor> arena_tensors(std::span<const TensorSpec> tensors) {
  std::vector<PlacedTensor> placed;
  for (const TensorSpec& tensor : tensors) {
    if (tensor.offset == kOutsideArena) continue;
    placed.push_back({.name = tensor.name, .planned_offset = tensor.offset, .bytes = tensor.bytes});
  }
  return placed;
}

// Guards are what the tensors leave free. Tensors without bytes own no edge of one.
void place_packed(Placement& placement) {
  placement.arena_begin = align_up(kGuardBytes, kAddressAlignment);
  for (PlacedTensor& tensor : placement.tensors) tensor.begin = placement.arena_begin + tensor.planned_offset;
  placement.allocation_bytes = placement.arena_begin + placement.planned_bytes + kGuardBytes;

  Guard open;  // begins where the tensors so far end
  for (int i = 0; i < static_cast<int>(placement.tensors.size()); ++i) {
    const PlacedTensor& tensor = placement.tensors[static_cast<std::size_t>(i)];
    if (tensor.bytes == 0) continue;
    MOEPLAN_CHECK(tensor.begin >= open.begin, "tensors of an arena overlap");
    if (tensor.begin > open.begin) {
      open.end = tensor.begin;
      open.before_tensor = i;
      placement.guards.push_back(open);
    }
    open = {.begin = tensor.end(), .behind_tensor = i};
  }
  MOEPLAN_CHECK(open.begin <= placement.arena_begin + placement.planned_bytes,
                "a tensor ends behind its arena");
  open.end = placement.allocation_bytes;
  placement.guards.push_back(open);
}

void place_strict(Placement& placement) {
  i64 end = 0;
  for (int i = 0; i < static_cast<int>(placement.tensors.size()); ++i) {
    PlacedTensor& tensor = placement.tensors[static_cast<std::size_t>(i)];
    tensor.begin = align_up(end + kGuardBytes, kAddressAlignment);
    placement.guards.push_back({.begin = end, .end = tensor.begin, .before_tensor = i});
    end = tensor.end() + kGuardBytes;
    placement.guards.push_back({.begin = tensor.end(), .end = end, .behind_tensor = i});
  }
  placement.allocation_bytes = end;
}

void note_guarded_edges(Placement& placement) {
  for (const Guard& guard : placement.guards) {
    const i64 bytes = guard.end - guard.begin;
    if (guard.behind_tensor != kNoTensor)
      placement.tensors[static_cast<std::size_t>(guard.behind_tensor)].guarded_behind = bytes;
    if (guard.before_tensor != kNoTensor)
      placement.tensors[static_cast<std::size_t>(guard.before_tensor)].guarded_before = bytes;
  }
}

// A guard between two tensors is one range: its bytes are the doing of the tensor that lies nearer to them.
StrayWrite stray_write(const Placement& placement, const Guard& guard, const ArenaDifference& difference) {
  const i64 from_begin = difference.first - guard.begin + 1;
  const i64 from_end = guard.end - difference.last;
  const bool is_behind =
      guard.before_tensor == kNoTensor || (guard.behind_tensor != kNoTensor && from_begin <= from_end);
  const int index = is_behind ? guard.behind_tensor : guard.before_tensor;
  StrayWrite write{.side = is_behind ? Side::behind : Side::before,
                   .distance = is_behind ? from_begin : from_end,
                   .bytes = difference.bytes,
                   .arena_offset = difference.first - placement.arena_begin};
  if (index != kNoTensor) {
    const PlacedTensor& tensor = placement.tensors[static_cast<std::size_t>(index)];
    write.tensor = tensor.name;
    write.arena_offset = tensor.planned_offset + difference.first - tensor.begin;
  }
  return write;
}

HighWater high_water(const PlacedTensor& tensor, const ArenaDifference& difference) {
  HighWater use{.tensor = std::string(tensor.name), .planned_bytes = tensor.bytes};
  if (difference.bytes == 0) return use;
  use.first_touched = difference.first - tensor.begin;
  use.end_touched = difference.last + 1 - tensor.begin;
  use.touched_bytes = difference.bytes;
  return use;
}

// Both rounds see most of a write: it stays one finding.
void add_stray_write(std::vector<StrayWrite>& seen, const StrayWrite& write) {
  const auto same = std::ranges::find_if(seen, [&](const StrayWrite& known) {
    return known.tensor == write.tensor && known.side == write.side;
  });
  if (same == seen.end()) {
    seen.push_back(write);
    return;
  }
  same->distance = min_of(same->distance, write.distance);
  same->bytes = max_of(same->bytes, write.bytes);
  same->arena_offset = min_of(same->arena_offset, write.arena_offset);
}

void add_high_water(HighWater& seen, const HighWater& other) {
  MOEPLAN_CHECK(seen.tensor == other.tensor && seen.planned_bytes == other.planned_bytes,
                "rounds over different placements");
  if (other.end_touched == 0) return;
  seen.first_touched =
      seen.end_touched == 0 ? other.first_touched : min_of(seen.first_touched, other.first_touched);
  seen.end_touched = max_of(seen.end_touched, other.end_touched);
  seen.touched_bytes = max_of(seen.touched_bytes, other.touched_bytes);
}

std::string bytes_text(i64 bytes) { return concat(bytes, bytes == 1 ? " byte" : " bytes"); }

}  // namespace

Placement place_guarded(std::span<const TensorSpec> tensors, i64 total_bytes, GuardMode mode) {
  Placement placement{.mode = mode, .planned_bytes = total_bytes, .tensors = arena_tensors(tensors)};
  if (mode == GuardMode::packed) {
    place_packed(placement);
  } else {
    place_strict(placement);
  }
  note_guarded_edges(placement);
  return placement;
}

int find_tensor(const Placement& placement, std::string_view name) {
  const auto found = std::ranges::find(placement.tensors, name, &PlacedTensor::name);
  return found == placement.tensors.end() ? kNoTensor : static_cast<int>(found - placement.tensors.begin());
}

std::vector<ArenaRange> ranges_of(const Placement& placement) {
  std::vector<ArenaRange> ranges;
  for (const PlacedTensor& tensor : placement.tensors) {
    if (tensor.bytes > 0) ranges.push_back({tensor.begin, tensor.end(), 0});
  }
  for (const Guard& guard : placement.guards) ranges.push_back({guard.begin, guard.end, 1});
  return ranges;
}

std::string text_of(const StrayWrite& write) {
  return concat(bytes_text(write.bytes), " written ", write.distance, " B ", name_of(write.side), " ",
                write.tensor.empty() ? "an arena without tensors" : write.tensor, " (offset ",
                write.arena_offset, ")");
}

std::string text_of(const HighWater& use) {
  if (use.end_touched == 0)
    return concat(use.tensor, ": never touched, ", bytes_text(use.planned_bytes), " planned");
  return concat(use.tensor, ": ", use.touched_bytes, " of ", bytes_text(use.planned_bytes), " touched, from ",
                use.first_touched, " to ", use.end_touched);
}

ArenaFindings findings_of(const Placement& placement, std::span<const ArenaDifference> differences) {
  ArenaFindings findings;
  std::size_t range = 0;
  const auto next = [&]() -> const ArenaDifference& {
    MOEPLAN_CHECK(range < differences.size(), "a range of an arena was not scanned");
    return differences[range++];
  };
  for (const PlacedTensor& tensor : placement.tensors)
    findings.high_water.push_back(high_water(tensor, tensor.bytes > 0 ? next() : ArenaDifference{}));
  for (const Guard& guard : placement.guards) {
    const ArenaDifference& difference = next();
    if (difference.bytes > 0) findings.stray_writes.push_back(stray_write(placement, guard, difference));
  }
  MOEPLAN_CHECK(range == differences.size(), "more ranges scanned than an arena has");
  return findings;
}

void merge(ArenaFindings& seen, const ArenaFindings& other) {
  for (const StrayWrite& write : other.stray_writes) add_stray_write(seen.stray_writes, write);
  MOEPLAN_CHECK(seen.high_water.size() == other.high_water.size(), "rounds over different placements");
  for (std::size_t i = 0; i < seen.high_water.size(); ++i)
    add_high_water(seen.high_water[i], other.high_water[i]);
}

void add(ArenaFindings& seen, ArenaFindings found) {
  if (seen.high_water.empty() && seen.stray_writes.empty())
    seen = std::move(found);
  else
    merge(seen, found);
}

}  // namespace moeplan
