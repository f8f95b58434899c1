// The symbols of a MoE plan's formulas, with the values the plan gives them. Names: docs/contracts.md.
#pragma once

#include <string_view>

#include "planner/core/formula.hpp"
#include "planner/moe/layout.hpp"

namespace moeplan {

// Of a request and the layout it was planned to. With them every tensor's formula evaluates to its elements.
Symbols moe_symbols(const MoeRequest& request, const MoeLayout& layout);

// Where a formula was read: a section of docs/contracts.md, and the original's file and function.
struct FormulaSource {
  std::string_view section;   // "docs/contracts.md section 3"
  std::string_view original;  // "host.py, packed_gemm_scratch_elements"
};
FormulaSource moe_formula_source(const MoeRequest& request, const MoeLayout& layout,
                                 const TensorSpec& tensor);

}  // namespace moeplan
