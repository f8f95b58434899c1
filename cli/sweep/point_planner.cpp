#include "cli/sweep/point_planner.hpp"

#include "cli/sweep/launch_facts.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/exl3.hpp"
#include "planner/deployment/exl3_runtime.hpp"
#include "planner/moe/w4a16.hpp"
#include "planner/plan.hpp"

namespace moeplan {
namespace {

constexpr i64 kMostBytes = i64{1} << 62;

// One arena of a deployment as it is visited: a plan, or a part of a mixed runtime.
struct Visited {
  std::string_view id;
  i64 bytes;
  const PlanRequest* request;  // of a plan
  const PlanLayout* layout;
  const RuntimePart* part;  // else
};

// What decides launches, noted on the way.
struct StepCapacities {
  i64 decode_tokens = 0;
  i64 prefill_tokens = 0;
};

// Every arena that the engine reserves, in the order of `size`. `requests` are the deployment's. `pin`
// replaces the block of `arena`; other arenas are planned only where all are looked at.
template <class Visit>
Status visit_arenas(const Deployment& d, Result<std::vector<DeploymentRequest>>& requests,
                    std::string_view arena, const std::optional<std::optional<i64>>& pin,
                    StepCapacities& step, Visit visit) {
  if (!requests) return requests.error();
  for (DeploymentRequest& origin : *requests) {
    PlanRequest& request = origin.request;
    if (origin.stated_index < 0) {
      if (request.id == "decode") step.decode_tokens = request.moe.capacity.max_tokens;
      if (request.id == "prefill") step.prefill_tokens = request.moe.capacity.max_tokens;
    }
    // A call is no arena: what it allocates is not reserved.
    if (request.kind >= RequestKind::indexer_fold) continue;
    if (!arena.empty() && request.id != arena) continue;
    if (pin && request.id == arena) request.moe.capacity.block_size_m = *pin;
    const auto layout = plan(request);
    if (!layout) return layout.error();
    const auto* moe = std::get_if<MoeLayout>(&*layout);
    const i64 bytes = moe ? moe->total_bytes : std::get<IndexerLayout>(*layout).total_bytes;
    if (auto s = visit(Visited{request.id, bytes, &request, &*layout, nullptr}); !s) return s;
  }
  if (!d.quant || d.quant->tiers.empty() || !is_exl3(d)) return Ok{};
  const auto runtimes = exl3_runtimes(d);
  if (!runtimes) return runtimes.error();
  const Exl3Runtime& target = runtimes->front();
  step = {target.decode_tokens, target.prefill_tokens};
  for (const RuntimePart& part : target.parts) {
    if (!arena.empty() && part.name != arena) continue;
    if (auto s = visit(Visited{part.name, part.bytes, nullptr, nullptr, &part}); !s) return s;
  }
  return Ok{};
}

// Launches of the experts for a full step, as the engine slices it; of a decode arena: for a full decode
// step.
void set_launches(const Deployment& d, const Sweep& sweep, const StepCapacities& step, SweepPoint& point) {
  if (!d.engine || step.decode_tokens == 0 || is_indexer_arena(sweep.arena) || sweep.stated_index >= 0)
    return;
  const i64 top_k = d.model->num_experts_per_tok.value_or(1);
  const i64 scheduled = d.engine->max_num_batched_tokens;
  const bool decodes = is_decode_arena(sweep.arena);
  const i64 rows = decodes ? step.decode_tokens : scheduled;
  const i64 capacity = decodes || step.prefill_tokens == 0 ? step.decode_tokens : step.prefill_tokens;
  // Beyond the decode plan without a prefill plan the parity path takes over, whose calls are not counted.
  if (rows > capacity && step.prefill_tokens == 0) return;
  point.launches = prefill_slices(rows, capacity).launches;
  point.rows_per_launch = min_of(rows, capacity) * top_k;
}

void set_moe_facts(const MoeRequest& request, const MoeLayout& layout, SweepPoint& point) {
  if (layout.implementation != Implementation::w4a16) return;
  if (layout.route_slots > 0) point.route_slots = layout.route_slots;
  const auto pinned = request.pinned_block();
  if (!pinned || request.kind != MoeKind::tensor_parallel) return;
  const BlockRange range =
      reachable_blocks(request.capacity.tokens(), request.capacity.routes_per_token(), layout.route_experts);
  const int index = block_size_index(*pinned);
  point.block_reachable = index >= range.first && index <= range.last;
}

SweepPoint failed_point(SweepPoint point, ErrorCode error) {
  point.failed = true;
  point.error = error;
  return point;
}

SweepPoint plan_deployment(const Deployment& d, Result<std::vector<DeploymentRequest>>& requests,
                           const Sweep& sweep, const std::optional<std::optional<i64>>& pin,
                           SweepPoint point) {
  StepCapacities step;
  const auto status = visit_arenas(d, requests, sweep.arena, pin, step, [&](const Visited& v) -> Status {
    if (v.bytes > kMostBytes - point.bytes)
      return Error{ErrorCode::out_of_range, "/plans",
                   concat("these plans together pass ", kMostBytes, " bytes"), ""};
    point.bytes += v.bytes;
    const auto* moe = v.layout ? std::get_if<MoeLayout>(v.layout) : nullptr;
    if (moe && !sweep.arena.empty()) set_moe_facts(v.request->moe, *moe, point);
    return Ok{};
  });
  if (!status) return failed_point({.index = point.index, .raised = point.raised}, status.error().code);
  set_launches(d, sweep, step, point);
  return point;
}

void set_variable(Environment& env, std::string_view name, i64 value) {
  for (auto& [key, text] : env) {
    if (key != name) continue;
    text = std::to_string(value);
    return;
  }
  env.emplace_back(name, std::to_string(value));
}

}  // namespace

PointPlanner::PointPlanner(const Sweep& sweep) : sweep_(sweep), work_(sweep.config->deployment) {
  if (work_.engine) scheduled_ = work_.engine->max_num_batched_tokens;
}

// False when the config cannot be read with these values.
bool PointPlanner::reread(i64 index) {
  std::vector<i64> values;
  for (std::size_t i = 0; i < sweep_.axes.size(); ++i) {
    if (sweep_.axes[i].kind == AxisKind::pointer) values.push_back(axis_index(sweep_.axes, i, index));
  }
  if (values.empty()) return true;
  if (!reread_ || values != pointer_values_) {
    ConfigOverrides overrides = *sweep_.overrides;
    for (std::size_t i = 0; i < sweep_.axes.size(); ++i) {
      const Axis& axis = sweep_.axes[i];
      if (axis.kind == AxisKind::pointer)
        overrides.sets.push_back(
            concat(axis.name, "=", axis.at(axis_index(sweep_.axes, i, index)).written()));
    }
    reread_ = parse_config(sweep_.config->name, sweep_.config->text, overrides);
    pointer_values_ = std::move(values);
    work_ = reread_->deployment;
    scheduled_ = work_.engine ? work_.engine->max_num_batched_tokens : 0;
  }
  return reread_->problems.empty();
}

void PointPlanner::set_number(const Axis& axis, const AxisValue& value, SweepPoint& point) {
  const bool is_stated = sweep_.stated_index >= 0 || !work_.engine;
  const auto set_stated_tokens = [&] {
    for (std::size_t i = 0; i < work_.plans.size(); ++i) {
      if (sweep_.stated_index < 0 || sweep_.stated_index == static_cast<int>(i))
        work_.plans[i].moe.capacity.max_tokens = value.number;
    }
  };
  switch (axis.kind) {
    case AxisKind::capacity:
      if (is_stated) return set_stated_tokens();
      set_variable(work_.engine->env, kCapacityVariable, value.number);
      if (sweep_.raises_scheduler && value.number > scheduled_) {
        work_.engine->max_num_batched_tokens = value.number;
        point.raised = true;
      }
      return;
    case AxisKind::max_tokens:
      if (is_stated) return set_stated_tokens();
      if (is_decode_arena(sweep_.arena))
        return set_variable(work_.engine->env, kDecodeCapacityVariable, value.number);
      work_.engine->max_num_batched_tokens = value.number;
      return;
    case AxisKind::block:
      block_ = value.is_number ? std::optional(value.number) : std::nullopt;
      return;
    case AxisKind::tp:
      if (work_.parallel) work_.parallel->tp = value.number;
      return;
    case AxisKind::sms:
      if (work_.device) work_.device->sm_count = value.number;
      for (PlanRequest& plan : work_.plans) {
        plan.moe.device.sm_count = value.number;
        plan.indexer.device.sm_count = value.number;
      }
      return;
    case AxisKind::contract: {
      const Contract* contract = find_contract(value.text);
      work_.contract = contract;
      for (PlanRequest& plan : work_.plans) plan.moe.contract = plan.indexer.contract = contract;
      return;
    }
    case AxisKind::pointer:
      return;
  }
}

std::optional<ErrorCode> PointPlanner::move_to(i64 index, SweepPoint& point) {
  point.index = index;
  if (!reread(index)) return reread_->problems.front().error.code;
  if (work_.engine) work_.engine->max_num_batched_tokens = scheduled_;
  for (std::size_t i = 0; i < sweep_.axes.size(); ++i) {
    const Axis& axis = sweep_.axes[i];
    if (axis.kind != AxisKind::pointer) set_number(axis, axis.at(axis_index(sweep_.axes, i, index)), point);
  }
  renew_requests(index);
  return std::nullopt;
}

// Multiprocessors and blocks stand in the requests themselves: where nothing else changed these are kept.
void PointPlanner::renew_requests(i64 index) {
  i64 shape = 0;
  std::optional<i64> multiprocessors;
  for (std::size_t i = 0; i < sweep_.axes.size(); ++i) {
    const Axis& axis = sweep_.axes[i];
    const i64 value = axis_index(sweep_.axes, i, index);
    if (axis.kind == AxisKind::sms)
      multiprocessors = axis.at(value).number;
    else if (axis.kind != AxisKind::block)
      shape = shape * axis.size + value;
  }
  if (!requests_ || shape != shape_) {
    requests_ = plan_requests(work_);
    shape_ = shape;
  }
  if (!*requests_ || !multiprocessors) return;
  for (DeploymentRequest& origin : **requests_) {
    origin.request.moe.device.sm_count = *multiprocessors;
    origin.request.indexer.device.sm_count = *multiprocessors;
  }
}

SweepPoint PointPlanner::plan(i64 index) {
  SweepPoint point;
  if (const auto error = move_to(index, point)) return failed_point(point, *error);
  point = plan_deployment(work_, *requests_, sweep_, block_, point);
  if (!point.failed) set_launch_facts(work_, **requests_, sweep_, point);
  return point;
}

SweepPoint PointPlanner::plan_configured() {
  auto requests = plan_requests(sweep_.config->deployment);
  return plan_deployment(sweep_.config->deployment, requests, sweep_, std::nullopt, {});
}

std::vector<PointArena> PointPlanner::arenas(i64 index) {
  SweepPoint point;
  std::vector<PointArena> arenas;
  if (move_to(index, point)) return arenas;
  StepCapacities step;
  const auto status =
      visit_arenas(work_, *requests_, sweep_.arena, block_, step, [&](const Visited& v) -> Status {
        PointArena arena{std::string(v.id), v.bytes, {}};
        i64 listed = 0;
        const auto add = [&](std::string_view name, i64 bytes) {
          arena.tensors.push_back({std::string(name), bytes});
          listed += bytes;
        };
        if (v.layout) {
          const auto* moe = std::get_if<MoeLayout>(v.layout);
          for (const TensorSpec& t : (moe ? moe->arena : std::get<IndexerLayout>(*v.layout).arena).tensors)
            add(t.name, t.bytes);
        } else {
          for (const Buffer& b : v.part->buffers) add(b.name, b.bytes);
        }
        if (v.bytes > listed) arena.tensors.push_back({listed > 0 ? "padding" : "whole", v.bytes - listed});
        arenas.push_back(std::move(arena));
        return Ok{};
      });
  if (!status) arenas.clear();
  return arenas;
}

}  // namespace moeplan
