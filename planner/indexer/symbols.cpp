#include "planner/indexer/symbols.hpp"

#include "planner/core/text.hpp"
#include "planner/indexer/contiguous.hpp"
#include "planner/indexer/device.hpp"
#include "planner/indexer/fold.hpp"
#include "planner/indexer/geometry.hpp"
#include "planner/indexer/paged.hpp"
#include "planner/indexer/plan_indexer.hpp"

namespace moeplan {
namespace {

// S of a context of w pages, cut into chunks of cp pages: whole chunks, then the rest.
void add_slices(Symbols& symbols, i64 pages, i64 page_size) {
  const bool wide = ceil_div(pages * page_size, kFoldSlices) > kFoldSliceTokens;
  define(symbols, "slice", wide ? "up(cd(w*page,32),page)" : "16384", "tokens of a fold slice");
  define(symbols, "whole", "(w-1)/cp", "chunks in front of the last");
  define(symbols, "S", "whole*max(1,cd(cp*page,slice))+max(1,cd((w-whole*cp)*page,slice))",
         "slices of all chunks");
}

void add_supertile(Symbols& symbols, const PagedCaps& caps, const IndexerEnvironment& env) {
  const auto variable = env.supertile_k();
  if (caps.supertile > 0)
    add_input(symbols, "raw", caps.supertile, "supertile as requested");
  else if (variable && *variable)
    add_input(symbols, "raw", max_of(**variable, 0),
              concat("supertile of ", env.name(IndexerVariable::supertile_k)));
  else
    add_input(symbols, "raw", kDefaultSupertile, "supertile when none is asked for");
  const bool is_default = caps.supertile == 0 && variable && !*variable;
  // Only the default shrinks to a short context.
  define(symbols, "st", is_default ? "min(up(max(raw,512),512), max(512,up(T,512)))" : "up(max(raw,512),512)",
         "supertile, tokens");
}

void add_paged(Symbols& symbols, const IndexerRequest& request, const PagedCaps& caps,
               const IndexerLayout& layout) {
  const IndexerEnvironment env(request.contract->environment_prefix, request.env);
  add_input(symbols, "R", caps.max_q_rows, "query rows");
  add_input(symbols, "K", caps.top_k, "top-k");
  add_input(symbols, "W", caps.max_page_table_width, "pages of a row's table");
  add_input(symbols, "page", caps.page_size, "tokens of a page");
  define(symbols, "T", "W*page", "tokens of a row");
  add_supertile(symbols, caps, env);
  if (layout.route == IndexerRoute::paged_fused)
    add_input(symbols, "sms", *indexer_multiprocessors(request.device), "multiprocessors");
  if (caps.score_mode == ScoreMode::msa) add_input(symbols, "H", caps.num_idx_heads, "score heads");
  if (!caps.reserve_fold || layout.route == IndexerRoute::paged_fused) return;
  const FoldPeak peak = worst_fold_slab(
      fold_capacity(caps, std::get<PagedMeta>(layout.meta).supertile_tokens), *fold_settings(env));
  if (peak.bytes == 0) return;
  add_input(symbols, "q", peak.rows, "rows of the call with the largest slab");
  add_input(symbols, "w", peak.pages, "pages of the call with the largest slab");
  define(symbols, "cp", "st/page", "pages of a supertile");
  add_slices(symbols, peak.pages, caps.page_size);
  define(symbols, "fold_slab", "q*(S*K*8+4)", "");
}

void add_contiguous(Symbols& symbols, const ContiguousCaps& caps) {
  add_input(symbols, "R", max_of(caps.max_q_rows, 1), "query rows");
  add_input(symbols, "K", max_of(caps.top_k, 1), "top-k");
  add_input(symbols, "keys", max_of(caps.max_k_rows, 1), "keys");
  add_input(symbols, "raw", max_of(caps.supertile_k, kContiguousTileKeys), "supertile as requested");
  define(symbols, "T", "up(keys,64)", "keys, in steps of 64");
  define(symbols, "tiles", "min(up(raw,256)/256, cd(T,256))", "tiles of 256 keys in a chunk");
  add_input(symbols, "H", max_of(caps.num_idx_heads, 1), "score heads");
}

// The widths at which a stand-alone fused selector can need most.
void add_fused_selector(Symbols& symbols, const IndexerRequest& request) {
  add_input(symbols, "rows", max_of(*request.caps.max_rows, 1), "query rows");
  add_input(symbols, "K", *request.caps.top_k, "top-k");
  if (!is_cuda(request.device)) {
    define(symbols, "fused_indexer.state", "rows*(16+8*K)", "");
    return;
  }
  const i64 width = max_of(*request.caps.max_width, 1);
  add_input(symbols, "sms", *stated_multiprocessors(request.device), "multiprocessors");
  add_input(symbols, "width", width, "keys of a row");
  constexpr std::string_view kWidths[] = {"1", "width", "20481"};
  std::vector<std::string> needs;
  for (std::size_t i = 0; i < (width > 20480 ? 3u : 2u); ++i) {
    const std::string blocks = concat("b", i + 1), groups = concat("g", i + 1);
    define(symbols, blocks, concat("max(1,cd(", kWidths[i], ",8192))"),
           concat("blocks of 8,192 keys at width ", kWidths[i]));
    define(symbols, groups, concat("min(rows, max(1,sms/", blocks, "))"), "groups of blocks then");
    needs.push_back(concat(groups, "*16+", groups, "*", blocks, "*K*8"));
  }
  define(symbols, "fused_indexer.state", concat("max(", join(needs, ", "), ")"), "");
}

void add_persistent_selector(Symbols& symbols, const IndexerRequest& request) {
  add_input(symbols, "rows", max_of(*request.caps.max_rows, 1), "query rows");
  const bool on_cuda = is_cuda(request.device);
  if (on_cuda) add_input(symbols, "sms", *stated_multiprocessors(request.device), "multiprocessors");
  define(symbols, "persistent_topk2048.state", on_cuda ? "min(rows,sms)*772*4" : "rows*772*4", "");
}

void add_fold_call(Symbols& symbols, const IndexerArgs& args) {
  const i64 page_size = args.page_size.value_or(kKernelPageSize);
  add_input(symbols, "q", *args.q_rows, "rows of the call");
  add_input(symbols, "K", *args.top_k, "top-k");
  add_input(symbols, "w", *args.page_table_width, "pages of the call");
  add_input(symbols, "page", page_size, "tokens of a page");
  add_input(symbols, "cp", *args.supertile_pages, "pages of a supertile");
  add_slices(symbols, *args.page_table_width, page_size);
}

}  // namespace

Symbols indexer_symbols(const PlanRequest& request, const IndexerLayout& layout) {
  const IndexerRequest& indexer = request.indexer;
  Symbols symbols;
  switch (request.kind) {
    case RequestKind::indexer_paged:
      add_paged(symbols, indexer, *paged_caps(indexer.caps), layout);
      break;
    case RequestKind::indexer:
      if (*indexer.caps.source_layout == SourceLayout::paged)
        add_paged(symbols, indexer, *front_door_paged_caps(indexer.caps), layout);
      else
        add_contiguous(symbols, front_door_contiguous_caps(indexer.caps));
      break;
    case RequestKind::indexer_contiguous:
      add_contiguous(symbols, contiguous_caps(indexer.caps));
      break;
    case RequestKind::indexer_fused:
      add_fused_selector(symbols, indexer);
      break;
    case RequestKind::indexer_persistent_topk:
      add_persistent_selector(symbols, indexer);
      break;
    case RequestKind::indexer_fold:
      if (layout.route == IndexerRoute::two_level) add_fold_call(symbols, indexer.args);
      break;
    case RequestKind::indexer_fused_policy:
    case RequestKind::indexer_step:
    case RequestKind::moe_tp:
    case RequestKind::moe_ep:
      break;  // no tensors of an arena
  }
  return symbols;
}

}  // namespace moeplan
