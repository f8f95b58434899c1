// The symbols of formulas of buffers outside any arena. Names: docs/memory.md sections 3 and 4.
#pragma once

#include "planner/core/formula.hpp"
#include "planner/deployment/exl3_runtime.hpp"

namespace moeplan {

// Of a part that has buffers. With them every buffer's formula evaluates to its elements.
Symbols part_symbols(const Deployment& deployment, const RuntimePart& part);

}  // namespace moeplan
