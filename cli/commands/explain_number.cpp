#include "cli/commands/explain_number.hpp"

#include <algorithm>
#include <optional>

#include "cli/commands/explain_kv.hpp"
#include "cli/commands/explain_tables.hpp"
#include "cli/commands/explain_total.hpp"
#include "cli/render/text.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/exl3.hpp"
#include "planner/deployment/neighbours.hpp"
#include "planner/deployment/part_symbols.hpp"
#include "planner/indexer/symbols.hpp"
#include "planner/moe/geometry.hpp"
#include "planner/moe/symbols.hpp"

namespace moeplan {
namespace {

// Names are told apart by their words: "indexer-decode" is "indexer decode", which a shell would split.
std::string words_of(std::string_view name) {
  std::string words(name);
  for (char& c : words) {
    if (c == '-' || c == '_') c = ' ';
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return words;
}

const ArenaLayout& arena_of(const PlanLayout& layout) {
  return std::visit([](const auto& l) -> const ArenaLayout& { return l.arena; }, layout);
}
i64 bytes_of(const PlanLayout& layout) {
  return std::visit([](const auto& l) { return l.total_bytes; }, layout);
}
std::string_view contract_of(const PlanLayout& layout) {
  return std::visit([](const auto& l) { return l.contract->id; }, layout);
}

const TensorSpec* find_tensor(const ArenaLayout& arena, std::string_view name) {
  const auto at = std::ranges::find(arena.tensors, name, &TensorSpec::name);
  return at == arena.tensors.end() ? nullptr : at;
}

// Parts of a runtime that are buffers and no arena.
std::vector<RuntimePart> buffer_parts(const PlannedConfig& planned) {
  const Deployment& deployment = planned.config->deployment;
  std::vector<RuntimePart> parts;
  if (!is_exl3(deployment) || !check_described(deployment)) return parts;
  auto runtimes = exl3_runtimes(deployment);
  if (!runtimes) return parts;
  for (Exl3Runtime& runtime : *runtimes) {
    for (RuntimePart& part : runtime.parts) {
      if (!part.buffers.empty()) parts.push_back(std::move(part));
    }
  }
  return parts;
}

// The arena that the tiers of a checkpoint share in serial form: the largest tier's, which no request of the
// deployment names.
std::vector<PlannedRequest> tier_plans(const PlannedConfig& planned) {
  const Deployment& deployment = planned.config->deployment;
  std::vector<PlannedRequest> plans;
  for (const RuntimePart& part : planned.mixed_parts) {
    if (part.kind != PartKind::mixed_arena) continue;
    const auto settings = read_exl3_settings(*deployment.engine);
    MOEPLAN_CHECK(settings, "a planned part of settings that cannot be read");
    for (const QuantTier& tier : deployment.quant->tiers) {
      PlanRequest request = exl3_tier_request(deployment, *settings, tier);
      request.id = part.name;
      auto layout = plan(request);
      if (!layout || bytes_of(*layout) != part.bytes) continue;
      plans.push_back({{std::move(request), -1}, std::move(*layout)});
      break;
    }
  }
  return plans;
}

Explained tensor_number(const Symbols& symbols, const TensorSpec& tensor) {
  return {std::string(tensor.name), std::string(element_formula(symbols, tensor.name, tensor.formula)),
          "elements", item_bytes(tensor.dtype), tensor.bytes};
}

std::string_view bound_text(Bound bound) {
  return bound == Bound::sm_cap    ? "at SM cap: more tokens do not raise it"
         : bound == Bound::columns ? "below the SM cap: every element of every slot is staged"
                                   : "";
}

// What the plan's neighbours make of the arena, or of one tensor in it.
std::vector<Moved> moved_plans(const PlannedConfig& planned, const PlannedRequest& plan,
                               std::string_view tensor) {
  std::vector<Moved> moved;
  for (const Neighbour& neighbour : neighbours_of(planned.config->deployment, plan.origin)) {
    Moved row{neighbour.change, neighbour.knob, {}, {}, neighbour.reason};
    if (neighbour.request) {
      const auto layout = moeplan::plan(*neighbour.request);
      if (!layout) {
        row.reason = layout.error().message;
      } else {
        row.arena_bytes = bytes_of(*layout);
        const TensorSpec* there = find_tensor(arena_of(*layout), tensor);
        row.bytes = tensor.empty() ? *row.arena_bytes : there ? there->bytes : 0;
      }
    }
    moved.push_back(std::move(row));
  }
  return moved;
}

void add_sources(Report& report, const PlannedRequest& plan, const TensorSpec* tensor) {
  std::string section = "docs/contracts.md", original;
  if (const MoeLayout* layout = plan.moe()) {
    const MoeRequest& request = plan.origin.request.moe;
    const FormulaSource source =
        moe_formula_source(request, *layout, tensor ? *tensor : layout->arena.tensors[0]);
    if (tensor) section = source.section;
    original = tensor || request.contract->lean_executor ? source.original
                                                         : "moe/fused_moe/_impl.py, _plan_core_workspace";
  } else {
    const bool is_fold = tensor && tensor->name.starts_with("fold");
    section = is_fold ? "docs/indexer.md section 4" : "docs/indexer.md section 3";
    original = tensor && tensor->name == "fold_slab" ? "ours: reserve_fold" : "attention/nsa_indexer";
  }
  report.facts.push_back({"source", section});
  report.facts.push_back({"original", original});
  report.notes.push_back(concat("source: ", section, "; ", contract_of(plan.layout), ", ", original));
}

Report new_report(const PlannedConfig& planned, std::string verdict, std::string_view contract) {
  const Deployment& deployment = planned.config->deployment;
  Report report;
  report.schema = "moeplan.explain/1";
  report.verdict = concat(deployment.name ? concat(*deployment.name, ": ") : std::string(), verdict,
                          contract.empty() ? "" : concat(" · contract ", contract));
  report.subject = subject_of(deployment);
  report.facts = {{"name", deployment.name ? Cell(*deployment.name) : Cell()},
                  {"contract", std::string(contract)}};
  return report;
}

std::string size_text(i64 bytes) { return concat(grouped(bytes), " B (", mebibytes(bytes), " MiB)"); }

Symbols symbols_of(const PlannedRequest& plan) {
  return plan.moe() ? moe_symbols(plan.origin.request.moe, *plan.moe())
                    : indexer_symbols(plan.origin.request, *plan.indexer());
}

// Core bytes by token count: the most of them is reserved, and only the largest count's tensors are named.
Table counts_table(const MoeLayout& layout) {
  Table table;
  table.key = "token_counts";
  table.title = "core bytes by token count; the most is reserved";
  table.columns = {{"tokens", "TOKENS", ColumnKind::count}, {"bytes", "BYTES", ColumnKind::bytes}};
  for (const CoreBytes& count : layout.by_tokens) table.rows.push_back({{count.tokens, count.bytes}, {}});
  return table;
}

// Which launches take which block where none is pinned, and whether the plan has such launches.
Table blocks_table(const PlannedRequest& plan) {
  const MoeLayout& layout = *plan.moe();
  const i64 top_k = plan.origin.request.moe.capacity.routes_per_token();
  Table table;
  table.key = "blocks";
  table.title = "the block a launch takes by itself";
  table.columns = {{"block_m", "BLOCK", ColumnKind::count},
                   {"from_tokens", "FROM TOKENS", ColumnKind::count},
                   {"to_tokens", "TO TOKENS", ColumnKind::count},
                   {"reachable", "REACHABLE"}};
  i64 from = 1;
  for (i64 block : kBlockSizes) {
    const bool is_last = block == kBlockSizes[kBlockSizeCount - 1];
    // The most tokens with 10*tokens*topk < 9*block*R.
    const i64 to = ceil_div(9 * block * layout.route_experts, 10 * top_k) - 1;
    const bool is_taken = is_last || to >= from;
    table.rows.push_back({{block, is_taken ? Cell(from) : Cell(), is_taken && !is_last ? Cell(to) : Cell(),
                           is_taken && from <= layout.bound_tokens},
                          {}});
    from = max_of(from, to + 1);
  }
  return table;
}

// How an arena's bytes add up, in bytes.
std::vector<Table> sum_tables(const PlannedRequest& plan) {
  const ArenaLayout& arena = arena_of(plan.layout);
  i64 tensors = 0;
  for (const TensorSpec& tensor : arena.tensors) tensors += tensor.bytes;
  Symbols symbols;
  add_input(symbols, "tensors", tensors, "bytes of its tensors");
  add_input(symbols, "padding", arena.end - tensors, "bytes between them");
  add_input(symbols, "behind", bytes_of(plan.layout) - arena.end,
            "bytes behind the last: a smaller count's, or the end's alignment");
  std::vector<Table> tables =
      formula_tables(symbols, {{plan.id(), "tensors+padding+behind", "", 1, bytes_of(plan.layout)}});
  tables[0].key = "sum_inputs";
  tables[0].title = "added up";
  tables[1].key = "sum";
  tables[1].title = "";
  return tables;
}

Report explain_arena(const PlannedConfig& planned, const PlannedRequest& plan) {
  const i64 bytes = bytes_of(plan.layout);
  Report report =
      new_report(planned, concat(plan.id(), " takes ", size_text(bytes)), contract_of(plan.layout));
  report.totals = {{"bytes", bytes}};
  const Symbols symbols = symbols_of(plan);
  std::vector<Explained> numbers;
  for (const TensorSpec& tensor : arena_of(plan.layout).tensors)
    numbers.push_back(tensor_number(symbols, tensor));
  if (!numbers.empty()) {
    report.tables = formula_tables(symbols, numbers);
    if (arena_of(plan.layout).tensors[0].offset != kOutsideArena)
      for (Table& table : sum_tables(plan)) report.tables.push_back(std::move(table));
  }
  if (plan.moe() && plan.moe()->implementation == Implementation::w4a16 &&
      !plan.moe()->contract->lean_executor)
    report.tables.push_back(blocks_table(plan));
  if (plan.moe() && plan.moe()->by_tokens.size() > 1) report.tables.push_back(counts_table(*plan.moe()));
  report.tables.push_back(neighbour_table(plan.id(), bytes, false, moved_plans(planned, plan, "")));
  add_sources(report, plan, nullptr);
  return report;
}

Report explain_tensor(const PlannedConfig& planned, const PlannedRequest& plan, const TensorSpec& tensor) {
  const std::string name = concat(plan.id(), "/", tensor.name);
  std::string verdict =
      concat(name, " takes ", size_text(tensor.bytes), " of ", grouped(bytes_of(plan.layout)), " B");
  if (tensor.bound != Bound::none) verdict += concat(" · ", bound_text(tensor.bound));
  Report report = new_report(planned, std::move(verdict), contract_of(plan.layout));
  report.totals = {{"bytes", tensor.bytes}};
  report.facts.push_back({"bound", std::string(name_of(tensor.bound))});
  const Symbols symbols = symbols_of(plan);
  report.tables = formula_tables(symbols, {tensor_number(symbols, tensor)});
  report.tables.push_back(neighbour_table(name, tensor.bytes, true, moved_plans(planned, plan, tensor.name)));
  add_sources(report, plan, &tensor);
  return report;
}

// Buffers of a part: all of them, or the one of that name.
Report explain_part(const PlannedConfig& planned, const RuntimePart& part, const Buffer* one) {
  const Deployment& deployment = planned.config->deployment;
  const i64 bytes = one ? one->bytes : part.bytes;
  const std::string name = one ? concat(part.name, "/", one->name) : part.name;
  Report report = new_report(planned, concat(name, " takes ", size_text(bytes)), deployment.contract->id);
  report.totals = {{"bytes", bytes}};
  const Symbols symbols = part_symbols(deployment, part);
  std::vector<Explained> numbers;
  for (const Buffer& buffer : part.buffers) {
    if (one && buffer.name != one->name) continue;
    const i64 elements = buffer.shape.elements();
    numbers.push_back({std::string(buffer.name),
                       std::string(element_formula(symbols, buffer.name, buffer.formula)), "elements",
                       elements > 0 ? buffer.bytes / elements : 1, buffer.bytes});
  }
  report.tables = formula_tables(symbols, numbers);
  const std::string_view section =
      part.kind == PartKind::parity_staging ? "docs/memory.md section 3" : "docs/memory.md section 4";
  report.facts.push_back({"source", std::string(section)});
  report.notes.push_back(concat("source: ", section, "; the buffers follow each other in no arena"));
  return report;
}

// The plan of that name, or the tensor of one.
std::optional<Report> explain_plan(const PlannedConfig& planned, const std::vector<PlannedRequest>& plans,
                                   const std::string& words) {
  for (const PlannedRequest& plan : plans) {
    if (words == words_of(plan.id())) return explain_arena(planned, plan);
    for (const TensorSpec& tensor : arena_of(plan.layout).tensors) {
      if (words == words_of(concat(plan.id(), "/", tensor.name)))
        return explain_tensor(planned, plan, tensor);
    }
  }
  return std::nullopt;
}

Error unknown_name(const PlannedConfig& planned, std::string_view name) {
  const std::vector<std::string> names = explained_names(planned);
  const std::vector<std::string_view> views(names.begin(), names.end());
  const auto near = did_you_mean(words_of(name), views);
  // Tensors would fill the screen: their arena's explanation lists them.
  std::vector<std::string> short_names{"indexer"};
  for (const std::string& known : names) {
    if (known.find('/') == std::string::npos) short_names.push_back(known);
  }
  const auto slash = name.find('/');
  const std::string arena = concat(words_of(name.substr(0, slash)), "/");
  std::vector<std::string> tensors;
  for (const std::string& known : names) {
    if (slash != std::string_view::npos && words_of(known).starts_with(arena))
      tensors.push_back(known.substr(arena.size()));
  }
  return {
      ErrorCode::unknown_value, "", concat("nothing of this config is called \"", name, "\""),
      concat(near ? concat("did you mean \"", *near, "\"? ") : std::string(),
             tensors.empty() ? concat("there are ", join(short_names, ", "), ", and TENSORS as ARENA/TENSOR")
                             : concat("its tensors are ", join(tensors, ", ")))};
}

}  // namespace

std::vector<std::string> explained_names(const PlannedConfig& planned) {
  std::vector<std::string> names{"kv", "total"};
  const auto add = [&](std::string_view arena, const auto& tensors) {
    names.emplace_back(arena);
    for (const auto& tensor : tensors) names.push_back(concat(arena, "/", tensor.name));
  };
  for (const PlannedRequest& plan : planned.plans) add(plan.id(), arena_of(plan.layout).tensors);
  for (const PlannedRequest& plan : tier_plans(planned)) add(plan.id(), arena_of(plan.layout).tensors);
  for (const RuntimePart& part : buffer_parts(planned)) add(part.name, part.buffers);
  return names;
}

Result<Report> explain_number(const PlannedConfig& planned, std::string_view name) {
  const std::string words = words_of(name);
  // Stated plans may be called anything: they come before the names that are ours.
  if (auto report = explain_plan(planned, planned.plans, words)) return std::move(*report);
  if (auto report = explain_plan(planned, tier_plans(planned), words)) return std::move(*report);
  for (const RuntimePart& part : buffer_parts(planned)) {
    if (words == words_of(part.name)) return explain_part(planned, part, nullptr);
    for (const Buffer& buffer : part.buffers) {
      if (words == words_of(concat(part.name, "/", buffer.name))) return explain_part(planned, part, &buffer);
    }
  }
  if (words == "kv") return explain_kv(planned);
  if (words == "total") return explain_total(planned);
  return unknown_name(planned, name);
}

}  // namespace moeplan
