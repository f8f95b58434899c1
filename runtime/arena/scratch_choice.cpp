#include "runtime/arena/scratch_choice.hpp"

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

std::string shortfall(std::string_view plan, i64 planned_bytes, i64 provided_bytes) {
  return concat("the scratch buffer of ", plan, " is too small: it needs ", grouped(planned_bytes),
                " bytes and was given ", grouped(provided_bytes));
}

}  // namespace

Result<ScratchUse> choose_scratch(std::string_view plan, i64 planned_bytes, i64 provided_bytes,
                                  bool is_capturing) {
  if (provided_bytes >= planned_bytes) return ScratchUse::provided;
  if (is_capturing)
    return Error{ErrorCode::scratch_too_small, "",
                 concat(shortfall(plan, planned_bytes, provided_bytes),
                        "; nothing is allocated while a graph is captured"),
                 concat("bind ", grouped(planned_bytes), " bytes before the capture")};
  return ScratchUse::own;
}

std::string scratch_warning(std::string_view plan, i64 planned_bytes, i64 provided_bytes) {
  return concat(shortfall(plan, planned_bytes, provided_bytes), "; ", grouped(planned_bytes),
                " bytes are allocated beside it");
}

}  // namespace moeplan
