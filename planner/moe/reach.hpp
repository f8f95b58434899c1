// Reach: bytes of a plan that no live token count can use, and why. Source: docs/soundness.md section 3.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/moe/soundness.hpp"

namespace moeplan {

struct UnusedBytes {
  std::string_view kind;  // a stable word
  std::string tensor;     // "" where no tensor is meant
  i64 bytes;
  std::string why;
};

// Whether the kernels of this layout bind the tensor and write nothing to it.
bool is_never_written(const MoeLayout& layout, std::string_view tensor);

// Of one W4A16 plan. `audits`: one for each expert map its launches may have. `routes_outside`: the
// integration keeps the router's workspace elsewhere.
std::vector<UnusedBytes> unused_bytes(const MoeRequest& request, const MoeLayout& layout,
                                      std::span<const MoeAudit> audits, bool routes_outside);

}  // namespace moeplan
