#include "planner/deployment/memory_budget.hpp"

#include "planner/core/text.hpp"
#include "planner/deployment/engine_figures.hpp"
#include "planner/deployment/plan_requests.hpp"
#include "planner/deployment/weights.hpp"

namespace moeplan {
namespace {

const Measured& measured_of(const Deployment& d) {
  static const Measured kNothing;
  return d.measured ? *d.measured : kNothing;
}

const Budget& budget_of(const Deployment& d) {
  static const Budget kNothing;
  return d.budget ? *d.budget : kNothing;
}

BudgetRow measured_row(const Deployment& d, std::string name, ByteRange bytes, std::string_view field) {
  const auto& source = measured_of(d).source;
  return {std::move(name), bytes, SourceKind::measured,
          concat("measured.", field, source ? concat(", ", *source) : std::string())};
}

BudgetRow declared_row(std::string name, i64 bytes, std::string_view field) {
  return {std::move(name), exactly(bytes), SourceKind::declared, concat("budget.", field)};
}

// At least nothing: what an unstated term takes cannot be negative.
BudgetRow open_row(std::string name, std::string remedy) {
  return {std::move(name), ByteBounds(0, std::nullopt), SourceKind::not_stated, std::move(remedy)};
}

std::optional<ByteRange> total_memory(const Deployment& d) {
  if (measured_of(d).total_memory) return measured_of(d).total_memory;
  return d.device->total_memory;
}

BudgetRow requested_row(const Deployment& d) {
  const std::string name = "requested by the engine";
  if (measured_of(d).requested) return measured_row(d, name, *measured_of(d).requested, "requested");
  const auto total = total_memory(d);
  const auto utilization = d.engine->gpu_memory_utilization;
  if (!total || !utilization)
    return {name,
            {},
            SourceKind::not_stated,
            total ? "add deployment.gpu_memory_utilization" : "add device.total_memory"};
  return {name, requested_memory(*total, *utilization),
          measured_of(d).total_memory ? SourceKind::derived : SourceKind::imported,
          "total memory x gpu_memory_utilization"};
}

Result<BudgetRow> weights_row(const Deployment& d) {
  const std::string name = "weights";
  if (measured_of(d).model_loading)
    return measured_row(d, name, *measured_of(d).model_loading, "model_loading");
  if (budget_of(d).weights) return declared_row(name, *budget_of(d).weights, "weights");
  const auto weights = weights_of(d);
  if (weights)
    return BudgetRow{name, weights->bytes(), SourceKind::derived, "formula within 2.5 %, docs/memory.md"};
  // Weights of a shape that is stated in part are open; a shape that cannot be is an error.
  if (weights.error().code != ErrorCode::missing_field) return weights.error();
  return open_row(name, concat("add ", weights.error().pointer.substr(1),
                               ", measured.model_loading or "
                               "budget.weights"));
}

std::string part_source(const RuntimePart& part) {
  if (part.kind == PartKind::parity_staging || part.kind == PartKind::mixed_accumulator)
    return concat(part.tokens, " rows");
  return concat(part.tokens, " tokens", part.block > 0 ? concat(", block ", part.block) : std::string());
}

// What the profile's peak holds beyond the scratch that is listed by itself.
BudgetRow activation_row(const Deployment& d, const MemoryBudget& budget, i64 listed_bytes) {
  const std::string name =
      budget.moe_modelled ? "peak activation besides" : "peak activation, MoE workspace in it";
  if (budget_of(d).base_activation)
    return declared_row(name, *budget_of(d).base_activation, "base_activation");
  if (!measured_of(d).peak_activation)
    return open_row(name, "add measured.peak_activation or budget.base_activation");
  const ByteRange peak = *measured_of(d).peak_activation;
  BudgetRow row = measured_row(d, name, peak - exactly(listed_bytes), "peak_activation");
  if (listed_bytes > 0) row.source += ", less the rows above";
  return row;
}

BudgetRow non_torch_row(const Deployment& d) {
  const std::string name = "outside the framework's allocator";
  if (measured_of(d).non_torch) return measured_row(d, name, *measured_of(d).non_torch, "non_torch");
  if (budget_of(d).non_torch) return declared_row(name, *budget_of(d).non_torch, "non_torch");
  return open_row(name, "add measured.non_torch or budget.non_torch");
}

BudgetRow graph_row(const Deployment& d) {
  const std::string name = "graphs, as the engine estimates";
  const Measured& m = measured_of(d);
  if (m.graph_profiling_disabled.value_or(false))
    return {name, exactly(0), SourceKind::measured,
            "measured.graph_profiling_disabled: nothing is set aside"};
  if (m.graph_estimate) return measured_row(d, name, *m.graph_estimate, "graph_estimate");
  if (budget_of(d).graph_pool) return declared_row(name, *budget_of(d).graph_pool, "graph_pool");
  return open_row(name, "add measured.graph_estimate or budget.graph_pool");
}

// What the printed number of tokens says of the memory, the printed memory aside.
std::optional<ByteRange> counted_memory(const Deployment& d, const MemoryBudget& budget) {
  const auto tokens = measured_of(d).kv_tokens;
  if (!tokens) return std::nullopt;
  return memory_of_tokens(budget.kv, *tokens,
                          d.engine->max_model_len.value_or(budget.kv.request_tokens_per_block()));
}

BudgetRow available_row(const Deployment& d, const MemoryBudget& budget) {
  const std::string name = "KV cache";
  const auto& printed = measured_of(d).available_kv;
  const auto counted = counted_memory(d, budget);
  if (printed && counted && counted->lo <= printed->hi && printed->lo <= counted->hi)
    return measured_row(d, name, {max_of(printed->lo, counted->lo), min_of(printed->hi, counted->hi)},
                        "available_kv and kv_tokens");
  if (printed) return measured_row(d, name, *printed, "available_kv");
  if (counted) return measured_row(d, name, *counted, "kv_tokens");
  ByteBounds left = budget.requested.bytes;
  bool is_complete = budget.requested.kind != SourceKind::not_stated;
  for (const BudgetRow& row : budget.inside) {
    left = left - row.bytes;
    is_complete = is_complete && row.kind != SourceKind::not_stated;
  }
  return {name, left, is_complete ? SourceKind::derived : SourceKind::not_stated,
          is_complete ? "what the rows above leave" : "at most what the stated rows leave"};
}

// Free memory the engine did not ask for, and what its graphs did not need of their estimate.
BudgetRow margin_row(const Deployment& d, MemoryBudget& budget) {
  const std::string name = "margin";
  const Measured& m = measured_of(d);
  if (m.free_memory) budget.free_over_requested = ByteBounds(*m.free_memory) - budget.requested.bytes;
  if (budget_of(d).margin) return declared_row(name, *budget_of(d).margin, "margin");
  if (!budget.free_over_requested)
    return {name, {}, SourceKind::not_stated, "add measured.free_memory or budget.margin"};
  BudgetRow row{name, *budget.free_over_requested, SourceKind::derived, "free memory at start - requested"};
  const bool nothing_set_aside = m.graph_profiling_disabled.value_or(false);
  if (m.graph_actual && (m.graph_estimate || nothing_set_aside)) {
    const ByteRange estimate = nothing_set_aside ? exactly(0) : *m.graph_estimate;
    row.bytes = row.bytes + ByteBounds(estimate - *m.graph_actual);
    row.source += " + graphs estimated - actual";
  }
  return row;
}

Result<MemoryBudget> build(const Deployment& d, std::optional<i64> stage_layers, const BudgetExtras& extras) {
  if (auto s = check_described(d); !s) return s.error();
  MemoryBudget budget;
  budget.measured = measured_of(d);
  budget.requested = requested_row(d);
  if (stage_layers && !measured_of(d).model_loading && !budget_of(d).weights) {
    budget.inside.push_back(open_row("weights",
                                     "add measured.model_loading: which layers a stage holds is "
                                     "not modelled"));
  } else {
    auto weights = weights_row(d);
    if (!weights) return weights.error();
    budget.inside.push_back(std::move(*weights));
  }
  i64 listed = 0;
  budget.moe_modelled = is_exl3(d);
  if (budget.moe_modelled) {
    auto runtimes = exl3_runtimes(d);
    if (!runtimes) return runtimes.error();
    for (const Exl3Runtime& runtime : *runtimes) {
      for (const RuntimePart& part : runtime.parts)
        budget.inside.push_back({part.name, exactly(part.bytes), SourceKind::derived, part_source(part)});
      listed += runtime.bytes();
    }
    budget.runtimes = std::move(*runtimes);
  }
  for (const BudgetRow& row : extras.inside_profile) {
    budget.inside.push_back(row);
    listed += row.bytes.hi.value_or(0);
  }
  budget.inside.push_back(activation_row(d, budget, listed));
  budget.inside.push_back(non_torch_row(d));
  budget.inside.push_back(graph_row(d));
  auto kv = kv_cache_of(d, stage_layers);
  if (!kv) return kv.error();
  budget.kv = std::move(*kv);
  budget.available_kv = available_row(d, budget);
  budget.margin = margin_row(d, budget);
  budget.after = extras.after_profile;
  budget.margin_left = budget.margin.bytes;
  for (const BudgetRow& row : budget.after) budget.margin_left = budget.margin_left - row.bytes;
  return budget;
}

}  // namespace

i64 MemoryBudget::scratch_bytes() const {
  i64 bytes = 0;
  for (const Exl3Runtime& runtime : runtimes) bytes += runtime.bytes();
  return bytes;
}

std::vector<Finding> budget_findings(const MemoryBudget& budget) {
  std::vector<Finding> findings;
  ByteBounds left = budget.requested.bytes;
  for (const BudgetRow& row : budget.inside) {
    left = left - row.bytes;
    if (row.kind == SourceKind::measured && row.bytes.hi && *row.bytes.hi < 0)
      findings.push_back({"measured-activation", "warning", "/measured/peak_activation",
                          concat("the measured peak is ", -*row.bytes.hi,
                                 " B below the scratch that is planned for these settings"),
                          "state figures that were printed under the settings beside them"});
  }
  const auto& printed = budget.measured.available_kv;
  if (printed && ((left.lo && *left.lo > printed->hi) || (left.hi && *left.hi < printed->lo)))
    findings.push_back(
        {"measured-waterfall", "warning", "/measured/available_kv",
         left.lo ? concat("the stated terms leave ", *left.lo, "..", left.hi.value_or(0),
                          " B for the KV cache, available_kv says ", printed->lo, "..", printed->hi)
                 : concat("the stated terms leave at most ", left.hi.value_or(0),
                          " B for the KV cache, available_kv says ", printed->lo, "..", printed->hi),
         "take all figures from one start of the engine; available_kv is used"});
  if (printed && budget.measured.kv_tokens &&
      !budget.available_kv.source.starts_with("measured.available_kv and"))
    findings.push_back({"measured-tokens", "warning", "/measured/kv_tokens",
                        concat(*budget.measured.kv_tokens, " tokens are not what available_kv holds at ",
                               budget.kv.bytes_per_token(), " B a token and rank"),
                        budget.kv.other_record
                            ? concat("the other nvfp4_ds_mla record takes ", *budget.kv.other_record,
                                     " B: state kv_record_bytes where it runs; check indexer_cache and dcp")
                            : "check kv_cache_dtype, indexer_cache, speculation and dcp"});
  return findings;
}

Result<MemoryBudget> memory_budget(const Deployment& deployment, const BudgetExtras& extras) {
  return build(deployment, std::nullopt, extras);
}

Result<MemoryBudget> memory_budget_of_rank(const Deployment& deployment, std::size_t rank,
                                           const BudgetExtras& extras) {
  const RankSettings& own = deployment.ranks.at(rank);
  Deployment d = deployment;
  d.ranks.clear();
  if (d.device && own.sm_count) d.device->sm_count = *own.sm_count;
  if (d.device && own.total_memory) d.device->total_memory = own.total_memory;
  if (own.measured) d.measured = own.measured;
  auto budget = build(d, own.layers, extras);
  if (budget) budget->rank = own.name.value_or(concat("rank ", rank));
  return budget;
}

Result<std::vector<MemoryBudget>> memory_budgets(const Deployment& deployment, const BudgetExtras& extras) {
  std::vector<MemoryBudget> budgets;
  if (deployment.ranks.empty()) {
    auto budget = memory_budget(deployment, extras);
    if (!budget) return budget.error();
    budgets.push_back(std::move(*budget));
  }
  for (std::size_t rank = 0; rank < deployment.ranks.size(); ++rank) {
    auto budget = memory_budget_of_rank(deployment, rank, extras);
    if (!budget) return budget.error();
    budgets.push_back(std::move(*budget));
  }
  return budgets;
}

BlockBounds kv_blocks(const MemoryBudget& budget) {
  const ByteBounds& available = budget.available_kv.bytes;
  BlockBounds blocks;
  if (available.lo) blocks.lo = kv_blocks(budget.kv, *available.lo);
  if (available.hi) blocks.hi = kv_blocks(budget.kv, *available.hi);
  return blocks;
}

std::size_t bottleneck_rank(const std::vector<MemoryBudget>& budgets) {
  std::size_t worst = 0;
  const auto blocks_of = [&](std::size_t i) {
    const BlockBounds blocks = kv_blocks(budgets[i]);
    return blocks.lo ? *blocks.lo : blocks.hi.value_or(INT64_MAX);
  };
  for (std::size_t i = 1; i < budgets.size(); ++i) {
    if (blocks_of(i) < blocks_of(worst)) worst = i;
  }
  return worst;
}

}  // namespace moeplan
