// The fold decision of one call, and the slab it allocates, as a plan of its own.
#include <vector>

#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"
#include "planner/indexer/fold.hpp"
#include "planner/indexer/geometry.hpp"
#include "planner/indexer/plan_indexer.hpp"

namespace moeplan {
namespace {

// All non-positive dimensions at once, like the engine's own complaint; the pointer names the first.
Status check_dimensions(const IndexerArgs& args, i64 page_size) {
  const std::pair<std::string_view, i64> dimensions[] = {{"q_rows", *args.q_rows},
                                                         {"top_k", *args.top_k},
                                                         {"page_size", page_size},
                                                         {"page_table_width", *args.page_table_width},
                                                         {"supertile_pages", *args.supertile_pages}};
  std::vector<std::string> bad;
  std::string_view first;
  for (const auto& [name, value] : dimensions) {
    if (value >= 1) continue;
    if (bad.empty()) first = name;
    bad.push_back(concat(name, " ", value));
  }
  if (bad.empty()) return Ok{};
  return Error{ErrorCode::not_positive, concat("/args/", first),
               concat("two-level fold dimensions must be positive, got ", join(bad, ", ")), ""};
}

std::vector<FoldChunk> list_chunks(const FoldCall& call) {
  const i64 slice = fold_slice_tokens(call.pages * call.page_size, call.page_size);
  std::vector<FoldChunk> chunks;
  i64 base = 0;
  for (i64 at = 0; at < call.pages; at += call.chunk_pages) {
    const i64 pages = min_of(call.chunk_pages, call.pages - at);
    chunks.push_back({fold_chunk_slices(pages * call.page_size, slice), base});
    base += chunks.back().slices;
  }
  return chunks;
}

TensorSpec outside(std::string_view name, std::string_view formula, DType dtype, Shape shape) {
  return {.name = name,
          .formula = formula,
          .dtype = dtype,
          .region = Region::whole,
          .bound = Bound::none,
          .shape = shape,
          .offset = kOutsideArena,
          .bytes = shape.elements() * item_bytes(dtype)};
}

void add_slab(ArenaLayout& arena, i64 rows, i64 slices, i64 top_k) {
  arena.tensors.push_back(outside("fold_values", "q*S*K", DType::float32, shape(rows * slices, top_k)));
  arena.tensors.push_back(outside("fold_indices", "q*S*K", DType::int32, shape(rows * slices, top_k)));
  TensorSpec lengths = outside("fold_lengths", "q", DType::int32, shape(rows));
  lengths.fill = {FillKind::value, slices * top_k};
  arena.tensors.push_back(lengths);
}

}  // namespace

Result<IndexerLayout> plan_indexer_fold(const IndexerRequest& request) {
  const IndexerArgs& args = request.args;
  MOEPLAN_CHECK(
      request.contract && args.q_rows && args.top_k && args.page_table_width && args.supertile_pages,
      "a fold request without its sizes");
  const i64 page_size = args.page_size.value_or(kKernelPageSize);
  if (auto s = check_dimensions(args, page_size); !s) return s.error();
  const IndexerEnvironment env(request.contract->environment_prefix, request.env);
  const auto settings = fold_settings(env);
  if (!settings) return settings.error();
  const FoldCall call{.rows = *args.q_rows,
                      .top_k = *args.top_k,
                      .page_size = page_size,
                      .pages = *args.page_table_width,
                      .chunk_pages = *args.supertile_pages,
                      .output_physical_slots = args.output_physical_slots.value_or(false)};
  const auto decision = choose_fold(call, *settings, "/args/q_rows");
  if (!decision) return decision.error();
  if (decision->two_level && ceil_div(call.pages, call.chunk_pages) > kMaxListedChunks)
    return Error{ErrorCode::out_of_range, "/args/supertile_pages",
                 concat("an answer lists at most ", kMaxListedChunks, " chunks, got ",
                        ceil_div(call.pages, call.chunk_pages)),
                 "widen the supertile"};

  IndexerLayout layout;
  layout.contract = request.contract;
  layout.route = decision->two_level ? IndexerRoute::two_level : IndexerRoute::carry;
  layout.route_reason = decision->reason;
  FoldMeta meta{.chunks = {},
                .total_slices = decision->total_slices,
                .candidate_bytes = decision->candidate_bytes,
                .budget_bytes = settings->budget_bytes,
                .reason = decision->reason};
  if (decision->two_level) {
    layout.total_bytes = decision->candidate_bytes;
    meta.chunks = list_chunks(call);
    add_slab(layout.arena, call.rows, decision->total_slices, call.top_k);
  }
  layout.meta = std::move(meta);
  return layout;
}

}  // namespace moeplan
