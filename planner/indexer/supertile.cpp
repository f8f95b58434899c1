#include "planner/indexer/supertile.hpp"

#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"
#include "planner/indexer/geometry.hpp"

namespace moeplan {
namespace {

constexpr std::string_view kField = "/caps/paged_tile_logits_k_rows";

// A width, and the input it came from.
struct Requested {
  i64 tokens;
  std::string pointer;
  bool is_default;
};

Result<Requested> requested_width(const SupertileInputs& inputs, const IndexerEnvironment& env) {
  if (inputs.requested > 0) return Requested{inputs.requested, std::string(kField), false};
  const auto variable = env.supertile_k();
  if (!variable) return variable.error();
  if (*variable) return Requested{**variable, concat("/env/", env.name(IndexerVariable::supertile_k)), false};
  return Requested{kDefaultSupertile, std::string(kField), true};
}

}  // namespace

Result<i64> resolve_supertile(const SupertileInputs& inputs, const IndexerEnvironment& env) {
  auto requested = requested_width(inputs, env);
  if (!requested) return requested.error();
  i64 supertile = supertile_tokens(requested->tokens);
  // Only the default shrinks to a short context: whoever asks for a width gets it.
  if (requested->is_default) supertile = clamp_supertile(supertile, inputs.capacity_tokens);

  const i64 widest = kMaxTileLogitsBytes / 4 / align_up(inputs.rows, kTileRows);
  if (supertile > widest)
    return Error{
        ErrorCode::out_of_range, requested->pointer,
        concat("a supertile of ", inputs.rows, " rows has at most ", widest, " tokens, got ", supertile), ""};
  if (supertile % inputs.page_size != 0)
    return Error{ErrorCode::indexer_supertile, "/caps/page_size",
                 concat("paged indexer supertile width must be divisible by page_size, got supertile_tokens=",
                        supertile, ", page_size=", inputs.page_size),
                 "every kernel takes page_size 64"};
  return supertile;
}

}  // namespace moeplan
