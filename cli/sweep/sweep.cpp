#include "cli/sweep/sweep.hpp"

#include <algorithm>

#include "cli/sweep/launch_facts.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/exl3.hpp"
#include "planner/deployment/exl3_runtime.hpp"
#include "planner/moe/w4a16.hpp"
#include "planner/plan.hpp"

namespace moeplan {
namespace {

constexpr std::string_view kCapacity = "VLLM_EXL3_PREFILL_CAPACITY";
constexpr std::string_view kDecodeCapacity = "VLLM_EXL3_TRELLIS_MAX_M";
constexpr std::string_view kScheduler = "/deployment/max_num_batched_tokens";
constexpr i64 kMostBytes = i64{1} << 62;

bool is_indexer(std::string_view arena) { return arena.starts_with("indexer "); }
bool is_decode(std::string_view arena) {
  return arena.find("decode") != std::string_view::npos && !is_indexer(arena);
}

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
  if (!d.engine || step.decode_tokens == 0 || is_indexer(sweep.arena) || sweep.stated_index >= 0) return;
  const i64 top_k = d.model->num_experts_per_tok.value_or(1);
  const i64 scheduled = d.engine->max_num_batched_tokens;
  const bool decodes = is_decode(sweep.arena);
  const i64 rows = decodes ? step.decode_tokens : scheduled;
  const i64 capacity = decodes || step.prefill_tokens == 0 ? step.decode_tokens : step.prefill_tokens;
  // Beyond the decode plan without a prefill plan the parity path takes over, whose calls are not counted.
  if (rows > capacity && step.prefill_tokens == 0) return;
  point.launches = prefill_slices(rows, capacity).launches;
  point.rows_per_launch = min_of(rows, capacity) * top_k;
}

void set_moe_facts(const MoeRequest& request, const MoeLayout& layout, SweepPoint& point) {
  if (layout.implementation != Implementation::w4a16) return;
  point.route_slots = layout.route_slots;
  const auto pinned = request.capacity.block_size_m;
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

// What the arenas of a config are called, and whether a block can be pinned there.
struct ArenaName {
  std::string id;
  int stated_index;
  bool has_block;
  std::optional<i64> block;
};

Result<std::vector<ArenaName>> arena_names(const Deployment& d) {
  std::vector<ArenaName> names;
  auto requests = plan_requests(d);
  if (!requests) return requests.error();
  for (const DeploymentRequest& origin : *requests) {
    if (origin.request.kind >= RequestKind::indexer_fold) continue;
    names.push_back({origin.request.id, origin.stated_index, origin.request.kind == RequestKind::moe_tp,
                     origin.request.moe.capacity.block_size_m});
  }
  if (d.quant && !d.quant->tiers.empty() && is_exl3(d)) {
    const auto runtimes = exl3_runtimes(d);
    if (!runtimes) return runtimes.error();
    for (const RuntimePart& part : runtimes->front().parts) names.push_back({part.name, -1, false, {}});
  }
  return names;
}

Error usage(std::string message, std::string help) {
  return {ErrorCode::invalid_value, "", std::move(message), std::move(help)};
}

Result<ArenaName> find_arena(const std::vector<ArenaName>& arenas, const std::string& wanted) {
  std::vector<std::string_view> ids;
  for (const ArenaName& arena : arenas) {
    if (arena.id == wanted) return arena;
    ids.push_back(arena.id);
  }
  const auto near = did_you_mean(wanted, ids);
  return usage(concat("no arena \"", shortened(wanted, 60), "\" in this config"),
               near ? concat("did you mean \"", *near, "\"?") : concat("there are: ", join(ids, ", ")));
}

// The place in the config that an axis changes: two axes must not share one.
std::string field_of(const Axis& axis, const Sweep& sweep, bool described) {
  const std::string stated =
      concat("/plans/", sweep.stated_index >= 0 ? std::to_string(sweep.stated_index) : "*");
  const bool is_stated = sweep.stated_index >= 0 || !described;
  switch (axis.kind) {
    case AxisKind::capacity:
      return is_stated ? concat(stated, "/capacity/max_tokens") : environment_pointer(kCapacity);
    case AxisKind::max_tokens:
      if (is_stated) return concat(stated, "/capacity/max_tokens");
      return is_decode(sweep.arena) ? environment_pointer(kDecodeCapacity) : std::string(kScheduler);
    case AxisKind::block:
      return concat(sweep.arena, ": block");
    case AxisKind::tp:
      return "/parallel/tp";
    case AxisKind::sms:
      return "/device/sm_count";
    case AxisKind::contract:
      return "/contract";
    case AxisKind::pointer:
      return axis.name;
  }
  return "";
}

Status check_axis(const Axis& axis, const Sweep& sweep, const ArenaName* arena, bool described) {
  const bool is_stated = sweep.stated_index >= 0 || !described;
  if (axis.kind == AxisKind::block && (!arena || !arena->has_block))
    return usage(arena ? concat("the arena \"", arena->id, "\" has no block to pin")
                       : std::string("block is the pin of one arena"),
                 "choose a MoE plan with --arena, for example --arena decode");
  if (axis.kind == AxisKind::capacity && !is_stated && arena && is_decode(arena->id))
    return usage(concat("capacity is the prefill plan's: it does not change the arena \"", arena->id, "\""),
                 "sweep max_tokens there");
  if (axis.kind == AxisKind::tp && !described)
    return usage("tp divides the experts of a deployment, and this config states plans alone",
                 "the plans' weights are one rank's: sweep /plans/0/weights/intermediate_size");
  return Ok{};
}

// A pointer that no field answers to would be an error at every point: it is one of the command line.
Status check_pointer(const Axis& axis, const Config& config, const ConfigOverrides& overrides) {
  ConfigOverrides with = overrides;
  with.sets.push_back(concat(axis.name, "=", axis.at(0).written()));
  const auto read = parse_config(config.name, config.text, with);
  std::vector<Error> errors;
  for (const Problem& problem : read->problems) errors.push_back(problem.error);
  if (errors.empty() && read->deployment.engine && is_exl3(read->deployment))
    errors = exl3_variable_errors(*read->deployment.engine);
  for (Error& error : errors) {
    if (error.code != ErrorCode::unknown_key && error.code != ErrorCode::invalid_pointer) continue;
    error.message = concat("axis ", axis.name, ": ", error.message);
    error.pointer.clear();
    return error;
  }
  return Ok{};
}

// What all stated plans that the sweep looks at have in common; none where they differ.
template <class Get>
std::optional<i64> common(const Deployment& d, int stated_index, Get get) {
  std::optional<i64> value;
  for (std::size_t i = 0; i < d.plans.size(); ++i) {
    if (stated_index >= 0 && stated_index != static_cast<int>(i)) continue;
    const std::optional<i64> own = get(d.plans[i]);
    if (!own || (value && value != own)) return std::nullopt;
    value = own;
  }
  return value;
}

// The value of an axis' field in the config itself; "" where it has none.
std::string configured_value(const Axis& axis, const Sweep& sweep, const ArenaName* arena, bool described) {
  const Deployment& d = sweep.config->deployment;
  const bool is_stated = sweep.stated_index >= 0 || !described;
  const auto written = [](std::optional<i64> value) {
    return value ? std::to_string(*value) : std::string();
  };
  switch (axis.kind) {
    case AxisKind::capacity:
    case AxisKind::max_tokens: {
      if (is_stated)
        return written(common(d, sweep.stated_index, [](const PlanRequest& plan) {
          return std::optional(plan.moe.capacity.max_tokens);
        }));
      if (axis.kind == AxisKind::max_tokens && !is_decode(sweep.arena))
        return std::to_string(d.engine->max_num_batched_tokens);
      const auto settings = parse_exl3_settings(*d.engine);
      if (!settings) return "";
      return std::to_string(axis.kind == AxisKind::capacity ? settings->prefill_tokens
                                                            : settings->decode_tokens);
    }
    case AxisKind::block:
      return arena->block ? std::to_string(*arena->block) : "unpinned";
    case AxisKind::tp:
      return std::to_string(d.parallel->tp);
    case AxisKind::sms:
      if (d.device) return std::to_string(d.device->sm_count);
      return written(common(d, -1, [](const PlanRequest& plan) {
        return is_moe(plan.kind) ? plan.moe.device.sm_count : plan.indexer.device.sm_count;
      }));
    case AxisKind::contract:
      return d.contract ? std::string(d.contract->id) : "";
    case AxisKind::pointer: {
      const JsonDocument& document = sweep.config->document;
      const JsonNode& node = document.find_nearest(axis.name);
      if (document.pointer(node) != axis.name) return "";
      return std::string(node.type == JsonType::string ? document.text(node) : document.raw(node));
    }
  }
  return "";
}

}  // namespace

bool is_configured(const Sweep& sweep, i64 index) {
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    if (sweep.axes[i].at(axis_index(sweep.axes, i, index)).written() != sweep.configured[i]) return false;
  }
  return true;
}

