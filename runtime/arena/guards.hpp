// Where the tensors of a plan lie between guards, and what the bytes that changed say about the kernels that
// ran there: stray writes, and how much of each tensor was touched. Pure integers; device/ fills and scans.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/arena/arguments.hpp"
#include "planner/core/arena_layout.hpp"

namespace moeplan {

enum class GuardMode {
  packed,  // the arena as planned: a guard in front, one behind, and one in every gap
  strict,  // every tensor in a slot of its own between two guards, which no plan has
};
inline constexpr std::string_view kGuardModeNames[] = {"packed", "strict"};
constexpr std::string_view name_of(GuardMode mode) { return kGuardModeNames[static_cast<int>(mode)]; }

// Bytes of a guard that is not a gap of the plan: a page, so that a stray row of any activation lands in it.
inline constexpr i64 kGuardBytes = 4096;
// Of the address of an arena, and of every tensor in strict mode: what engines' allocators give at least.
inline constexpr i64 kAddressAlignment = 256;

enum class Side { before, behind };
inline constexpr std::string_view kSideNames[] = {"before", "behind"};
constexpr std::string_view name_of(Side side) { return kSideNames[static_cast<int>(side)]; }

struct PlacedTensor {
  std::string_view name;
  i64 planned_offset = 0;  // in the plan's arena
  i64 begin = 0;           // in the allocation
  i64 bytes = 0;
  // Guarded bytes directly at its edges. Packed tensors that abut have none there: a write across such an
  // edge shows in strict mode alone.
  i64 guarded_before = 0;
  i64 guarded_behind = 0;

  i64 end() const { return begin + bytes; }
  i64 guarded(Side side) const { return side == Side::before ? guarded_before : guarded_behind; }
};

inline constexpr int kNoTensor = -1;

// A guard with the tensors at its ends: indices, or kNoTensor.
struct Guard {
  i64 begin = 0;
  i64 end = 0;
  int behind_tensor = kNoTensor;  // the one that ends where it begins
  int before_tensor = kNoTensor;  // the one that begins where it ends
};

// One allocation for a plan. Offsets count from the allocation's start, whose address is aligned to
// kAddressAlignment.
struct Placement {
  GuardMode mode{};
  i64 planned_bytes = 0;  // of the arena
  i64 arena_begin = 0;    // packed: where the planned offset 0 lies
  i64 allocation_bytes = 0;
  std::vector<PlacedTensor> tensors;  // in arena order, those outside any arena left out
  std::vector<Guard> guards;          // rising and disjoint: all that the tensors leave of the allocation
};

// `total_bytes`: what the plan asks for; at least the end of its last tensor.
Placement place_guarded(std::span<const TensorSpec> tensors, i64 total_bytes, GuardMode mode);

// Index of the tensor of that name, or kNoTensor.
int find_tensor(const Placement& placement, std::string_view name);

// What is filled and scanned: a range for every tensor that has bytes, in their order, then one a guard.
std::vector<ArenaRange> ranges_of(const Placement& placement);

// Bytes that changed outside every tensor.
struct StrayWrite {
  std::string tensor;  // the nearest; "" in a plan without any
  Side side{};         // of that tensor
  i64 distance = 0;    // of the nearest such byte from the tensor's edge; 1: directly at it
  i64 bytes = 0;
  i64 arena_offset = 0;  // of the first, in the plan's arena; strict: where it would lie there
  bool operator==(const StrayWrite&) const = default;
};
// "3 bytes written 1 B behind fc1_c_tmp (offset 12345)"
std::string text_of(const StrayWrite& write);

// What a tensor's planned bytes were used for. Offsets count from the tensor's start. A byte written with the
// poison's own value is not seen: see kArenaRounds.
struct HighWater {
  std::string tensor;
  i64 planned_bytes = 0;
  i64 first_touched = 0;
  i64 end_touched = 0;    // behind the last; 0: never touched
  i64 touched_bytes = 0;  // at least
  bool operator==(const HighWater&) const = default;
};
// "fc1_c_tmp: 100 of 128 bytes touched, from 0 to 100" or "fc1_c_tmp: never touched, 128 bytes planned"
std::string text_of(const HighWater& use);

struct ArenaFindings {
  std::vector<StrayWrite> stray_writes;
  std::vector<HighWater> high_water;  // one a tensor, in arena order
};

// `differences`: one for each range of ranges_of(placement).
ArenaFindings findings_of(const Placement& placement, std::span<const ArenaDifference> differences);

// Two rounds that hide nothing together: every byte they write differs between them, so a byte that a kernel
// writes in both differs from what one of them put there.
inline constexpr ArenaPattern kArenaRounds[] = {{.poison = 0xA5, .seed = 0}, {.poison = 0x5A, .seed = 1}};

// Adds what another round over the same placement saw. After both of kArenaRounds, first_touched and
// end_touched are exact.
void merge(ArenaFindings& seen, const ArenaFindings& other);
// The same where no round may have been seen before.
void add(ArenaFindings& seen, ArenaFindings found);

}  // namespace moeplan
