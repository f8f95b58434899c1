#include "cli/commands/size.hpp"

#include "cli/commands/engine_note.hpp"
#include "cli/commands/finish.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/tensor_table.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/ignored_pins.hpp"
#include "planner/indexer/paged.hpp"
#include "planner/moe/weight_plan.hpp"

namespace moeplan {
namespace {

std::string_view moe_remark(const TensorSpec& tensor, const void*) {
  return tensor.bound == Bound::sm_cap ? "at SM cap" : "";
}

std::string_view indexer_remark(const TensorSpec& tensor, const void* about) {
  const auto route = static_cast<const IndexerLayout*>(about)->route;
  return route_touches(route, tensor.name) ? "" : "never touched";
}

Row moe_row(const PlannedRequest& plan) {
  const MoeRequest& moe = plan.origin.request.moe;
  const MoeLayout& layout = *plan.moe();
  const bool is_w4a16 = layout.implementation == Implementation::w4a16;
  const bool packs = layout.route_slots > 0;  // a lean decode plan packs no routes in memory
  const auto& block = layout.route_block_size_m;
  return {{plan.id(), std::string(name_of(plan.origin.request.kind)), std::string(layout.contract->id),
           std::string(name_of(layout.implementation)),
           layout.weight_layout ? Cell(std::string(layout_name(*layout.contract, *layout.weight_layout)))
                                : Cell(),
           moe.capacity.tokens(), block ? Cell(*block) : Cell(),
           block               ? Cell(*block)
           : is_w4a16 && packs ? Cell(std::string("unpinned"))
                               : Cell(),
           is_w4a16 && moe.pinned_block().has_value(), layout.bound_tokens * moe.capacity.routes_per_token(),
           is_w4a16 && packs ? Cell(layout.route_slots) : Cell(), layout.route_bytes, layout.core_bytes,
           layout.total_bytes},
          {tensor_table(concat(plan.id(), ", by tensor"), layout.arena, layout.total_bytes, moe_remark)}};
}

Table moe_table() {
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
                   {"bytes", "BYTES", ColumnKind::bytes}};
  return table;
}

Table mixed_table(std::span<const RuntimePart> parts) {
  Table table;
  table.key = "mixed_buffers";
  table.title = "mixed bit widths: buffers in place of arenas";
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
    tensors.people_sort_by = static_cast<int>(tensors.column("bytes"));
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

Row indexer_row(const PlannedRequest& plan) {
  const IndexerLayout& layout = *plan.indexer();
  const IndexerCaps& caps = plan.origin.request.indexer.caps;
  const auto* paged = std::get_if<PagedMeta>(&layout.meta);
  return {{plan.id(), std::string(name_of(plan.origin.request.kind)), std::string(layout.contract->id),
           std::string(name_of(layout.route)), optional_cell(caps.max_q_rows),
           optional_cell(caps.max_page_table_width), optional_cell(caps.num_q_heads),
           optional_cell(caps.top_k), paged ? Cell(paged->supertile_tokens) : Cell(), layout.total_bytes},
          {tensor_table(concat(plan.id(), ", by tensor"), layout.arena, layout.total_bytes, indexer_remark,
                        &layout)}};
}

Table indexer_table() {
  Table table;
  table.key = "indexer_arenas";
  table.columns = {{"id", "INDEXER ARENA"},
                   {"kind", "KIND", ColumnKind::text, Audience::programs},
                   {"contract", "CONTRACT", ColumnKind::text, Audience::programs},
                   {"route", "ROUTE"},
                   {"rows", "ROWS", ColumnKind::count},
                   {"pages", "PAGES", ColumnKind::count},
                   {"heads", "HEADS", ColumnKind::count},
                   {"top_k", "TOP-K", ColumnKind::count},
                   {"supertile_tokens", "SUPERTILE", ColumnKind::count},
                   {"bytes", "BYTES", ColumnKind::bytes}};
  return table;
}

Table late_table(const PlannedConfig& planned) {
  Table table;
  table.key = "late_allocations";
  table.title = "allocated after profiling: by a call, outside every arena";
  table.columns = {{"id", "BY"},
                   {"what", "WHAT"},
                   {"rows", "PEAK AT ROWS", ColumnKind::count},
                   {"context_tokens", "AND CONTEXT", ColumnKind::count},
                   {"slices", "SLICES", ColumnKind::count},
                   {"bytes", "BYTES", ColumnKind::bytes}};
  for (const DeployedIndexer& plan : planned.indexer_plans) {
    const LateAllocation& late = plan.late;
    if (late.bytes == 0) continue;
    table.rows.push_back({{plan.request->id, std::string(late.what), late.rows, late.tokens,
                           late.slices > 0 ? Cell(late.slices) : Cell(), late.bytes},
                          {}});
  }
  return table;
}

// The most that calls hold at once: a step is either a decode or a prefill.
i64 late_bytes(const PlannedConfig& planned) {
  i64 most = 0;
  for (const DeployedIndexer& plan : planned.indexer_plans) most = max_of(most, plan.late.bytes);
  return most;
}

// Split-K scratch that more tokens do not raise.
i64 capped_bytes(const ArenaLayout& arena) {
  i64 bytes = 0;
  for (const TensorSpec& tensor : arena.tensors) {
    if (tensor.bound == Bound::sm_cap) bytes += tensor.bytes;
  }
  return bytes;
}

std::string count_of(std::size_t count, std::string_view what) {
  return concat(count, " ", what, count == 1 ? "" : "s");
}

}  // namespace

Report size_report(const PlannedConfig& planned) {
  const Deployment& deployment = planned.config->deployment;
  Table moe = moe_table();
  Table indexer = indexer_table();
  i64 moe_bytes = 0;
  i64 indexer_bytes = 0;
  Report report;
  for (const PlannedRequest& plan : planned.plans) {
    if (const MoeLayout* layout = plan.moe()) {
      moe.rows.push_back(moe_row(plan));
      moe_bytes += layout->total_bytes;
      if (const i64 capped = capped_bytes(layout->arena); capped > 0)
        report.notes.push_back(concat(plan.id(), ": ", mebibytes(capped), " of ",
                                      mebibytes(layout->total_bytes),
                                      " MiB are split-K scratch at its SM cap: more tokens do not raise it"));
    } else {
      // A call is no arena: what it allocates is not reserved.
      const bool is_arena = plan.origin.request.kind < RequestKind::indexer_fold;
      indexer.rows.push_back(indexer_row(plan));
      indexer_bytes += is_arena ? plan.indexer()->total_bytes : 0;
    }
  }
  Table mixed = mixed_table(planned.mixed_parts);
  for (const RuntimePart& part : planned.mixed_parts) moe_bytes += part.bytes;
  Table late = late_table(planned);

  report.schema = "moeplan.plan/1";
  report.verdict =
      concat(deployment.name ? concat(*deployment.name, ": ") : std::string(), grouped(moe_bytes), " B (",
             mebibytes(moe_bytes), " MiB) of MoE scratch per rank · ",
             count_of(moe.rows.size() + mixed.rows.size(), "arena"));
  if (!indexer.rows.empty())
    report.verdict +=
        concat(" · indexer ", grouped(indexer_bytes), " B (", mebibytes(indexer_bytes), " MiB)");
  report.verdict += concat(" · contract ", planned.contract_names());
  report.subject = subject_of(deployment);
  report.facts = {{"name", deployment.name ? Cell(*deployment.name) : Cell()},
                  {"contract", planned.contract_names()}};
  report.totals = {{"per_rank_bytes", moe_bytes},
                   {"indexer_per_rank_bytes", indexer_bytes},
                   {"late_per_rank_bytes", late_bytes(planned)}};
  for (Table* table : {&moe, &mixed, &indexer, &late}) {
    if (!table->rows.empty() || (table == &moe && mixed.rows.empty()))
      report.tables.push_back(std::move(*table));
  }
  report.findings = ignored_pins(deployment);
  for (Finding& finding : indexer_findings(deployment, planned.indexer_plans))
    report.findings.push_back(std::move(finding));
  if (deployment.engine)
    report.notes.push_back(
        "one arena a runtime, shared by all layers of a model on a device, not one a layer");
  add_engine_note(report, deployment);
  report.notes.push_back(
      "arenas only: weights, KV cache and the engine's other buffers are not in these totals");
  return report;
}

ExitCode run_size(const ConfigOptions& options) { return answer_configs(options, size_report); }

}  // namespace moeplan
