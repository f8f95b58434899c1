// What to do with the scratch buffer that a caller hands to a plan.
#pragma once

#include <string>
#include <string_view>

#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"

namespace moeplan {

enum class ScratchUse {
  provided,  // the caller's buffer
  own,       // it is too small: one of the plan's size is allocated, and the caller is told
};

// Error `scratch_too_small`: too small while a stream is captured. A graph would keep the address of memory
// that its caller neither owns nor counts, and nothing may be allocated then.
Result<ScratchUse> choose_scratch(std::string_view plan, i64 planned_bytes, i64 provided_bytes,
                                  bool is_capturing);

// What is said, once a plan, about a buffer that is too small outside a capture.
std::string scratch_warning(std::string_view plan, i64 planned_bytes, i64 provided_bytes);

}  // namespace moeplan
