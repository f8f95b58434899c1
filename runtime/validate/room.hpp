// What an executor asks before it launches in a placement: does each tensor have the room that the launch's
// kernels write?
#pragma once

#include <span>

#include "planner/core/result.hpp"
#include "runtime/arena/guards.hpp"
#include "runtime/planned_kernels.hpp"
#include "runtime/validate/indexer_calls.hpp"
#include "runtime/validate/routings.hpp"

namespace moeplan {

// `off`: launches run whatever room there is, so that guards alone have to catch what is too small.
enum class RoomCheck { on, off };

// Of all launches or calls, by their kernels' own reckoning: the plan is not asked. Error
// `scratch_too_small`: of the first that lacks room.
Status check_rooms(const KernelPlan& plan, const Placement& placement, std::span<const TestLaunch> launches);

Status check_rooms(const IndexerPlan& plan, const Placement& placement,
                   std::span<const IndexerTestCall> calls);

}  // namespace moeplan
