#include "cli/commands/explain_total.hpp"

#include "cli/commands/explain_tables.hpp"
#include "cli/render/text.hpp"
#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

struct Part {
  std::string name;
  i64 bytes;
};

// A name as a symbol of a formula.
std::string symbol_name(std::string_view name) {
  std::string symbol =
      name.empty() || (name[0] >= '0' && name[0] <= '9') ? concat("_", name) : std::string(name);
  for (char& c : symbol) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!fine) c = '_';
  }
  return symbol;
}

// The arenas of fused MoE, and what stands in their place for mixed bit widths.
Result<std::vector<Part>> moe_parts(const Deployment& d) {
  std::vector<Part> parts;
  const auto requests = plan_requests(d);
  if (!requests) return requests.error();
  for (const DeploymentRequest& origin : *requests) {
    if (!is_moe(origin.request.kind)) continue;
    const auto layout = plan(origin.request);
    if (!layout) return layout.error();
    parts.push_back({origin.request.id, std::get<MoeLayout>(*layout).total_bytes});
  }
  if (is_exl3(d) && !d.quant->tiers.empty()) {
    const auto runtimes = exl3_runtimes(d);
    if (!runtimes) return runtimes.error();
    for (const RuntimePart& part : runtimes->front().parts) parts.push_back({part.name, part.bytes});
  }
  return parts;
}

i64 sum_of(const std::vector<Part>& parts) {
  i64 sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

std::vector<Moved> moved_totals(const Deployment& d) {
  std::vector<Moved> moved;
  const auto add = [&](std::string change, std::string knob, bool possible, auto set) {
    Moved row{std::move(change), std::move(knob), {}, {}, "there is no such number"};
    if (possible) {
      Deployment other = d;
      set(other);
      const auto parts = moe_parts(other);
      row.reason = parts ? std::string() : parts.error().message;
      if (parts) row.bytes = sum_of(*parts);
    }
    moved.push_back(std::move(row));
  };
  for (i64 tokens : {d.engine->max_num_batched_tokens / 2, d.engine->max_num_batched_tokens * 2})
    add(concat("max_num_batched_tokens ", grouped(tokens)), "/deployment/max_num_batched_tokens",
        tokens >= 1 && tokens <= kMaxTokens,
        [&](Deployment& other) { other.engine->max_num_batched_tokens = tokens; });
  for (i64 tp : {d.parallel->tp / 2, d.parallel->tp * 2})
    add(concat("tp ", tp), "/parallel/tp", tp >= 1, [&](Deployment& other) { other.parallel->tp = tp; });
  for (const Contract& contract : contracts()) {
    if (&contract == d.contract) continue;
    add(concat("contract ", contract.id), "/contract", true,
        [&](Deployment& other) { other.contract = &contract; });
  }
  return moved;
}

}  // namespace

Result<Report> explain_total(const PlannedConfig& planned) {
  const Deployment& d = planned.config->deployment;
  const auto parts = moe_parts(d);
  if (!parts) return parts.error();
  const i64 total = sum_of(*parts);
  Symbols symbols;
  std::vector<std::string> names;
  for (const Part& part : *parts) {
    std::string name = symbol_name(part.name);
    // Two names may differ in what a symbol cannot hold.
    while (find_symbol(symbols, name)) name += "_";
    add_input(symbols, name, part.bytes, concat("bytes of ", part.name));
    names.push_back(std::move(name));
  }
  Report report;
  report.schema = "moeplan.explain/1";
  report.verdict =
      concat(d.name ? concat(*d.name, ": ") : std::string(), "total takes ", grouped(total), " B (",
             mebibytes(total), " MiB) of MoE scratch per rank · contract ", planned.contract_names());
  report.subject = subject_of(d);
  report.facts = {{"name", d.name ? Cell(*d.name) : Cell()}, {"contract", planned.contract_names()}};
  report.totals = {{"bytes", total}};
  report.tables = formula_tables(symbols, {{"total", names.empty() ? "0" : join(names, "+"), "", 1, total}});
  if (d.engine) report.tables.push_back(neighbour_table("total", total, false, moved_totals(d)));
  report.notes.push_back(
      "MoE scratch alone, as size prints it first; indexer arenas and what calls allocate are beside it");
  return report;
}

}  // namespace moeplan