Result<Sweep> bind_sweep(const Config& config, const ConfigOverrides& overrides, std::vector<Axis> axes,
                         std::string arena) {
  const Deployment& d = config.deployment;
  const bool described = static_cast<bool>(check_described(d));
  Sweep sweep{.config = &config, .overrides = &overrides, .axes = std::move(axes), .arena = std::move(arena)};
  const auto arenas = arena_names(d);
  const bool wants_block =
      std::ranges::any_of(sweep.axes, [](const Axis& axis) { return axis.kind == AxisKind::block; });
  // Where one plan alone has a block there is nothing to choose.
  if (sweep.arena.empty() && wants_block && arenas && arenas->size() == 1 && arenas->front().has_block)
    sweep.arena = arenas->front().id;
  std::optional<ArenaName> chosen;
  if (!sweep.arena.empty()) {
    if (!arenas) return arenas.error();
    auto found = find_arena(*arenas, sweep.arena);
    if (!found) return found.error();
    chosen = std::move(*found);
    sweep.stated_index = chosen->stated_index;
  }
  std::vector<std::string> fields;
  for (const Axis& axis : sweep.axes) {
    if (auto s = check_axis(axis, sweep, chosen ? &*chosen : nullptr, described); !s) return s.error();
    if (axis.kind == AxisKind::pointer) {
      if (auto s = check_pointer(axis, config, overrides); !s) return s.error();
    }
    sweep.configured.push_back(configured_value(axis, sweep, chosen ? &*chosen : nullptr, described));
    fields.push_back(field_of(axis, sweep, described));
    if (std::ranges::count(fields, fields.back()) > 1)
      return usage(concat("two axes change ", fields.back()), "give its values in one axis");
  }
  sweep.points = grid_points(sweep.axes);
  sweep.raises_scheduler = std::ranges::find(fields, environment_pointer(kCapacity)) != fields.end() &&
                           std::ranges::find(fields, kScheduler) == fields.end();
  return sweep;
}

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
      set_variable(work_.engine->env, kCapacity, value.number);
      if (sweep_.raises_scheduler && value.number > scheduled_) {
        work_.engine->max_num_batched_tokens = value.number;
        point.raised = true;
      }
      return;
    case AxisKind::max_tokens:
      if (is_stated) return set_stated_tokens();
      if (is_decode(sweep_.arena)) return set_variable(work_.engine->env, kDecodeCapacity, value.number);
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
