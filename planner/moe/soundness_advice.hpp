// What an audit says beside its verdict: what would be sound, and sizes that do not go the way one expects.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/moe/soundness.hpp"

namespace moeplan {

// Changes under which the plan of `request` is sound, in words: pins, the packed layout,
// contracts. Empty: none.
std::vector<std::string> sound_alternatives(const MoeRequest& request, ExpertMap map);

// A larger block or a smaller capacity that changes the total against expectation.
struct SizeSurprise {
  std::string_view rule;
  std::string_view pointer;  // into the request
  std::string message;
  i64 bytes;
};
std::vector<SizeSurprise> size_surprises(const MoeRequest& request, const MoeLayout& layout);

}  // namespace moeplan
