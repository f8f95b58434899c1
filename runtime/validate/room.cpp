#include "runtime/validate/room.hpp"

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

i64 room_bytes(const Placement& placement, std::string_view tensor) {
  const int index = find_tensor(placement, tensor);
  return index == kNoTensor ? 0 : placement.tensors[static_cast<std::size_t>(index)].bytes;
}

}  // namespace

Status check_rooms(const KernelPlan& plan, const Placement& placement, std::span<const TestLaunch> launches) {
  for (const TestLaunch& launch : launches) {
    const CoreElements need = kernel_need(plan, launch.tokens, launch.has_map);
    const auto room = [&](std::string_view tensor) { return room_bytes(placement, tensor); };
    if (Status fits = check_room(need, launch.tokens, room); !fits) return fits;
  }
  return Ok{};
}

Status check_rooms(const IndexerPlan& plan, const Placement& placement,
                   std::span<const IndexerTestCall> calls) {
  for (const IndexerTestCall& call : calls) {
    for (const IndexerNeed& need : indexer_need(plan, inputs_of(call))) {
      const i64 room = room_bytes(placement, need.tensor);
      if (need.bytes <= room) continue;
      return Error{ErrorCode::scratch_too_small, "",
                   concat(need.tensor, ": a call of ", grouped(call.rows), call.rows == 1 ? " row" : " rows",
                          " takes ", grouped(need.bytes), " bytes, and there is room for ", grouped(room)),
                   "a plan for as many rows"};
    }
  }
  return Ok{};
}

}  // namespace moeplan
