// What was measured of a launch in a planned arena, and what that says: plain data and a pure judgement, so
// that every check can be seen to fail without a GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/oracle/arguments.hpp"
#include "runtime/arena/guards.hpp"
#include "runtime/planned_kernels.hpp"

namespace moeplan {

// Of the poison that a run starts from. As a half and as a float the first is not a number, so that a stale
// value that is used anywhere shows; of every byte that is written one of the two differs.
inline constexpr ArenaPattern kValidationRounds[] = {{.poison = 0xFF, .seed = 0},
                                                     {.poison = 0x5A, .seed = 1}};

// A tensor, and what the kernels take of it for a launch of that size, by their own reckoning.
struct TensorUse {
  HighWater use;
  i64 need_bytes = 0;
};

// The output against the reference.
struct OutputDifference {
  double relative_l2 = 0;
  double cosine = 1;
  double worst_row_l2 = 0;  // of one token
  i64 worst_row = 0;
  i64 non_finite = 0;  // elements
};
OutputDifference output_difference(const std::vector<ComparedRow>& rows);
// The worse of both in every figure.
void merge(OutputDifference& seen, const OutputDifference& other);

// How far an output may be off.
struct Tolerance {
  double largest_l2;    // relative, of the output and of each of its rows
  double least_cosine;  // of the output
};
inline constexpr Tolerance kHalfTolerance{2e-3, 0.99999};     // of Trellis plans too
inline constexpr Tolerance kBfloat16Tolerance{8e-3, 0.9999};  // where bf16 is all between input and output
Tolerance tolerance_of(const KernelPlan& plan);
// Of scores of an indexer, relative to the largest sum of what the heads of a row add, each as it is large.
// Tensor cores that take e4m3 numbers do not promise to sum in fp32.
Tolerance indexer_tolerance(std::string_view compute_capability);

// One launch, or one call of an indexer: what its runs from two poisons, and replays as a graph, came to
// together.
struct Measurement {
  i64 tokens = 0;       // of an indexer its query rows
  std::string routing;  // of an indexer what its call is like
  i64 block = 0;        // rows of a route block; of an indexer those of a tile of the scorer
  GuardMode mode{};
  Tolerance tolerance = kHalfTolerance;
  std::vector<StrayWrite> stray_writes;
  std::vector<TensorUse> tensors;         // in arena order
  std::vector<TensorUse> caller_tensors;  // that the launch brings beside the arena
  OutputDifference output;
  i64 masked_bytes = 0;        // written in rows of routes that go nowhere
  i64 replay_differences = 0;  // words of the output that another poison changed
  i64 graph_differences = 0;   // words of the output that differ in the graph's replay
  bool is_workspace_zero = true;
  std::string selection_problem;  // of an indexer, by its reference; "": none
  i64 environment_reads = 0;      // while it was captured
};

enum class ValidationCheck {
  guards,
  need,
  oracle,
  finite,
  rows,
  poison,
  graph,
  scratch,
  workspace,
  environment
};
inline constexpr std::string_view kValidationChecks[] = {
    "guards", "need", "oracle", "finite", "rows", "poison", "graph", "scratch", "workspace", "environment"};
constexpr std::string_view name_of(ValidationCheck check) {
  return kValidationChecks[static_cast<int>(check)];
}

// What failed, one entry a check.
struct ValidationFailure {
  ValidationCheck check{};
  std::string text;
};
struct Validation {
  std::vector<ValidationFailure> failures;
  bool passes() const { return failures.empty(); }
};
Validation judge(const Measurement& measurement);

// The most that any of the launches touched of each tensor; in arena order.
std::vector<HighWater> high_water_of(const std::vector<Measurement>& measurements);

}  // namespace moeplan
