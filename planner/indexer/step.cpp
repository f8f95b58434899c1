// One eager call on a planned arena: its launches, its allocations, and how often it reads each variable.
#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"
#include "planner/indexer/fold.hpp"
#include "planner/indexer/geometry.hpp"
#include "planner/indexer/paged.hpp"
#include "planner/indexer/plan_indexer.hpp"

namespace moeplan {
namespace {

using Variable = IndexerVariable;

// What a call does on each route. Chunks are supertiles of the live page table.
struct RouteCalls {
  std::string_view scorer;  // once a chunk; the fused route's only launch
  i64 stream_reads;         // of the stream scorer variable, a chunk
};
RouteCalls calls_of(IndexerRoute route) {
  switch (route) {
    case IndexerRoute::paged_tiled:
      // The scheduled-tile check and the tiled scorer each read the variable.
      return {"attention.indexer.paged_tiled_logits", 2};
    case IndexerRoute::packed_contiguous:
      return {"attention.indexer.contiguous_logits", 1};
    default:
      return {"attention.indexer.fused_indexer", 0};
  }
}

// The legacy scorer schedules its tiles when few rows meet a wide chunk, and supertile top-k cannot follow.
constexpr i64 kScheduledRows = 8;
constexpr i64 kScheduledPages = 1024;

// Caps of the plan the call is bound to: what the call implies, below what it states.
IndexerCaps step_caps(const IndexerArgs& args) {
  IndexerCaps caps = args.caps.value_or(IndexerCaps{});
  const auto imply = [](auto& member, const auto& value) {
    if (!member) member = value;
  };
  imply(caps.num_q_heads, args.num_heads);
  imply(caps.max_q_rows, args.rows);
  imply(caps.max_page_table_width, args.page_table_width);
  imply(caps.top_k, args.top_k);
  imply(caps.shared_page_table, args.shared_page_table);
  return caps;
}

// Planning complains about /caps; here those are /args/caps, or the argument that implied them.
Error in_args(Error error, const IndexerArgs& args) {
  constexpr std::string_view kCaps = "/caps/";
  if (!error.pointer.starts_with(kCaps)) return error;
  const std::string field = error.pointer.substr(kCaps.size());
  const bool implied = field == "max_page_table_width" && !(args.caps && args.caps->max_page_table_width);
  error.pointer = implied ? "/args/page_table_width" : concat("/args/caps/", field);
  return error;
}

Error unbindable(std::string_view field, std::string message) {
  return Error{ErrorCode::indexer_binding, concat("/args/", field), std::move(message),
               "plan for the largest call, and bind what was planned"};
}

Status check_binding(const IndexerArgs& args, const PagedCaps& caps, IndexerRoute route) {
  if (*args.rows < 1) return unbindable("rows", concat("a call has at least one row, got ", *args.rows));
  if (*args.page_table_width < 1)
    return unbindable("page_table_width",
                      concat("a call has at least one page, got ", *args.page_table_width));
  if (*args.rows > caps.max_q_rows)
    return unbindable("rows", concat(*args.rows, " rows pass the planned ", caps.max_q_rows));
  if (*args.page_table_width > caps.max_page_table_width)
    return unbindable("page_table_width",
                      concat(*args.page_table_width, " pages pass the planned ", caps.max_page_table_width));
  const bool shared = args.shared_page_table.value_or(false);
  if (shared != caps.shared_page_table)
    return unbindable("shared_page_table", "the call and its plan disagree about sharing the page table");
  if (route == IndexerRoute::packed_contiguous && !shared)
    return unbindable("shared_page_table", "the packed_contiguous route requires a shared page table");
  if (caps.page_size != kKernelPageSize)
    return unbindable("caps/page_size",
                      concat("every kernel takes pages of 64 tokens, the plan has ", caps.page_size));
  return Ok{};
}

Allocation allocation(DType dtype, Shape shape, std::optional<i64> fill = {}) {
  return {.dtype = dtype, .shape = shape, .bytes = shape.elements() * item_bytes(dtype), .fill = fill};
}

// The chunked routes: score and select each chunk, then fold what was selected.
Status describe_chunks(StepMeta& step, const IndexerArgs& args, const PagedCaps& caps, IndexerRoute route,
                       const IndexerEnvironment& env) {
  const i64 rows = *args.rows;
  const i64 chunk_pages = step.supertile_tokens / caps.page_size;
  const auto settings = fold_settings(env);
  if (!settings) return settings.error();
  const auto fold = choose_fold({.rows = rows,
                                 .top_k = caps.top_k,
                                 .page_size = caps.page_size,
                                 .pages = *args.page_table_width,
                                 .chunk_pages = chunk_pages,
                                 .output_physical_slots = args.output_physical_slots.value_or(false)},
                                *settings, "/args/rows");
  if (!fold) return fold.error();
  // No chunk is wider than the first.
  const i64 first_pages = min_of(chunk_pages, *args.page_table_width);
  if (!env.stream_scorer() && rows <= kScheduledRows && first_pages >= kScheduledPages)
    return env.refuse(
        Variable::stream_scorer, ErrorCode::indexer_scheduled_tile,
        concat(" is off, and paged supertile top-k requires an unscheduled paged scorer tile; "
               "reduce ",
               env.name(Variable::supertile_k), " below ", first_pages * caps.page_size, " tokens"),
        "or leave the stream scorer on");

  const RouteCalls calls = calls_of(route);
  for (i64 i = 0; i < step.num_chunks; ++i) {
    step.launches.push_back(calls.scorer);
    step.launches.push_back("attention.indexer.tiled_topk");
  }
  step.env_reads = {{env.name(Variable::fold_mode), 1},
                    {env.name(Variable::fold_max_mib), 1},
                    {env.name(Variable::stream_scorer), calls.stream_reads * step.num_chunks}};
  if (!fold->two_level) return Ok{};
  step.launches.push_back("attention.indexer.row_topk");
  const i64 slices = fold->total_slices;
  step.allocations = {allocation(DType::float32, shape(rows * slices, caps.top_k)),
                      allocation(DType::int32, shape(rows * slices, caps.top_k)),
                      allocation(DType::int32, shape(rows), slices * caps.top_k)};
  return Ok{};
}

}  // namespace

Result<IndexerLayout> plan_indexer_step(const IndexerRequest& request) {
  const IndexerArgs& args = request.args;
  MOEPLAN_CHECK(request.contract && args.rows && args.num_heads && args.top_k && args.page_table_width,
                "a step request without its sizes");
  const auto caps = paged_caps(step_caps(args));
  if (!caps) return in_args(caps.error(), args);
  auto plan = lay_out_paged(request, *caps);
  if (!plan) return in_args(plan.error(), args);
  if (auto s = check_binding(args, *caps, plan->route); !s) return s.error();

  const i64 supertile = std::get<PagedMeta>(plan->meta).supertile_tokens;
  StepMeta step{.num_chunks = ceil_div(*args.page_table_width, supertile / caps->page_size),
                .supertile_tokens = supertile,
                .launches = {},
                .allocations = {},
                .env_reads = {}};
  if (step.num_chunks > kMaxListedChunks)
    return Error{ErrorCode::out_of_range, "/args/page_table_width",
                 concat("an answer lists at most ", kMaxListedChunks, " chunks, got ", step.num_chunks),
                 "widen the supertile"};
  if (plan->route == IndexerRoute::paged_fused) {
    step.launches = {calls_of(plan->route).scorer};
    // The planned topk_values stay unused: without out_scores the route allocates its own.
    step.allocations = {allocation(DType::float32, shape(*args.rows, caps->top_k))};
  } else {
    const IndexerEnvironment env(request.contract->environment_prefix, request.env);
    if (auto s = describe_chunks(step, args, *caps, plan->route, env); !s) return s.error();
  }
  // Real launches end in the compiler's cache, past whoever counts them.
  if (args.real_launch.value_or(false)) step.launches.clear();
  plan->arena = ArenaLayout{};
  plan->meta = std::move(step);
  return plan;
}

}  // namespace moeplan
