// Plans the points of a sweep.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/sweep/sweep.hpp"
#include "planner/deployment/plan_requests.hpp"

namespace moeplan {

// One point's answer, in few bytes: there may be millions.
struct SweepPoint {
  i64 index = 0;
  bool failed = false;
  ErrorCode error{};    // why, when it failed
  bool raised = false;  // its max_num_batched_tokens was raised to its capacity
  i64 bytes = 0;        // of the arenas looked at
  // None where the engine's launches are not modelled.
  std::optional<i64> launches;         // a layer makes for a full step
  std::optional<i64> rows_per_launch;  // routed rows of the largest of them
  // Of the one arena looked at, where it is a W4A16 plan.
  std::optional<i64> route_slots;
  std::optional<bool> block_reachable;  // some launch within the capacity selects the pinned block
  // Of the plans looked at, where the sweep wants them; none where launches are not modelled.
  std::optional<bool> sound;     // no number of live tokens needs more than is reserved
  std::optional<i64> cold_keys;  // kernels that compile mid-serve
};

// One arena of a point.
struct PointArena {
  std::string id;
  i64 bytes = 0;
  struct Tensor {
    std::string name;
    i64 bytes;
  };
  std::vector<Tensor> tensors;
};

// Plans points of one sweep; each thread has its own. Short names change the deployment that was read; a JSON
// pointer reads the config again whenever its value changes.
class PointPlanner {
 public:
  explicit PointPlanner(const Sweep& sweep);

  SweepPoint plan(i64 index);
  // The config as it is, without the axes.
  SweepPoint plan_configured();
  // The arenas looked at; empty for a point that cannot be planned.
  std::vector<PointArena> arenas(i64 index);

 private:
  // Moves `work_` to the point; an error where the config cannot be read with its values.
  std::optional<ErrorCode> move_to(i64 index, SweepPoint& point);
  bool reread(i64 index);
  void renew_requests(i64 index);
  void set_number(const Axis& axis, const AxisValue& value, SweepPoint& point);

  const Sweep& sweep_;
  std::unique_ptr<Config> reread_;  // with the pointers' values of the last point
  std::vector<i64> pointer_values_;
  Deployment work_;
  std::optional<Result<std::vector<DeploymentRequest>>> requests_;  // of `work_`
  i64 shape_ = 0;      // the point they were made for, without the axes that they hold themselves
  i64 scheduled_ = 0;  // max_num_batched_tokens ahead of any axis
  std::optional<std::optional<i64>> block_;  // the pin in place of the arena's own
};

}  // namespace moeplan
