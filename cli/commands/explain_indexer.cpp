#include "cli/commands/explain_indexer.hpp"

#include "cli/render/text.hpp"
#include "planner/core/text.hpp"
#include "planner/indexer/paged.hpp"
#include "planner/indexer/plan_indexer.hpp"
#include "planner/indexer/route.hpp"

namespace moeplan {
namespace {

constexpr std::pair<RouteChoice, IndexerRoute> kRoutes[] = {
    {RouteChoice::paged_fused, IndexerRoute::paged_fused},
    {RouteChoice::paged_tiled, IndexerRoute::paged_tiled},
    {RouteChoice::packed_contiguous, IndexerRoute::packed_contiguous}};

// Why a plan does not take `route`, which it could be told to take as `layout` says.
std::string why_not(const IndexerRequest& request, IndexerRoute route, const Result<IndexerLayout>& layout) {
  const bool shares_pages = request.caps.shared_page_table.value_or(false);
  if (route == IndexerRoute::packed_contiguous && !shares_pages)
    return "can be planned, but its launch needs rows that share one page table";
  if (layout) return "possible when asked for";
  if (shares_pages || request.caps.mode == IndexerMode::prefill) return layout.error().message;
  const IndexerEnvironment env(request.contract->environment_prefix, request.env);
  const auto caps = paged_caps(request.caps);
  if (!caps) return caps.error().message;
  return fused_availability({.rows = caps->max_q_rows,
                             .width_tokens = caps->tokens(),
                             .heads = caps->num_q_heads,
                             .top_k = caps->top_k},
                            request.device, env)
      .rule;
}

// What one plan would reserve on every route, and why it takes the one it takes.
void add_routes(const DeployedIndexer& plan, Table& table) {
  for (const auto& [choice, route] : kRoutes) {
    const bool taken = route == plan.layout->route;
    IndexerRequest request = plan.request->indexer;
    request.caps.route = choice;
    const auto layout = plan_indexer_paged(request);
    table.rows.push_back(
        {{plan.request->id, std::string(name_of(route)), taken, layout ? Cell(layout->total_bytes) : Cell(),
          taken ? plan.layout->route_reason : why_not(request, route, layout)},
         {}});
  }
}

Table route_table(const PlannedConfig& planned) {
  Table table;
  table.key = "routes";
  table.title = "routes: decided once, from capacities, never from live rows or lengths";
  table.columns = {{"id", "PLAN"},
                   {"route", "ROUTE"},
                   {"taken", "TAKEN"},
                   {"bytes", "BYTES", ColumnKind::bytes},
                   {"why", "WHY"}};
  for (const DeployedIndexer& plan : planned.indexer_plans) add_routes(plan, table);
  return table;
}

Table slack_table(const PlannedConfig& planned) {
  Table table;
  table.key = "tensors";
  table.title = "tensors: what the route touches, and what it reserves for nothing";
  table.columns = {{"id", "PLAN"},
                   {"name", "TENSOR"},
                   {"formula", "ELEMENTS"},
                   {"bytes", "BYTES", ColumnKind::bytes},
                   {"touched", "TOUCHED"}};
  for (const DeployedIndexer& plan : planned.indexer_plans) {
    for (const TensorSpec& tensor : plan.layout->arena.tensors) {
      const bool carries = route_touches(plan.layout->route, tensor.name, FoldUse::carry);
      const bool folds = route_touches(plan.layout->route, tensor.name, FoldUse::two_level);
      table.rows.push_back(
          {{plan.request->id, std::string(tensor.name), std::string(tensor.formula), tensor.bytes,
            std::string(folds     ? "yes"
                        : carries ? "unless folded in two levels"
                                  : "never")},
           {}});
    }
  }
  return table;
}

i64 total_reads(const StepMeta& step) {
  i64 reads = 0;
  for (const EnvReads& variable : step.env_reads) reads += variable.reads;
  return reads;
}

std::string reads_by_variable(const StepMeta& step) {
  std::vector<std::string> parts;
  for (const EnvReads& variable : step.env_reads)
    parts.push_back(concat(variable.variable, " ", variable.reads));
  return join(parts, ", ");
}

i64 allocated_bytes(const StepMeta& step) {
  i64 bytes = 0;
  for (const Allocation& allocation : step.allocations) bytes += allocation.bytes;
  return bytes;
}

// One call at full capacity, as the engine makes it today and with the variables read once at plan time.
Table step_table(const PlannedConfig& planned) {
  const auto& model = planned.config->deployment.model;
  const i64 layers = model ? indexer_layers(*model) : 1;
  Table table;
  table.key = "steps";
  table.title = concat("one call at capacity, and an eager step of ", layers, " layers");
  table.columns = {{"id", "PLAN"},
                   {"chunks", "CHUNKS", ColumnKind::count},
                   {"launches", "LAUNCHES", ColumnKind::count},
                   {"allocated_bytes", "ALLOCATES", ColumnKind::bytes},
                   {"env_reads", "ENV READS", ColumnKind::count},
                   {"env_reads_per_step", "A STEP", ColumnKind::count},
                   {"variables", "OF"}};
  for (const DeployedIndexer& plan : planned.indexer_plans) {
    IndexerRequest call = plan.request->indexer;
    call.args.rows = call.caps.max_q_rows;
    call.args.num_heads = call.caps.num_q_heads;
    call.args.top_k = call.caps.top_k;
    call.args.page_table_width = call.caps.max_page_table_width;
    call.args.shared_page_table = call.caps.shared_page_table;
    call.args.caps = call.caps;
    const auto layout = plan_indexer_step(call);
    if (!layout) {
      table.rows.push_back(
          {{plan.request->id, Cell(), Cell(), Cell(), Cell(), Cell(), layout.error().message}, {}});
      continue;
    }
    const StepMeta& step = std::get<StepMeta>(layout->meta);
    const i64 reads = total_reads(step);
    table.rows.push_back({{plan.request->id, step.num_chunks, static_cast<i64>(step.launches.size()),
                           allocated_bytes(step), reads, reads * layers, reads_by_variable(step)},
                          {}});
  }
  return table;
}

}  // namespace

Report explain_indexer_report(const PlannedConfig& planned, bool with_steps) {
  const Deployment& deployment = planned.config->deployment;
  Report report;
  report.schema = "moeplan.explain/1";
  if (planned.indexer_plans.empty()) {
    report.verdict =
        has_indexer(deployment)
            ? "the indexer of this config is not planned: a setting it follows from is not stated"
            : "this config has no paged indexer: its model states no index_topk, and no plan is one";
    report.findings = indexer_findings(deployment, planned.indexer_plans);
    return report;
  }
  std::vector<std::string> taken;
  for (const DeployedIndexer& plan : planned.indexer_plans)
    taken.push_back(concat(plan.request->id, " takes ", name_of(plan.layout->route)));
  report.verdict = concat(deployment.name ? concat(*deployment.name, ": ") : std::string(), join(taken, ", "),
                          " · contract ", planned.contract_names());
  report.subject = subject_of(deployment);
  report.facts = {{"name", deployment.name ? Cell(*deployment.name) : Cell()},
                  {"contract", planned.contract_names()}};
  for (const DeployedIndexer& plan : planned.indexer_plans) {
    report.totals.push_back({concat(plan.request->id, " untouched_bytes"), untouched_bytes(*plan.layout)});
    report.notes.push_back(
        concat(plan.request->id, ": ", name_of(plan.layout->route), ", because ", plan.layout->route_reason));
  }
  report.tables = {route_table(planned), slack_table(planned)};
  if (with_steps) {
    report.tables.push_back(step_table(planned));
    report.notes.push_back(
        "environment reads are paid by eager calls (a captured graph pays them once, at capture); a draft's "
        "own "
        "forwards come on top. Variables resolved once, at plan time, would leave none a step");
  }
  report.findings = indexer_findings(deployment, planned.indexer_plans);
  report.notes.push_back(
      "decode rows = max_num_seqs x (1 + speculative tokens), prefill rows = max_num_batched_tokens");
  report.notes.push_back(
      "a context longer than the supertile is scored in chunks: candidates of each are carried to the next "
      "(carry), or kept of all and selected once more (folded in two levels)");
  report.notes.push_back(
      "R rows, K top-k, st supertile tokens; tile_logits is independent of a context longer than the "
      "supertile");
  return report;
}

}  // namespace moeplan
