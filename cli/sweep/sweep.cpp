#include "cli/sweep/sweep.hpp"

#include <algorithm>

#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/exl3.hpp"
#include "planner/deployment/exl3_runtime.hpp"
#include "planner/deployment/plan_requests.hpp"

namespace moeplan {
namespace {

constexpr std::string_view kScheduler = "/deployment/max_num_batched_tokens";

// What the arenas of a config are called, and whether a block can be pinned there.
struct ArenaName {
  std::string id;
  int stated_index;
  bool has_block;
  bool is_lean;  // its executor has blocks of its own
  std::optional<i64> block;
};

Result<std::vector<ArenaName>> arena_names(const Deployment& d) {
  std::vector<ArenaName> names;
  auto requests = plan_requests(d);
  if (!requests) return requests.error();
  for (const DeploymentRequest& origin : *requests) {
    if (origin.request.kind >= RequestKind::indexer_fold) continue;
    const bool is_lean = is_moe(origin.request.kind) && origin.request.moe.contract->lean_executor;
    names.push_back({origin.request.id, origin.stated_index,
                     origin.request.kind == RequestKind::moe_tp && !is_lean, is_lean,
                     origin.request.moe.capacity.block_size_m});
  }
  if (d.quant && !d.quant->tiers.empty() && is_exl3(d)) {
    const auto runtimes = exl3_runtimes(d);
    if (!runtimes) return runtimes.error();
    for (const RuntimePart& part : runtimes->front().parts)
      names.push_back({part.name, -1, false, false, {}});
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
      return is_stated ? concat(stated, "/capacity/max_tokens") : environment_pointer(kCapacityVariable);
    case AxisKind::max_tokens:
      if (is_stated) return concat(stated, "/capacity/max_tokens");
      return is_decode_arena(sweep.arena) ? environment_pointer(kDecodeCapacityVariable)
                                          : std::string(kScheduler);
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
                 arena && arena->is_lean
                     ? "the lean executor has blocks of its own: take the contract of an engine"
                     : "choose a MoE plan with --arena, for example --arena decode");
  if (axis.kind == AxisKind::capacity && !is_stated && arena && is_decode_arena(arena->id))
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
      if (axis.kind == AxisKind::max_tokens && !is_decode_arena(sweep.arena))
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

bool is_indexer_arena(std::string_view arena) { return arena.starts_with("indexer "); }

bool is_decode_arena(std::string_view arena) {
  return arena.find("decode") != std::string_view::npos && !is_indexer_arena(arena);
}

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
  sweep.raises_scheduler =
      std::ranges::find(fields, environment_pointer(kCapacityVariable)) != fields.end() &&
      std::ranges::find(fields, kScheduler) == fields.end();
  return sweep;
}

}  // namespace moeplan
