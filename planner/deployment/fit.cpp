#include "planner/deployment/fit.hpp"

#include <algorithm>

#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"
#include "planner/core/wide.hpp"
#include "planner/deployment/exl3.hpp"
#include "planner/deployment/indexer_budget.hpp"

namespace moeplan {
namespace {

constexpr i64 kMillion = 1'000'000;

FitCheck check(std::string question, const ByteBounds& spare) {
  return {std::move(question), fit_of(spare), spare};
}

// The memory of the KV cache when the scratch grows by `more` bytes.
ByteBounds available_with(const MemoryBudget& budget, i64 more) {
  return budget.available_kv.bytes - ByteBounds(exactly(more));
}

i64 needed(const Deployment& d, const MemoryBudget& budget) {
  return d.engine->max_model_len ? needed_for_one_request(budget.kv, *d.engine->max_model_len)
                                 : budget.kv.page_bytes();
}

LargestSetting largest_batched_tokens(const Deployment& d, const MemoryBudget& budget) {
  LargestSetting row{
      "deployment.max_num_batched_tokens", d.engine->max_num_batched_tokens, {}, {}, false, ""};
  if (!budget.moe_modelled) {
    row.limit = "MoE workspace not modelled";
    return row;
  }
  const auto settings = read_exl3_settings(*d.engine);
  const auto now = growing_bytes_of(d);
  if (!settings || !now) return row;
  if (settings->capacity_set && indexer_arena_bytes_of(d) == 0) {
    row.limit = "the prefill capacity is set, so scratch does not grow with it";
    return row;
  }
  row.limit = "one request has to fit; activation kept as stated";
  const i64 need = needed(d, budget);
  const auto largest = [&](std::optional<i64> ByteBounds::*end) -> std::optional<i64> {
    const auto holds = [&](i64 tokens) {
      Deployment other = d;
      other.engine->max_num_batched_tokens = tokens;
      const auto growing = growing_bytes_of(other);
      if (!growing) return false;
      const auto left = available_with(budget, *growing - *now).*end;
      return left && *left >= need;
    };
    // Scratch grows with the tokens on either side of the point where the prefill plan appears.
    const auto beyond = largest_that_holds(settings->decode_tokens + 1, kMaxTokens, holds);
    return beyond ? beyond : largest_that_holds(1, settings->decode_tokens, holds);
  };
  row.certain = largest(&ByteBounds::lo);
  row.possible = largest(&ByteBounds::hi);
  return row;
}

LargestSetting largest_model_len(const Deployment& d, const MemoryBudget& budget) {
  LargestSetting row{"deployment.max_model_len", d.engine->max_model_len, {}, {}, false, "KV cache"};
  const BlockBounds blocks = kv_blocks(budget);
  const i64 longest = d.model->max_position_embeddings.value_or(INT64_MAX);
  const auto tokens = [&](std::optional<i64> count) -> std::optional<i64> {
    if (!count) return std::nullopt;
    return min_of(*count * budget.kv.request_tokens_per_block(), longest);
  };
  row.certain = tokens(blocks.lo);
  row.possible = tokens(blocks.hi);
  if (row.certain == longest) row.limit = "the model's own context";
  return row;
}

std::vector<LargestSetting> largest_sequences(const Deployment& d, const MemoryBudget& budget) {
  std::vector<LargestSetting> rows;
  if (d.engine->max_model_len) {
    LargestSetting row{"deployment.max_num_seqs",        d.engine->max_num_seqs, {}, {}, false,
                       "KV cache, each at max_model_len"};
    const i64 per = blocks_per_request(budget.kv, *d.engine->max_model_len);
    const BlockBounds blocks = kv_blocks(budget);
    if (blocks.lo) row.certain = *blocks.lo / per;
    if (blocks.hi) row.possible = *blocks.hi / per;
    rows.push_back(std::move(row));
  }
  if (budget.moe_modelled) {
    if (const auto settings = parse_exl3_settings(*d.engine)) {
      i64 window = settings->decode_tokens;
      std::string limit = "a decode step of (1 + speculative) rows each stays in the decode plan";
      const auto& sizes = d.engine->cudagraph_capture_sizes;
      if (sizes && !sizes->empty() && *std::ranges::max_element(*sizes) < window) {
        window = *std::ranges::max_element(*sizes);
        limit = "a decode step of (1 + speculative) rows each stays in a captured graph";
      }
      const i64 most = window / (1 + d.engine->num_speculative_tokens.value_or(0));
      rows.push_back(
          {"deployment.max_num_seqs", d.engine->max_num_seqs, most, most, false, std::move(limit)});
    }
  }
  return rows;
}

// Bytes over total, in parts per million.
i64 ppm_of(i64 bytes, i64 total, bool up) {
  const Wide scaled = Wide{bytes} * kMillion;
  return static_cast<i64>((scaled + (up ? total - 1 : 0)) / total);
}

std::vector<LargestSetting> utilizations(const Deployment& d, const MemoryBudget& budget) {
  const auto total =
      d.measured && d.measured->total_memory ? d.measured->total_memory : d.device->total_memory;
  if (!total || total->lo <= 0) return {};
  const auto now = d.engine->gpu_memory_utilization;
  std::vector<LargestSetting> rows;
  // What may be requested is what is requested and what stays unused.
  if (budget.free_over_requested) {
    LargestSetting row{"deployment.gpu_memory_utilization", now, {}, {}, true,
                       "free memory at start and margin"};
    const ByteBounds most =
        budget.requested.bytes +
        (budget.margin_left.lo || budget.margin_left.hi ? budget.margin_left : *budget.free_over_requested);
    if (most.lo) row.certain = std::clamp(ppm_of(max_of(*most.lo, 0), total->hi, false), i64{0}, kMillion);
    if (most.hi) row.possible = std::clamp(ppm_of(max_of(*most.hi, 0), total->lo, false), i64{0}, kMillion);
    rows.push_back(std::move(row));
  }
  LargestSetting least{"deployment.gpu_memory_utilization at least",
                       now,
                       {},
                       {},
                       true,
                       "one request has to fit; below the last figure it never does"};
  ByteBounds used = ByteBounds(exactly(needed(d, budget)));
  for (const BudgetRow& row : budget.inside) used = used + row.bytes;
  if (!used.hi)
    used = ByteBounds(exactly(needed(d, budget))) + (budget.requested.bytes - budget.available_kv.bytes);
  if (used.hi) least.certain = ppm_of(*used.hi, total->lo, true);
  if (used.lo) least.possible = ppm_of(max_of(*used.lo, 0), total->hi, true);
  rows.push_back(std::move(least));
  return rows;
}

}  // namespace

Fit fit_of(const ByteBounds& spare) {
  if (spare.lo && *spare.lo >= 0) return Fit::fits;
  if (spare.hi && *spare.hi < 0) return Fit::does_not_fit;
  return Fit::undecided;
}

Result<i64> growing_bytes_of(const Deployment& d) {
  auto bytes = scratch_bytes_of(d);
  if (!bytes) return bytes;
  *bytes += indexer_arena_bytes_of(d);
  return bytes;
}

std::vector<FitCheck> fit_checks(const Deployment& d, const MemoryBudget& budget) {
  std::vector<FitCheck> checks;
  if (budget.free_over_requested)
    checks.push_back(
        check("free memory at start covers what the engine requests", *budget.free_over_requested));
  const std::string request = d.engine->max_model_len
                                  ? concat("one request of ", *d.engine->max_model_len, " tokens")
                                  : std::string("one KV block");
  checks.push_back(check(concat("the KV cache holds ", request), available_with(budget, needed(d, budget))));
  const bool margin_is_known = budget.margin.kind != SourceKind::not_stated;
  if (margin_is_known || !budget.after.empty())
    checks.push_back(check("the margin covers what is allocated late", budget.margin_left));
  return checks;
}

Fit overall(const std::vector<FitCheck>& checks) {
  Fit worst = Fit::fits;
  for (const FitCheck& c : checks) {
    if (c.answer == Fit::does_not_fit) return c.answer;
    if (c.answer == Fit::undecided) worst = c.answer;
  }
  return worst;
}

std::vector<i64> usual_capacities(i64 configured, i64 scheduled) {
  std::vector<i64> capacities{configured};
  for (i64 capacity : {512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384}) {
    if (capacity <= scheduled && capacity != configured) capacities.push_back(capacity);
  }
  std::ranges::sort(capacities);
  return capacities;
}

Deployment with_prefill_capacity(const Deployment& deployment, i64 capacity) {
  constexpr std::string_view kName = "VLLM_EXL3_PREFILL_CAPACITY";
  Deployment other = deployment;
  Environment& env = other.engine->env;
  std::erase_if(env, [&](const auto& entry) { return entry.first == kName; });
  env.emplace_back(kName, std::to_string(capacity));
  return other;
}

Result<i64> scratch_bytes_of(const Deployment& deployment) {
  const auto runtimes = exl3_runtimes(deployment);
  if (!runtimes) return runtimes.error();
  i64 bytes = 0;
  for (const Exl3Runtime& runtime : *runtimes) bytes += runtime.bytes();
  return bytes;
}

Result<std::vector<CapacityChoice>> prefill_capacity_choices(const Deployment& d,
                                                             const MemoryBudget& budget) {
  std::vector<CapacityChoice> choices;
  if (!budget.moe_modelled) return choices;
  const auto settings = check_exl3_deployment(d);
  if (!settings) return settings.error();
  const i64 scheduled = d.engine->max_num_batched_tokens;
  const bool has_prefill = std::ranges::any_of(
      budget.runtimes, [](const Exl3Runtime& runtime) { return runtime.prefill_tokens > 0; });
  if (!has_prefill) return choices;
  for (i64 capacity : usual_capacities(settings->prefill_tokens, scheduled)) {
    const auto scratch = scratch_bytes_of(with_prefill_capacity(d, capacity));
    if (!scratch) return scratch.error();
    const i64 gained = budget.scratch_bytes() - *scratch;
    choices.push_back({capacity, prefill_slices(scheduled, capacity), *scratch, gained,
                       tokens_of_bytes(budget.kv, gained)});
  }
  return choices;
}

std::vector<LargestSetting> largest_settings(const Deployment& d, const MemoryBudget& budget) {
  std::vector<LargestSetting> rows{largest_batched_tokens(d, budget), largest_model_len(d, budget)};
  for (auto* more : {&largest_sequences, &utilizations}) {
    for (LargestSetting& row : (*more)(d, budget)) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace moeplan
