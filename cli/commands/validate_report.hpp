// What moeplan validate says of the plans that it ran: pure functions of what was measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands/covered_plans.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/planned_config.hpp"
#include "runtime/evidence.hpp"
#include "runtime/validate/measurement.hpp"
#include "runtime/validate/shrink.hpp"
#include "runtime/weights/layer_weights.hpp"

namespace moeplan {

// One plan, and all that was run in its arena.
struct ValidatedPlan {
  std::string id;
  std::string pointer;  // into the config
  i64 capacity = 0;
  i64 planned_sms = 0;  // multiprocessors of the config
  i64 planned_bytes = 0;
  i64 executed_sms = 0;  // of the plan that ran, and its bytes
  i64 executed_bytes = 0;
  Tolerance tolerance = kHalfTolerance;
  std::optional<i64> bits;             // of a Trellis weight
  std::optional<LayerSource> weights;  // none: the layer was made up
  bool shrinks_made_up = false;        // the layer of the shrinks was, although `weights` is there
  std::vector<Measurement> packed;     // tensors as planned
  std::vector<Measurement> strict;     // each between guards of its own
  i64 launches_left_out = 0;           // by the limit of work
  std::string shrunk;                  // the shape whose tensors were shrunk
  std::vector<Shrink> shrinks;
  std::vector<Finding> findings;  // what kept it from running

  bool is_valid() const;
};

// What ran them.
struct ValidationMachine {
  std::string gpu;
  i64 gpu_sms = 0;
  bool is_emulating = false;  // the config's multiprocessors in place of the GPU's
};

// `uncovered`: plans without kernels, with their findings.
Report validate_report(const PlannedConfig& planned, const ValidationMachine& machine,
                       const std::vector<ValidatedPlan>& plans, const std::vector<std::string>& uncovered,
                       std::vector<Finding> findings);

// The answer where nothing could be run and --if-available asks for no more.
Report skipped_report(const PlannedConfig& planned, const ValidateOptions& options,
                      const CoveredPlans& covered, const Error& why);

// High-water marks and errors, a value a launch.
void add_samples(Evidence& evidence, const std::vector<ValidatedPlan>& plans);

}  // namespace moeplan
