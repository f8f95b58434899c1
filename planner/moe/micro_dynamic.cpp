#include "planner/moe/micro_dynamic.hpp"

#include <string_view>
#include <vector>

#include "planner/core/text.hpp"
#include "planner/moe/geometry.hpp"
#include "planner/moe/w4a16.hpp"

namespace moeplan {
namespace {

constexpr i64 kTileColumns = 128;

// A request at one token count, with the terms its rules share. Sizes in elements.
struct Launch {
  QuantMode mode;
  bool trellis;
  Activation activation;
  bool gb10;                // compute capability 12.1
  i64 experts;              // E
  i64 hidden;               // k
  i64 intermediate;         // n
  i64 padded_intermediate;  // N1
  i64 top_k;
  i64 tokens;              // t
  i64 rows;                // t * topk
  bool micro_kernel_fits;  // micro_ok
  bool deterministic;
  bool wide_micro_reduction;  // the contract's extra w4a8_mx term

  // The rest is filled in for the chosen implementation.
  i64 state_experts;
  i64 state_rows;
  i64 barriers;
  i64 scale_columns;  // pk
  i64 micro_floats;
  i64 tiles;
  i64 tasks;
  i64 padded_rows;  // rp
  i64 packed_columns;
  i64 materialized_rows;
};

// The shape whose narrow launches upstream tuned by hand.
bool is_tuned_shape(const Launch& launch) {
  return launch.mode == QuantMode::w4a8_mx && launch.experts == 256 && launch.padded_intermediate == 1024;
}

// Rows of one tile. First match wins.
i64 tile_rows(const Launch& launch) {
  const i64 rows = launch.rows;
  const i64 experts = launch.experts;
  switch (launch.mode) {
    case QuantMode::w6a8_mx:
      return 128;
    case QuantMode::w4a8_mx:
      if (is_tuned_shape(launch) && launch.activation == Activation::silu) {
        if (rows >= 384 && rows <= 2304) return 32;
        if (launch.gb10 && rows > 2304 && rows <= 384 * experts) return 32;
      }
      [[fallthrough]];
    case QuantMode::w4a8_nvfp4:
      return rows >= 36 * experts ? 64 : rows > 16 * experts ? 32 : 16;
    case QuantMode::nvfp4:
      if (!is_gated(launch.activation)) return 128;
      return rows < 15 * experts ? 16 : rows < 48 * experts ? 32 : rows < 96 * experts ? 64 : 128;
    case QuantMode::w4a16:
      break;
  }
  MOEPLAN_CHECK(false, "w4a16 has no micro or dynamic workspace");
}

// The "tiny" kernel of w4a8_mx from fp4 weights.
bool is_tiny(const Launch& launch) {
  const bool slow_on_gb10 =
      launch.gb10 && launch.tokens >= 3 && launch.hidden == 6144 && launch.intermediate == 1024;
  return launch.tokens >= 1 && launch.tokens <= 4 && launch.activation == Activation::silu &&
         launch.hidden % 256 == 0 && launch.intermediate % 32 == 0 && (launch.hidden / 128) % 4 == 0 &&
         !slow_on_gb10;
}

bool is_micro(const Launch& launch, i64 cutover_pairs) {
  const bool few = launch.tokens <= kSmallMTokens && launch.micro_kernel_fits;
  const bool situ = launch.activation == Activation::situ;
  switch (launch.mode) {
    case QuantMode::nvfp4:
      return few && launch.rows < cutover_pairs && !situ;
    case QuantMode::w4a8_nvfp4:
      return few && !situ;
    case QuantMode::w4a8_mx:
      return launch.trellis ? few : is_tiny(launch);
    case QuantMode::w6a8_mx:
    case QuantMode::w4a16:
      return false;
  }
  return false;
}

using Rule = TensorRule<Launch>;
using L = const Launch&;

constexpr Rule kHead[] = {
    {"row_counts", ElementType::int32, [](L l) { return shape(l.state_experts); }, "sE"},
    {"barrier_count", ElementType::int32, [](L l) { return shape(l.barriers); }, "bar"},
    {"barrier_epoch", ElementType::int32, [](L l) { return shape(l.barriers); }, "bar"},
};

constexpr Rule kMicroTail[] = {
    {"token_map", ElementType::int32, [](L l) { return shape(l.state_experts, l.state_rows); }, "sE*mr"},
    {"token_weights", ElementType::float32, [](L l) { return shape(l.state_experts, l.state_rows); },
     "sE*mr"},
    {"packed_input", ElementType::uint8,
     [](L l) { return shape(l.state_experts, l.state_rows, l.hidden / 2); }, "sE*mr*(k/2)"},
    {"packed_input_scale", ElementType::uint8,
     [](L l) { return shape(l.state_experts, align_up(l.state_rows, 128), l.scale_columns); },
     "sE*up(mr,128)*pk"},
    {"active_expert_count", ElementType::int32, [](L) { return shape(1); }, "1"},
    {"weight_expert_ids", ElementType::int32, [](L l) { return shape(l.state_experts); }, "sE"},
    {"global_to_local_expert", ElementType::int32, [](L l) { return shape(l.experts); }, "E"},
    {"compact_topk_ids", ElementType::int32, [](L l) { return shape(l.rows); }, "rows"},
    {"micro_intermediate", ElementType::float32, [](L l) { return shape(l.micro_floats); }, "X"},
};

constexpr Rule kDynamicTail[] = {
    {"token_map", ElementType::int32, [](L l) { return shape(l.padded_rows); }, "rp"},
    {"token_weights", ElementType::float32, [](L l) { return shape(l.padded_rows); }, "rp"},
    {"route_output", ElementType::io, [](L l) { return shape(l.deterministic ? l.rows : 1, l.hidden); },
     "ro*k"},
    {"materialized_intermediate", ElementType::io, [](L l) { return shape(l.materialized_rows, l.hidden); },
     "max(1,cd(mb,2*k))*k"},
    {"packed_input", ElementType::uint8, [](L l) { return shape(1, l.padded_rows, l.packed_columns); },
     "rp*cols"},
    {"packed_input_scale", ElementType::uint8,
     [](L l) { return shape(align_up(l.padded_rows, 128), l.scale_columns); }, "up(rp,128)*pk"},
    {"expert_write_rows", ElementType::int32, [](L l) { return shape(l.experts); }, "E"},
    {"expert_tile_base", ElementType::int32, [](L l) { return shape(l.experts + 1); }, "E+1"},
    {"input_gs", ElementType::float32, [](L l) { return shape(l.experts); }, "E"},
    {"down_input_scale", ElementType::float32, [](L l) { return shape(l.experts); }, "E"},
    {"pair_head", ElementType::int32, [](L) { return shape(1); }, "1"},
    {"producers_done_count", ElementType::int32, [](L) { return shape(1); }, "1"},
    {"all_work_published", ElementType::int32, [](L) { return shape(1); }, "1"},
    {"task_head", ElementType::int32, [](L) { return shape(1); }, "1"},
    {"task_tail", ElementType::int32, [](L) { return shape(1); }, "1"},
    {"task_ready", ElementType::int32, [](L l) { return shape(l.tasks); }, "tasks"},
    {"task_expert", ElementType::int32, [](L l) { return shape(l.tasks); }, "tasks"},
    {"task_m_tile", ElementType::int32, [](L l) { return shape(l.tasks); }, "tasks"},
    {"task_slice_begin", ElementType::int32, [](L l) { return shape(l.tasks); }, "tasks"},
    {"task_slice_count", ElementType::int32, [](L l) { return shape(l.tasks); }, "tasks"},
    {"task_valid_rows", ElementType::int32, [](L l) { return shape(l.tasks); }, "tasks"},
    {"tile_write_count", ElementType::int32, [](L l) { return shape(l.tiles); }, "tiles"},
};

Launch launch_of(const MoeRequest& request, i64 tokens) {
  const MoeWeights& weights = request.weights;
  Launch launch{};
  launch.mode = weights.quant_mode;
  launch.trellis = weights.source_format == request.contract->trellis_source;
  launch.activation = weights.activation;
  launch.gb10 = request.device.compute_capability == "12.1";
  launch.experts = weights.experts;
  launch.hidden = weights.hidden_size;
  launch.intermediate = weights.intermediate_size;
  launch.padded_intermediate =
      launch.mode == QuantMode::w4a8_mx ? align_up(launch.intermediate, kTileColumns) : launch.intermediate;
  launch.top_k = request.capacity.routes_per_token();
  launch.tokens = tokens;
  launch.rows = tokens * launch.top_k;
  launch.micro_kernel_fits = tokens >= 1 && tokens <= kSmallMTokens && small_m_hidden_fits(launch.hidden) &&
                             launch.intermediate % 16 == 0 && launch.top_k <= 32;
  launch.deterministic = request.capacity.deterministic_output.value_or(false);
  launch.wide_micro_reduction =
      request.contract->w4a8_mx_micro_reduction && launch.mode == QuantMode::w4a8_mx;
  launch.scale_columns = align_up(launch.hidden / 16, 4);
  return launch;
}

i64 micro_floats(const Launch& launch) {
  const i64 n = launch.intermediate;
  i64 floats = launch.state_experts * n;
  if (launch.mode == QuantMode::w4a8_mx) floats = max_of(floats, launch.state_rows * 2 * n);
  if (launch.wide_micro_reduction && n % 128 == 0)
    floats = max_of(floats, launch.rows * (n / 2) + launch.rows * (n / 128) * 257);
  if (launch.micro_kernel_fits)
    floats = max_of(floats, launch.rows * launch.hidden + launch.rows * ceil_div(n / 2, 128) * 128);
  return floats;
}

void complete_micro(Launch& launch) {
  launch.state_experts = launch.state_rows = max_of(1, launch.rows);
  launch.barriers = launch.micro_kernel_fits ? launch.rows + 16 * launch.tokens : max_of(1, launch.rows);
  launch.micro_floats = micro_floats(launch);
}

// Few rows are routed without sorting: each may then own a tile.
bool has_direct_routing(const Launch& launch, i64 tile_m) {
  return launch.activation == Activation::silu && tile_m == 16 && launch.rows <= 32 &&
         (launch.mode == QuantMode::nvfp4 || launch.mode == QuantMode::w4a8_mx);
}

void complete_dynamic(Launch& launch, i64 tile_m) {
  const i64 rows = max_of(1, launch.rows);
  launch.state_experts = launch.experts;
  launch.state_rows = align_up(launch.rows, tile_m);
  launch.barriers = rows;
  launch.tiles = max_of(1, ceil_div(rows, tile_m) + min_of(launch.experts, rows) - 1);
  const i64 groups = max_of(1, ceil_div(launch.padded_intermediate, kTileColumns));
  if (has_direct_routing(launch, tile_m)) launch.tiles = max_of(launch.tiles, launch.rows);
  launch.tasks = launch.tiles * groups;
  launch.padded_rows = launch.tiles * tile_m;
  launch.packed_columns = launch.mode == QuantMode::nvfp4 ? launch.hidden / 2 : launch.hidden;

  i64 materialized_bytes = 16;
  if (launch.mode == QuantMode::w4a8_mx || launch.mode == QuantMode::w4a8_nvfp4)
    materialized_bytes = max_of(materialized_bytes, launch.padded_rows * (launch.padded_intermediate +
                                                                          launch.padded_intermediate / 32));
  launch.materialized_rows = max_of(1, ceil_div(materialized_bytes, 2 * launch.hidden));
}

// The terms of a micro launch, as docs/contracts.md section 9 names them.
void add_micro_symbols(Symbols& symbols, const Launch& launch) {
  define(symbols, "mr", "max(1,rows)", "rows an expert's state holds");
  define(symbols, "sE", "mr", "experts with a state");
  define(symbols, "bar", launch.micro_kernel_fits ? "rows+16*t" : "max(1,rows)", "grid barriers");
  std::vector<std::string_view> floats = {"sE*n"};
  if (launch.mode == QuantMode::w4a8_mx) floats.push_back("mr*2*n");
  if (launch.wide_micro_reduction && launch.intermediate % 128 == 0)
    floats.push_back("rows*(n/2)+rows*(n/128)*257");
  if (launch.micro_kernel_fits) floats.push_back("rows*k+rows*cd(n/2,128)*128");
  define(symbols, "X", floats.size() == 1 ? std::string(floats[0]) : concat("max(", join(floats, ", "), ")"),
         "fp32 elements of the largest intermediate");
}

// The terms of a dynamic launch.
void add_dynamic_symbols(Symbols& symbols, const Launch& launch, i64 tile_m) {
  define(symbols, "sE", "E", "experts with a state");
  define(symbols, "bar", "max(1,rows)", "grid barriers");
  add_input(symbols, "tm", tile_m, "rows of a tile, by mode, rows and experts");
  define(symbols, "tiles",
         has_direct_routing(launch, tile_m) ? "max(rows, cd(max(1,rows),tm)+min(E,max(1,rows))-1)"
                                            : "cd(max(1,rows),tm)+min(E,max(1,rows))-1",
         "row tiles in the worst routing");
  define(symbols, "rp", "tiles*tm", "rows padded to tiles");
  define(symbols, "tasks", "tiles*max(1,cd(N1,128))", "tiles by column groups of 128");
  define(symbols, "cols", launch.mode == QuantMode::nvfp4 ? "k/2" : "k", "bytes of a packed row");
  const bool w4a8 = launch.mode == QuantMode::w4a8_mx || launch.mode == QuantMode::w4a8_nvfp4;
  define(symbols, "mb", w4a8 ? "max(16, rp*(N1+N1/32))" : "16", "bytes materialised between the projections");
  define(symbols, "ro", launch.deterministic ? "rows" : "1", "rows that are written before they are summed");
}

// The most tokens one dynamic launch indexes with 32 bits, leaving each expert's tail room.
i64 dynamic_tokens_per_launch(const Launch& launch) {
  constexpr i64 kLargest32 = (i64{1} << 31) - 1;
  const i64 rows =
      min_of(kLargest32 / max_of(1, launch.packed_columns), kLargest32 / max_of(1, launch.scale_columns)) /
      128 * 128;
  i64 safe_rows = rows - 128 * (launch.experts - 1);
  if (safe_rows <= 0) safe_rows = 128;
  return max_of(1, safe_rows / launch.top_k);
}

}  // namespace

MicroDynamicCore place_micro_dynamic_core(ArenaLayout& arena, const MoeRequest& request, i64 tokens) {
  Launch launch = launch_of(request, tokens);
  const DType io = request.weights.io_dtype;
  const ElementTypes types{.cache = io, .io = io, .logits = io};
  const auto place_all = [&](std::span<const Rule> rules) {
    for (const Rule& rule : rules) place(arena, rule, launch, types, Region::core, kMoeAlignment);
  };
  if (is_micro(launch, request.capacity.micro_cutover_pairs)) {
    complete_micro(launch);
    place_all(kHead);
    place_all(kMicroTail);
    return {Implementation::micro, 0, 0, tokens};
  }
  const i64 tile_m = tile_rows(launch);
  complete_dynamic(launch, tile_m);
  place_all(kHead);
  place_all(kDynamicTail);
  return {Implementation::dynamic, tile_m, kTileColumns, dynamic_tokens_per_launch(launch)};
}

void add_micro_dynamic_symbols(Symbols& symbols, const MoeRequest& request, i64 tokens) {
  const Launch launch = launch_of(request, tokens);
  define(symbols, "rows", "t*topk", "token-expert pairs");
  define(symbols, "N1", launch.mode == QuantMode::w4a8_mx ? "up(n,128)" : "n", "intermediate size, padded");
  define(symbols, "pk", "up(k/16,4)", "scale columns");
  if (is_micro(launch, request.capacity.micro_cutover_pairs))
    add_micro_symbols(symbols, launch);
  else
    add_dynamic_symbols(symbols, launch, tile_rows(launch));
}

}  // namespace moeplan
