#include "runtime/bench/paired_verdict.hpp"

#include <algorithm>
#include <vector>

#include "planner/core/check.hpp"
#include "runtime/bench/quantile.hpp"
#include "runtime/bench/rates.hpp"

namespace moeplan {
namespace {

constexpr i64 kEqual = 1'000'000;
constexpr i64 kMostPairs = 60;  // 2 to their power fits 64 bits

PairedVerdict verdict_of(const PairedComparison& of) {
  if (of.low_ppm >= kEqual - kSamePpm && of.high_ppm <= kEqual + kSamePpm) return PairedVerdict::same;
  if (of.high_ppm < kEqual && of.ratio_ppm < kEqual - kSamePpm) return PairedVerdict::faster;
  if (of.low_ppm > kEqual && of.ratio_ppm > kEqual + kSamePpm) return PairedVerdict::slower;
  return PairedVerdict::unsure;
}

}  // namespace

i64 median_interval_rank(i64 values) {
  MOEPLAN_CHECK(values >= 0 && values <= kMostPairs, "as many values as 64 bits count subsets of");
  // Of 2^values equally likely signs, those with fewer than `rank` on one side.
  i64 rank = 0, below = 0, of_rank = 1;
  while (rank < values && below + of_rank <= (i64{1} << values) / 40) {
    below += of_rank;
    of_rank = of_rank * (values - rank) / (rank + 1);
    ++rank;
  }
  return rank;
}

PairedComparison compare_paired(std::span<const i64> first, std::span<const i64> second) {
  MOEPLAN_CHECK(first.size() == second.size() && !first.empty(), "runs that took turns");
  std::vector<i64> ratios;
  for (std::size_t i = 0; i < first.size(); ++i)
    ratios.push_back(rounded_div(second[i] * kEqual, max_of(first[i], 1)));
  std::ranges::sort(ratios);
  const i64 pairs = std::ssize(ratios), rank = median_interval_rank(pairs);
  const auto at = [&](i64 place) { return ratios[static_cast<std::size_t>(place)]; };
  PairedComparison comparison{.pairs = pairs,
                              .ratio_ppm = median(ratios),
                              .low_ppm = at(max_of(rank, 1) - 1),
                              .high_ppm = at(pairs - max_of(rank, 1))};
  if (rank > 0) comparison.verdict = verdict_of(comparison);
  return comparison;
}

}  // namespace moeplan
