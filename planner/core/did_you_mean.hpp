// The candidate closest to a mistyped word.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace moeplan {

// The candidate at the smallest edit distance, if it is near enough to be meant.
std::optional<std::string_view> did_you_mean(std::string_view word,
                                             std::span<const std::string_view> candidates);

}  // namespace moeplan
