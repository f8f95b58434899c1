#include "planner/indexer/route.hpp"

#include <vector>

#include "planner/core/text.hpp"
#include "planner/indexer/device.hpp"
#include "planner/indexer/geometry.hpp"

namespace moeplan {
namespace {

// Kernel families of the fused route, by shape; the first that matches counts.
struct FusedFamily {
  std::string_view name;
  i64 heads, top_k;  // 0: any
  i64 max_rows;
  bool sm120_only;
};
constexpr FusedFamily kFusedFamilies[] = {
    {"64 heads with top-k 512", 64, 512, 16, true},
    {"32 heads with top-k 2048", 32, 2048, 16, false},
    {"this shape", 0, 0, 6, false},
};

const FusedFamily& family_of(const FusedShape& shape) {
  for (const FusedFamily& family : kFusedFamilies) {
    if (family.heads == 0 || (family.heads == shape.heads && family.top_k == shape.top_k)) return family;
  }
  fail_check("family", "no fused family matches", __FILE__, __LINE__);
}

bool has_fused_selector(i64 top_k) { return top_k == 512 || top_k == 1024 || top_k == 2048; }

Result<ChosenRoute> explicit_fused(const RouteInputs& inputs, const DeviceProfile& device,
                                   const IndexerEnvironment& env) {
  if (inputs.shared_page_table || inputs.mode == IndexerMode::prefill)
    return Error{ErrorCode::indexer_route_unavailable, "/caps/route",
                 "the paged_fused route is decode-only: no prefill mode, no shared page table",
                 "leave route to auto"};
  const FusedShape& shape = inputs.shape;
  const auto fused = fused_availability(shape, device, env);
  if (!fused.available)
    return Error{ErrorCode::indexer_route_unavailable, "/caps/route",
                 concat("fused paged indexer route is not available for the planned caps: max_q_rows=",
                        shape.rows, ", topk=", shape.top_k, ", width=", shape.width_tokens,
                        ", num_q_heads=", shape.heads, "; ", fused.rule),
                 "leave route to auto"};
  return ChosenRoute{IndexerRoute::paged_fused, concat("asked for; ", fused.rule)};
}

}  // namespace

FusedAvailability fused_availability(const FusedShape& shape, const DeviceProfile& device,
                                     const IndexerEnvironment& env) {
  if (!env.fused_allowed()) return {false, concat(env.name(IndexerVariable::fused), " is 0")};
  if (!has_fused_selector(shape.top_k))
    return {false, concat("the fused selector takes top-k 512, 1024 or 2048, not ", shape.top_k)};
  if (shape.rows < 1 || shape.width_tokens < 1) return {false, "no rows or no keys"};
  const FusedFamily& family = family_of(shape);
  if (family.sm120_only && !is_sm120_or_121(device))
    return {false, concat("fused for ", family.name, " needs compute capability 12.0 or 12.1")};
  if (shape.rows > family.max_rows)
    return {false,
            concat(shape.rows, " rows pass the ", family.max_rows, " that fused takes for ", family.name)};
  const i64 tiles = head_tiles(shape.heads);
  if (tiles != 1 && tiles != 2 && tiles != 4)
    return {false, concat("fused takes 1, 2 or 4 tiles of 16 heads, not ", tiles)};
  return {true, concat(shape.rows, " rows are within the ", family.max_rows, " that fused takes for ",
                       family.name)};
}

Result<ChosenRoute> choose_route(const RouteInputs& inputs, const DeviceProfile& device,
                                 const IndexerEnvironment& env) {
  switch (inputs.choice) {
    case RouteChoice::paged_fused:
      return explicit_fused(inputs, device, env);
    case RouteChoice::paged_tiled:
      return ChosenRoute{IndexerRoute::paged_tiled, "asked for"};
    case RouteChoice::packed_contiguous:
      return ChosenRoute{IndexerRoute::packed_contiguous, "asked for"};
    case RouteChoice::automatic:
      break;
  }
  if (inputs.shared_page_table)
    return ChosenRoute{IndexerRoute::packed_contiguous, "rows share one page table"};
  if (inputs.mode == IndexerMode::prefill)
    return ChosenRoute{IndexerRoute::packed_contiguous, "prefill gathers its keys"};
  auto fused = fused_availability(inputs.shape, device, env);
  return ChosenRoute{fused.available ? IndexerRoute::paged_fused : IndexerRoute::paged_tiled,
                     std::move(fused.rule)};
}

Result<i64> choose_prefill_block_k(i64 rows, i64 supertile, i64 heads, const IndexerEnvironment& env) {
  constexpr i64 kScorerRows = 256;
  constexpr i64 kWideRows = 1024;
  constexpr i64 kWideKeys = 4096;
  const auto scorer = env.prefill_scorer();
  if (!scorer) return scorer.error();
  if (!scorer->value_or(rows >= kScorerRows)) return i64{256};
  const auto choice = env.prefill_block_k();
  if (!choice) return choice.error();
  if (*choice == BlockKChoice::block_256) return i64{256};

  std::vector<std::string> unmet;
  if (rows < kWideRows) unmet.push_back(concat("valid_q_rows=", rows, " < ", kWideRows));
  if (supertile < kWideKeys) unmet.push_back(concat("k_rows=", supertile, " < ", kWideKeys));
  if (heads != 32 && heads != 64) unmet.push_back(concat("num_heads=", heads, " is neither 32 nor 64"));
  if (unmet.empty()) return i64{512};
  if (*choice == BlockKChoice::automatic) return i64{256};
  return env.refuse(IndexerVariable::prefill_block_k, ErrorCode::indexer_block_k,
                    concat("=512 is unsupported for this shape: ", join(unmet, "; ")),
                    "leave it unset for the block that fits");
}

}  // namespace moeplan
