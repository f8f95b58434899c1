// The tensors of one arena as a table.
#pragma once

#include <string_view>

#include "planner/core/arena_layout.hpp"
#include "planner/core/report.hpp"

namespace moeplan {

// A remark about one tensor, for people.
using TensorRemark = std::string_view (*)(const TensorSpec& tensor, const void* about);

// Rows in arena order; people see the largest first, padding and total below. `total_bytes` is the whole
// arena's, behind its last tensor too.
Table tensor_table(std::string_view title, const ArenaLayout& arena, i64 total_bytes, TensorRemark remark,
                   const void* about = nullptr);

}  // namespace moeplan
