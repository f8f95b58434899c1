// Does the deployment fit, what would other settings cost, and which are the largest that fit? All answers
// are exact where the budget is; where it is an interval they have a certain and a possible end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/deployment/memory_budget.hpp"

namespace moeplan {

enum class Fit { fits, does_not_fit, undecided };
inline constexpr std::string_view kFitNames[] = {"fits", "does not fit", "undecided"};
constexpr std::string_view name_of(Fit fit) { return kFitNames[static_cast<int>(fit)]; }

// Whether bytes that may be left over are.
Fit fit_of(const ByteBounds& spare);

struct FitCheck {
  std::string question;
  Fit answer = Fit::undecided;
  ByteBounds spare;  // bytes left beyond what is needed
};

// Start, one request of max_model_len, and what is allocated late, for one rank.
std::vector<FitCheck> fit_checks(const Deployment& deployment, const MemoryBudget& budget);

// The worst answer; `undecided` only where nothing says no.
Fit overall(const std::vector<FitCheck>& checks);

// A value of VLLM_EXL3_PREFILL_CAPACITY against the configured one.
struct CapacityChoice {
  i64 capacity;
  PrefillSlices full_step;  // launches a layer for a step of max_num_batched_tokens
  i64 scratch_bytes;        // of all runtimes
  i64 gained_bytes;
  i64 gained_tokens;  // exact to one block
};

// The configured capacity and round ones up to `scheduled`, ascending.
std::vector<i64> usual_capacities(i64 configured, i64 scheduled);

// The choices of usual_capacities up to max_num_batched_tokens, ascending; none without a prefill
// plan.
Result<std::vector<CapacityChoice>> prefill_capacity_choices(const Deployment& deployment,
                                                             const MemoryBudget& budget);

// The deployment with that capacity.
Deployment with_prefill_capacity(const Deployment& deployment, i64 capacity);

// Bytes of all EXL3 runtimes of a deployment.
Result<i64> scratch_bytes_of(const Deployment& deployment);

// What grows with the scheduler's tokens inside the profile: the runtimes, and the indexer's arenas.
Result<i64> growing_bytes_of(const Deployment& deployment);

// The largest x in lo..hi for which `holds`, where it holds up to some point and not beyond; none when it
// does not hold at lo.
template <class Predicate>
std::optional<i64> largest_that_holds(i64 lo, i64 hi, Predicate holds) {
  if (lo > hi || !holds(lo)) return std::nullopt;
  while (lo < hi) {
    const i64 middle = lo + (hi - lo + 1) / 2;
    if (holds(middle))
      lo = middle;
    else
      hi = middle - 1;
  }
  return lo;
}

struct LargestSetting {
  std::string setting;
  std::optional<i64> now;
  std::optional<i64> certain;   // fits at the lower end of the budget
  std::optional<i64> possible;  // fits at the upper end
  bool is_ppm = false;          // values are parts per million
  std::string limit;            // what decides
};
std::vector<LargestSetting> largest_settings(const Deployment& deployment, const MemoryBudget& budget);

}  // namespace moeplan
