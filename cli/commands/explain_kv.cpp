#include "cli/commands/explain_kv.hpp"

#include "cli/commands/explain_tables.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/indexer_budget.hpp"
#include "planner/deployment/kv_symbols.hpp"

namespace moeplan {
namespace {

// The same cache after one change of the deployment.
Moved moved_cache(const Deployment& deployment, std::string change, std::string knob,
                  void (*set)(Deployment&, i64), i64 value) {
  Moved moved{std::move(change), std::move(knob), {}, {}, ""};
  Deployment other = deployment;
  set(other, value);
  const auto cache = kv_cache_of(other);
  if (cache)
    moved.bytes = cache->bytes_per_token();
  else
    moved.reason = cache.error().message;
  return moved;
}

std::vector<Moved> moved_caches(const Deployment& d) {
  std::vector<Moved> moved;
  for (std::size_t i = 0; i < std::size(kKvCacheDtypeNames); ++i)
    moved.push_back(moved_cache(
        d, concat("kv_cache_dtype ", kKvCacheDtypeNames[i]), "/deployment/kv_cache_dtype",
        [](Deployment& other, i64 dtype) {
          other.engine->kv_cache_dtype = static_cast<KvCacheDtype>(dtype);
          // A stated record and rate belong to the type they were stated for.
          other.engine->kv_record_bytes.reset();
          if (other.budget) other.budget->kv_bytes_per_token_per_rank.reset();
        },
        static_cast<i64>(i)));
  for (i64 tp : {d.parallel->tp / 2, d.parallel->tp * 2}) {
    const std::string change = concat("tp ", tp);
    if (tp < 1) {
      moved.push_back({change, "/parallel/tp", {}, {}, "there is no half of 1"});
      continue;
    }
    moved.push_back(moved_cache(
        d, change, "/parallel/tp", [](Deployment& other, i64 ranks) { other.parallel->tp = ranks; }, tp));
  }
  const bool has_draft = d.engine->num_speculative_tokens.value_or(0) > 0;
  moved.push_back(moved_cache(
      d, has_draft ? "no speculation" : "speculation", "/deployment/num_speculative_tokens",
      [](Deployment& other, i64 tokens) { other.engine->num_speculative_tokens = tokens; },
      has_draft ? 0 : 1));
  for (std::size_t i = 0; d.model->index_topk && i < std::size(kIndexerCacheNames); ++i)
    moved.push_back(moved_cache(
        d, concat("indexer_cache ", kIndexerCacheNames[i]), "/deployment/indexer_cache",
        [](Deployment& other, i64 kind) { other.engine->indexer_cache = static_cast<IndexerCache>(kind); },
        static_cast<i64>(i)));
  return moved;
}

// Blocks of what memory there is, and tokens as the engine counts them.
void add_tokens(Report& report, const Deployment& d, const KvCache& cache) {
  const auto budgets = memory_budgets(d, indexer_budget_extras(d));
  if (!budgets) {
    report.notes.push_back(concat("tokens are not derived: ", budgets.error().message));
    return;
  }
  const MemoryBudget& worst = (*budgets)[bottleneck_rank(*budgets)];
  const ByteBounds& available = worst.available_kv.bytes;
  const i64 longest = d.engine->max_model_len.value_or(cache.request_tokens_per_block());
  Symbols symbols;
  std::vector<Explained> blocks;
  add_input(symbols, "page", worst.kv.page_bytes(), "bytes of a KV block");
  const auto add = [&](std::string_view end, std::optional<i64> bytes) {
    if (!bytes) return;
    add_input(symbols, concat("available_", end), max_of(*bytes, 0),
              concat("memory for the cache: ", worst.available_kv.source));
    blocks.push_back({concat("blocks_", end), concat("available_", end, "/page"), "blocks",
                      worst.kv.page_bytes(), kv_blocks(worst.kv, *bytes) * worst.kv.page_bytes()});
    report.totals.push_back(
        {concat("kv_tokens_", end), kv_tokens(worst.kv, kv_blocks(worst.kv, *bytes), longest)});
    report.notes.push_back(concat(end == "lo" ? "at least " : "at most ",
                                  grouped(kv_tokens(worst.kv, kv_blocks(worst.kv, *bytes), longest)),
                                  " tokens: int(blocks / ", grouped(blocks_per_request(worst.kv, longest)),
                                  " x ", grouped(longest),
                                  ") in the engine's floating point, a request taking ",
                                  grouped(blocks_per_request(worst.kv, longest)), " blocks"));
  };
  add("lo", available.lo && *available.lo > 0 ? available.lo : std::nullopt);
  add("hi", available.hi);
  if (blocks.empty()) {
    report.notes.push_back("tokens follow from memory that is not stated: see moeplan capacity");
    return;
  }
  for (Table& table : formula_tables(symbols, blocks)) {
    table.key = concat("block_", table.key);
    if (table.key == "block_formulas") table.title = "";
    report.tables.push_back(std::move(table));
  }
}

}  // namespace

Result<Report> explain_kv(const PlannedConfig& planned) {
  const Deployment& d = planned.config->deployment;
  if (auto s = check_described(d); !s) return s.error();
  const auto cache = kv_cache_of(d);
  if (!cache) return cache.error();
  Report report;
  report.schema = "moeplan.explain/1";
  report.verdict = concat(d.name ? concat(*d.name, ": ") : std::string(), "a token takes ",
                          grouped(cache->bytes_per_token()), " B of KV cache on each rank, a block of ",
                          cache->block_tokens, " tokens ", grouped(cache->page_bytes()), " B");
  if (cache->dcp > 1)
    report.verdict += concat(" · the tokens of a request are spread over ", cache->dcp, " ranks");
  report.subject = subject_of(d);
  report.facts = {{"name", d.name ? Cell(*d.name) : Cell()}};
  report.totals = {{"kv_bytes_per_token", cache->bytes_per_token()}, {"kv_page_bytes", cache->page_bytes()}};
  const Symbols symbols = kv_symbols(d, *cache);
  report.tables = formula_tables(symbols, {{"kv block", "page", "", 1, cache->page_bytes()}});
  add_tokens(report, d, *cache);
  report.tables.push_back(
      neighbour_table("the bytes of a token", cache->bytes_per_token(), false, moved_caches(d)));
  report.notes.push_back(concat("record: ", cache->description));
  report.notes.push_back("source: docs/memory.md section 6");
  return report;
}

}  // namespace moeplan
