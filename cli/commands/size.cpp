#include "cli/commands/size.hpp"

#include "cli/commands/options.hpp"
#include "cli/log.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/exl3_runtime.hpp"
#include "planner/moe/plan_moe.hpp"
#include "planner/moe/weight_plan.hpp"

namespace moeplan {
namespace {

// Bytes of an arena that a plan of fewer tokens would reserve all the same.
i64 floor_bytes(const ArenaLayout& arena) {
  i64 bytes = 0;
  for (const TensorSpec& tensor : arena.tensors) {
    if (!tensor.grows_with_tokens && tensor.bound != Bound::columns) bytes += tensor.bytes;
  }
  return bytes;
}

i64 tensor_bytes(const ArenaLayout& arena) {
  i64 bytes = 0;
  for (const TensorSpec& tensor : arena.tensors) bytes += tensor.bytes;
  return bytes;
}

// "91.4 %" in exact arithmetic, rounded down.
std::string percent(i64 part, i64 whole) {
  const i64 tenths = part * 1000 / max_of(whole, 1);
  return concat(tenths / 10, ".", tenths % 10, "%");
}

Table tensor_table(std::string_view id, const MoeLayout& layout) {
  Table table;
  table.key = "tensors";
  table.title = concat(id, ", by tensor");
  table.columns = {{"name", "TENSOR"},
                   {"dtype", "DTYPE"},
                   {"region", "REGION", ColumnKind::text, Audience::programs},
                   {"shape", "SHAPE", ColumnKind::text, Audience::programs},
                   {"elements", "ELEMENTS", ColumnKind::count, Audience::programs},
                   {"formula", "FORMULA", ColumnKind::text, Audience::programs},
                   {"offset", "OFFSET", ColumnKind::count},
                   {"bytes", "BYTES", ColumnKind::bytes, Audience::everyone, true},
                   {"bound", "BOUND", ColumnKind::text, Audience::programs},
                   {"remark", "", ColumnKind::text, Audience::people}};
  table.people_sort_by = 7;
  for (const TensorSpec& t : layout.arena.tensors) {
    const auto dims = std::span(t.shape.dims, static_cast<std::size_t>(t.shape.rank));
    table.rows.push_back(
        {{std::string(t.name), std::string(name_of(t.dtype)), std::string(name_of(t.region)),
          std::vector<i64>(dims.begin(), dims.end()), t.shape.elements(), std::string(t.formula), t.offset,
          t.bytes, std::string(name_of(t.bound)), std::string(t.bound == Bound::sm_cap ? "at SM cap" : "")},
         {}});
  }
  const auto footer = [&](std::string name, i64 bytes) {
    Row row{std::vector<Cell>(table.columns.size()), {}};
    row.cells[0] = std::move(name);
    row.cells[7] = bytes;
    table.footers.push_back(std::move(row));
  };
  const i64 padding = layout.arena.end - tensor_bytes(layout.arena);
  const i64 tail = layout.total_bytes - layout.arena.end;
  footer("alignment padding", padding);
  if (tail > 0) footer("tail for a smaller token count", tail);
  footer("total", layout.total_bytes);
  return table;
}

Table arena_table(std::span<const SizedPlan> plans) {
  Table table;
  table.key = "arenas";
  table.columns = {{"id", "ARENA"},
                   {"kind", "KIND", ColumnKind::text, Audience::programs},
                   {"contract", "CONTRACT", ColumnKind::text, Audience::programs},
                   {"implementation", "KERNELS"},
                   {"weight_layout", "LAYOUT"},
                   {"max_tokens", "TOKENS", ColumnKind::count},
                   {"block_m", "BLOCK", ColumnKind::count, Audience::programs},
                   {"block", "BLOCK", ColumnKind::count, Audience::people},
                   {"pinned", "PINNED", ColumnKind::text, Audience::programs},
                   {"routed_rows", "ROUTED ROWS", ColumnKind::count},
                   {"route_slots", "ROUTE SLOTS", ColumnKind::count},
                   {"route_bytes", "ROUTE BYTES", ColumnKind::count, Audience::programs},
                   {"core_bytes", "CORE BYTES", ColumnKind::count, Audience::programs},
                   {"floor_bytes", "FLOOR BYTES", ColumnKind::count, Audience::programs},
                   {"bytes", "BYTES", ColumnKind::bytes}};
  for (const SizedPlan& plan : plans) {
    const MoeRequest& moe = plan.request->moe;
    const MoeLayout& layout = plan.layout;
    const bool is_w4a16 = layout.implementation == Implementation::w4a16;
    const auto& block = layout.route_block_size_m;
    const i64 top_k = max_of(moe.capacity.top_k, 1);
    table.rows.push_back(
        {{plan.request->id, std::string(name_of(plan.request->kind)), std::string(layout.contract->id),
          std::string(name_of(layout.implementation)),
          layout.weight_layout ? Cell(std::string(layout_name(*layout.contract, *layout.weight_layout)))
                               : Cell(),
          max_of(moe.capacity.max_tokens, 1), block ? Cell(*block) : Cell(),
          block      ? Cell(*block)
          : is_w4a16 ? Cell(std::string("unpinned"))
                     : Cell(),
          is_w4a16 && moe.capacity.block_size_m.has_value(), layout.bound_tokens * top_k,
          is_w4a16 ? Cell(layout.route_slots) : Cell(), layout.route_bytes, layout.core_bytes,
          floor_bytes(layout.arena), layout.total_bytes},
         {tensor_table(plan.request->id, layout)}});
  }
  return table;
}

// What a target of mixed bit widths allocates in place of arenas; empty for others.
Result<std::vector<RuntimePart>> mixed_parts(const Deployment& d) {
  if (!is_exl3(d) || d.quant->tiers.empty()) return std::vector<RuntimePart>{};
  auto runtimes = exl3_runtimes(d);
  if (!runtimes) return runtimes.error();
  return std::move(runtimes->front().parts);
}

Table mixed_table(std::span<const RuntimePart> parts) {
  Table table;
  table.key = "mixed_buffers";
  table.title = "MIXED BIT WIDTHS";
  table.columns = {{"part", "PART"},
                   {"tokens", "TOKENS", ColumnKind::count},
                   {"block_m", "BLOCK", ColumnKind::count},
                   {"bytes", "BYTES", ColumnKind::bytes}};
  for (const RuntimePart& part : parts) {
    Table tensors;
    tensors.key = "tensors";
    tensors.title = concat(part.name, ", by tensor");
    tensors.columns = {{"name", "TENSOR"},
                       {"dtype", "DTYPE"},
                       {"shape", "SHAPE", ColumnKind::text, Audience::programs},
                       {"formula", "FORMULA", ColumnKind::text, Audience::programs},
                       {"bytes", "BYTES", ColumnKind::bytes, Audience::everyone, true}};
    tensors.people_sort_by = 4;
    for (const Buffer& b : part.buffers) {
      const auto dims = std::span(b.shape.dims, static_cast<std::size_t>(b.shape.rank));
      tensors.rows.push_back({{std::string(b.name), std::string(b.dtype),
                               std::vector<i64>(dims.begin(), dims.end()), std::string(b.formula), b.bytes},
                              {}});
    }
    Row row{{part.name, part.tokens, part.block > 0 ? Cell(part.block) : Cell(), part.bytes}, {}};
    if (!tensors.rows.empty()) row.details.push_back(std::move(tensors));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// "GLM-5.2 · EXL3 trellis 3 bpw · TP4 · …": what the engine's plans are made from.
std::string subject_of(const Deployment& d) {
  std::vector<std::string> parts;
  if (d.model && d.model->name) parts.push_back(*d.model->name);
  if (d.quant && d.quant->source_format) {
    parts.push_back(concat(name_of(*d.quant->source_format),
                           d.quant->bits ? concat(" ", *d.quant->bits, " bpw") : std::string()));
  }
  if (d.parallel) parts.push_back(concat("TP", d.parallel->tp));
  if (d.model && d.parallel && d.model->hidden_size && d.model->moe_intermediate_size)
    parts.push_back(concat("k=", *d.model->hidden_size,
                           " n=", *d.model->moe_intermediate_size / d.parallel->tp,
                           "/rank E=", d.model->n_routed_experts.value_or(0),
                           " topk=", d.model->num_experts_per_tok.value_or(0)));
  if (d.device) {
    parts.push_back(concat(d.device->name.value_or("device"), ", ", d.device->sm_count, " SMs"));
  }
  return join(parts, " · ");
}

// A config's plans, each laid out; problems go to the config.
std::vector<DeploymentRequest> requests_of(Config& config) {
  if (!config.problems.empty()) return {};
  auto requests = plan_requests(config.deployment);
  if (!requests) {
    config.add(requests.error());
    return {};
  }
  if (const auto parts = mixed_parts(config.deployment); !parts) config.add(parts.error());
  return std::move(*requests);
}

std::vector<SizedPlan> size_plans(Config& config, std::span<const DeploymentRequest> requests) {
  std::vector<SizedPlan> plans;
  for (const DeploymentRequest& entry : requests) {
    auto layout = plan_moe(entry.request.moe);
    if (layout) {
      log_debug(concat("planned ", entry.request.id, ": ", layout->total_bytes, " bytes"));
      plans.push_back({&entry.request, std::move(*layout)});
      continue;
    }
    Error error = layout.error();
    error.message = concat("plan \"", entry.request.id, "\": ", error.message);
    error.pointer = entry.config_pointer(error.pointer);
    config.add(std::move(error));
  }
  return plans;
}

}  // namespace

Report size_report(const Deployment& deployment, std::span<const SizedPlan> plans) {
  i64 total = 0;
  for (const SizedPlan& plan : plans) total += plan.layout.total_bytes;
  const auto parts = mixed_parts(deployment);
  MOEPLAN_CHECK(parts, "sizing a deployment whose buffers cannot be planned");
  for (const RuntimePart& part : *parts) total += part.bytes;

  Report report;
  report.schema = "moeplan.plan/1";
  report.verdict = concat(deployment.name ? concat(*deployment.name, ": ") : std::string(), grouped(total),
                          " B (", mebibytes(total), " MiB) of MoE scratch per rank · ", plans.size(),
                          plans.size() == 1 ? " arena" : " arenas",
                          parts->empty() ? "" : " and the buffers of mixed bit widths", " · contract ",
                          deployment.contract->id);
  report.subject = subject_of(deployment);
  report.facts = {{"name", deployment.name ? Cell(*deployment.name) : Cell()},
                  {"contract", std::string(deployment.contract->id)}};
  report.totals = {{"per_rank_bytes", total}};
  if (!plans.empty() || parts->empty()) report.tables.push_back(arena_table(plans));
  if (!parts->empty()) report.tables.push_back(mixed_table(*parts));
  for (const SizedPlan& plan : plans) {
    const i64 floor = floor_bytes(plan.layout.arena);
    report.notes.push_back(
        concat(plan.request->id, ": ", percent(plan.layout.total_bytes - floor, plan.layout.total_bytes),
               " grows with tokens; ", mebibytes(floor), " MiB does not (floor of any smaller plan)"));
  }
  report.notes.push_back(
      "weights, KV cache, parity staging and the engine's other buffers are not in this total");
  return report;
}

ExitCode run_size(const SizeOptions& options) {
  std::vector<std::unique_ptr<Config>> configs;  // places in problems point into them
  std::vector<Report> reports;
  std::vector<Problem> problems;
  for (const std::string& path : options.configs) {
    configs.push_back(read_config(path, options.overrides));
    Config& config = *configs.back();
    log_info(concat("read ", config.name, ": ", config.text.size(), " bytes"));
    const auto requests = requests_of(config);
    const auto plans = size_plans(config, requests);
    if (config.problems.empty()) reports.push_back(size_report(config.deployment, plans));
    problems.insert(problems.end(), config.problems.begin(), config.problems.end());
  }
  return finish(reports, problems, options.report);
}

}  // namespace moeplan
