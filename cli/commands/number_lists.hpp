// Options that take whole numbers, one or a list of them: how they are read, and refused with an example.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"

namespace moeplan {

// An option that takes whole numbers.
struct NumberRule {
  std::string_view option;
  std::string_view example;
  i64 least;
  i64 most;
  std::span<const i64> choices = {};  // none: all of the range
  i64 page_tokens = 1;                // whole pages of so many
  bool takes_k = false;               // a suffix that stands for 1024
};

inline constexpr i64 kMostGbS = 1'000'000;
inline constexpr NumberRule kBandwidthRule = {"--bandwidth-gb-s", "4500", 1, kMostGbS};

// What is wrong with what the option was given: its text, why, and an example.
Error refusal(const NumberRule& rule, std::string_view text, std::string what);

// The numbers of "1,4,16", each once, in their order; none where the option was not given.
Result<std::vector<i64>> read_list(const NumberRule& rule, const std::optional<std::string>& text);
Result<std::optional<i64>> read_number(const NumberRule& rule, const std::optional<std::string>& text);

}  // namespace moeplan
