// Which of two is faster, by runs that took turns: the ratios of neighbours decide, so that what moves both,
// clocks and heat, cancels out.
#pragma once

#include <span>
#include <string_view>

#include "planner/core/integer.hpp"

namespace moeplan {

enum class PairedVerdict { faster, slower, same, unsure };
inline constexpr std::string_view kPairedVerdictNames[] = {"FASTER", "SLOWER", "SAME", "UNSURE"};
constexpr std::string_view name_of(PairedVerdict verdict) {
  return kPairedVerdictNames[static_cast<int>(verdict)];
}

// Ratios within it either way are no difference, in millionths.
inline constexpr i64 kSamePpm = 10'000;

// Ratios of the second time to the first, in millionths.
struct PairedComparison {
  PairedVerdict verdict = PairedVerdict::unsure;
  i64 pairs = 0;
  i64 ratio_ppm = 0;  // the median of the pairs' ratios
  // The median's interval of at least 95 % confidence: order statistics by the sign test, whatever the times
  // are distributed like. Of fewer than six pairs there is none, and all ratios lie in it.
  i64 low_ppm = 0;
  i64 high_ppm = 0;
};

// How `second` compares with `first`, positive times of equally many runs that took turns, 1 to 60.
//   SAME    the whole interval lies within 1 % of equal
//   FASTER  the whole interval lies below equal, and the median ratio is below by more than 1 %
//   SLOWER  likewise above
//   UNSURE  otherwise, and of fewer than six pairs
PairedComparison compare_paired(std::span<const i64> first, std::span<const i64> second);

// k where the k-th lowest and the k-th highest of so many values bound their median with at least 95 %
// confidence: the chance that fewer than k values lie on one side of it is at most 2.5 %. 0: there is none.
i64 median_interval_rank(i64 values);

}  // namespace moeplan
