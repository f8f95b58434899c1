#include "runtime/validate/room.hpp"

namespace moeplan {

Status check_rooms(const KernelPlan& plan, const Placement& placement, std::span<const TestLaunch> launches) {
  const auto room_bytes = [&](std::string_view tensor) -> i64 {
    const int index = find_tensor(placement, tensor);
    return index == kNoTensor ? 0 : placement.tensors[static_cast<std::size_t>(index)].bytes;
  };
  for (const TestLaunch& launch : launches) {
    const CoreElements need = kernel_need(plan, launch.tokens, launch.has_map);
    if (Status fits = check_room(need, launch.tokens, room_bytes); !fits) return fits;
  }
  return Ok{};
}

}  // namespace moeplan
