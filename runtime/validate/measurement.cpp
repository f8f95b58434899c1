#include "runtime/validate/measurement.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "planner/core/check.hpp"
#include "planner/core/text.hpp"
#include "planner/moe/w4a16.hpp"

namespace moeplan {
namespace {

// 0 where nothing was expected and nothing came.
double relative(double squared_error, double squared_expected) {
  if (squared_expected == 0) return squared_error == 0 ? 0 : std::numeric_limits<double>::infinity();
  return std::sqrt(squared_error / squared_expected);
}

std::string figure(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

bool is_output(const TensorUse& tensor) {
  return tensor.use.tensor == name_of(CoreTensor::full_rotation_output) || tensor.use.tensor == kCallerOutput;
}

bool is_scratch(const TensorUse& tensor) {
  return tensor.use.tensor == name_of(CoreTensor::fc1_c_tmp) ||
         tensor.use.tensor == name_of(CoreTensor::fc2_c_tmp);
}

bool is_beyond_need(const TensorUse& tensor) { return tensor.use.end_touched > tensor.need_bytes; }

std::string beyond_text(const TensorUse& tensor) {
  return concat(tensor.use.tensor, ": written up to byte ", grouped(tensor.use.end_touched),
                ", the launch takes ", grouped(tensor.need_bytes));
}

std::string words_text(i64 words, std::string_view what) {
  return concat(grouped(words), words == 1 ? " word" : " words", " of the output ", what);
}

}  // namespace

Tolerance tolerance_of(const KernelPlan& plan) {
  const auto* packed = std::get_if<PackedPlan>(&plan);
  return packed && packed->is_bfloat16 ? kBfloat16Tolerance : kHalfTolerance;
}

Tolerance indexer_tolerance(std::string_view compute_capability) {
  const bool takes_e4m3 = compute_capability == "8.9" || compute_capability.starts_with("12.");
  return {.largest_l2 = takes_e4m3 ? 0x1p-13 : 0x1p-18, .least_cosine = 0};
}

OutputDifference output_difference(const std::vector<ComparedRow>& rows) {
  OutputDifference difference;
  ComparedRow all{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ComparedRow& row = rows[i];
    all.squared_error += row.squared_error;
    all.squared_value += row.squared_value;
    all.squared_expected += row.squared_expected;
    all.product += row.product;
    all.non_finite += row.non_finite;
    const double error = relative(row.squared_error, row.squared_expected);
    if (error > difference.worst_row_l2) {
      difference.worst_row_l2 = error;
      difference.worst_row = static_cast<i64>(i);
    }
  }
  difference.relative_l2 = relative(all.squared_error, all.squared_expected);
  const double lengths = std::sqrt(all.squared_value) * std::sqrt(all.squared_expected);
  if (lengths > 0)
    difference.cosine = all.product / lengths;
  else if (all.squared_value > 0 || all.squared_expected > 0)
    difference.cosine = 0;
  difference.non_finite = all.non_finite;
  return difference;
}

void merge(OutputDifference& seen, const OutputDifference& other) {
  seen.relative_l2 = std::max(seen.relative_l2, other.relative_l2);
  seen.cosine = std::min(seen.cosine, other.cosine);
  if (other.worst_row_l2 > seen.worst_row_l2) {
    seen.worst_row_l2 = other.worst_row_l2;
    seen.worst_row = other.worst_row;
  }
  seen.non_finite = max_of(seen.non_finite, other.non_finite);
}

Validation judge(const Measurement& m) {
  Validation validation;
  const auto fail = [&](ValidationCheck check, std::string text) {
    validation.failures.push_back({check, std::move(text)});
  };
  if (!m.stray_writes.empty()) {
    std::vector<std::string> writes;
    for (const StrayWrite& write : m.stray_writes) writes.push_back(text_of(write));
    fail(ValidationCheck::guards, join(writes, "; "));
  }
  for (const TensorUse& tensor : m.tensors) {
    if (is_scratch(tensor) || is_output(tensor) || !is_beyond_need(tensor)) continue;
    fail(ValidationCheck::need, beyond_text(tensor));
    break;
  }
  // Not true for what is not a number.
  const OutputDifference& o = m.output;
  const auto& [largest_l2, least_cosine] = m.tolerance;
  const TensorUse* output = nullptr;
  for (const auto* tensors : {&m.tensors, &m.caller_tensors}) {
    for (const TensorUse& tensor : *tensors)
      if (is_output(tensor)) output = &tensor;
  }
  const bool is_close =
      o.relative_l2 <= largest_l2 && o.worst_row_l2 <= largest_l2 && o.cosine >= least_cosine;
  // Tokens without a route have an output too: zeros.
  if (output && m.tokens > 0 && output->use.end_touched == 0)
    fail(ValidationCheck::oracle, concat(output->use.tensor, " was never written"));
  else if (!m.selection_problem.empty())
    fail(ValidationCheck::oracle, m.selection_problem);
  else if (!is_close)
    fail(ValidationCheck::oracle,
         concat("relative error ", figure(o.relative_l2), ", of token ", o.worst_row, " ",
                figure(o.worst_row_l2), ", at most ", figure(largest_l2), "; 1 - cosine ",
                figure(1 - o.cosine), ", at most ", figure(1 - least_cosine)));
  if (o.non_finite > 0)
    fail(ValidationCheck::finite, concat(grouped(o.non_finite), " elements of the output are no numbers"));

  if (output && is_beyond_need(*output))
    fail(ValidationCheck::rows, beyond_text(*output));
  else if (m.masked_bytes > 0)
    fail(ValidationCheck::rows,
         concat(grouped(m.masked_bytes), " bytes written in rows of routes that go nowhere"));

  if (m.replay_differences > 0)
    fail(ValidationCheck::poison,
         words_text(m.replay_differences, "depend on what the arena held before the launch"));
  if (m.graph_differences > 0)
    fail(ValidationCheck::graph, words_text(m.graph_differences, "differ when the launch is a graph's"));
  for (const TensorUse& tensor : m.tensors) {
    if (!is_scratch(tensor) || !is_beyond_need(tensor)) continue;
    fail(ValidationCheck::scratch, tensor.need_bytes > 0
                                       ? beyond_text(tensor)
                                       : concat(text_of(tensor.use), "; these kernels have no use for it"));
    break;
  }
  if (!m.is_workspace_zero)
    fail(ValidationCheck::workspace, "kernel_workspace is not left as zeros, which the next launch needs");
  if (m.environment_reads > 0)
    fail(ValidationCheck::environment,
         concat(grouped(m.environment_reads), " environment variables were read in a captured step"));
  return validation;
}

std::vector<HighWater> high_water_of(const std::vector<Measurement>& measurements) {
  ArenaFindings all;
  for (const Measurement& measurement : measurements) {
    ArenaFindings one;
    for (const TensorUse& tensor : measurement.tensors) one.high_water.push_back(tensor.use);
    if (all.high_water.empty())
      all = std::move(one);
    else
      merge(all, one);
  }
  return all.high_water;
}

}  // namespace moeplan
