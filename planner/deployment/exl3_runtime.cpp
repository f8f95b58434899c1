#include "planner/deployment/exl3_runtime.hpp"

#include <algorithm>

#include "planner/core/text.hpp"
#include "planner/deployment/exl3.hpp"
#include "planner/deployment/mixed_buffers.hpp"
#include "planner/deployment/parity_staging.hpp"
#include "planner/moe/plan_moe.hpp"

namespace moeplan {
namespace {

// The arena of a request, as a part.
Result<RuntimePart> arena_part(std::string name, PartKind kind, const PlanRequest& request) {
  const auto layout = plan_moe(request.moe);
  if (!layout) {
    Error error = layout.error();
    error.message = concat("plan \"", request.id, "\": ", error.message);
    error.pointer = exl3_config_pointer(request.id, error.pointer);
    return error;
  }
  return RuntimePart{
      std::move(name),     kind, request.moe.capacity.max_tokens, layout->route_block_size_m.value_or(0),
      layout->total_bytes, {}};
}

RuntimePart buffers_part(std::string name, PartKind kind, i64 tokens, i64 block,
                         std::vector<Buffer> buffers) {
  const i64 bytes = total_bytes(buffers);
  return {std::move(name), kind, tokens, block, bytes, std::move(buffers)};
}

Status add_rank_sliced(const Deployment& d, const Exl3Settings& s, Exl3Runtime& runtime) {
  const std::string_view prefix = runtime.is_draft ? "draft " : "";
  for (const PlanRequest& request : exl3_runtime_requests(d, s, runtime.is_draft)) {
    auto part = arena_part(concat(request.id, " arena"), PartKind::arena, request);
    if (!part) return part.error();
    runtime.parts.push_back(std::move(*part));
  }
  const ParityShape shape{*d.model->hidden_size,
                          intermediate_per_rank(d),
                          *d.model->n_routed_experts,
                          *d.model->num_experts_per_tok,
                          s.parity_rows,
                          s.prefill_chunk,
                          d.device->sm_count};
  runtime.parts.push_back(buffers_part(concat(prefix, "parity staging"), PartKind::parity_staging,
                                       s.parity_rows, 0, parity_staging(shape)));
  return Ok{};
}

Status add_mixed(const Deployment& d, const Exl3Settings& s, Exl3Runtime& runtime) {
  const MixedShape shape{*d.model->hidden_size, intermediate_per_rank(d), *d.model->n_routed_experts,
                         *d.model->num_experts_per_tok, d.device->sm_count};
  const auto add_state = [&](std::string name, i64 capacity) {
    runtime.parts.push_back(
        buffers_part(std::move(name), PartKind::mixed_state, capacity, 8, mixed_state(shape, capacity)));
  };
  add_state("mixed decode state", runtime.decode_tokens);
  if (runtime.prefill_tokens == 0) return Ok{};
  if (runtime.form == RuntimeForm::mixed_one_grid) {
    add_state("mixed prefill state", runtime.prefill_tokens);
    return Ok{};
  }
  // The tiers run one after the other in one arena, which has to hold the largest.
  std::optional<RuntimePart> largest;
  for (const QuantTier& tier : d.quant->tiers) {
    auto part =
        arena_part(std::string(kMixedPrefillArena), PartKind::mixed_arena, exl3_tier_request(d, s, tier));
    if (!part) return part.error();
    if (!largest || part->bytes > largest->bytes) largest = std::move(*part);
  }
  runtime.parts.push_back(std::move(*largest));
  runtime.parts.push_back(
      buffers_part("mixed prefill accumulator", PartKind::mixed_accumulator, runtime.prefill_tokens, 0,
                   {buffer("prefill_accum", "float32", 4,
                           moeplan::shape(runtime.prefill_tokens, shape.hidden), "cap*H")}));
  return Ok{};
}

}  // namespace

i64 Exl3Runtime::bytes() const {
  i64 sum = 0;
  for (const RuntimePart& part : parts) sum += part.bytes;
  return sum;
}

bool has_exl3_draft(const EngineSettings& engine) {
  return engine.draft_is_exl3.value_or(false) && engine.num_speculative_tokens.value_or(0) > 0;
}

Result<std::vector<Exl3Runtime>> exl3_runtimes(const Deployment& d) {
  const auto settings = check_exl3_deployment(d);
  if (!settings) return settings.error();
  const i64 scheduled = d.engine->max_num_batched_tokens;

  Exl3Runtime target;
  target.scheduled_tokens = scheduled;
  target.decode_tokens = settings->decode_tokens;
  target.prefill_tokens = settings->prefill_enabled ? settings->prefill_tokens : 0;
  Exl3Runtime draft = target;
  draft.is_draft = true;
  if (d.quant->tiers.empty()) {
    if (auto s = add_rank_sliced(d, *settings, target); !s) return s.error();
  } else {
    target.form =
        d.quant->mixed_form == MixedForm::serial ? RuntimeForm::mixed_serial : RuntimeForm::mixed_one_grid;
    target.decode_tokens = min_of(settings->decode_tokens, scheduled);
    target.prefill_tokens = scheduled > target.decode_tokens ? settings->prefill_tokens : 0;
    if (auto s = add_mixed(d, *settings, target); !s) return s.error();
  }
  std::vector<Exl3Runtime> runtimes{std::move(target)};
  // The key names the draft: its experts never share the target's buffers.
  if (has_exl3_draft(*d.engine)) {
    if (auto s = add_rank_sliced(d, *settings, draft); !s) return s.error();
    runtimes.push_back(std::move(draft));
  }
  return runtimes;
}

i64 logged_arena_bytes(const Exl3Runtime& runtime) {
  if (runtime.form != RuntimeForm::rank_sliced || runtime.prefill_tokens == 0) return 0;
  return runtime.parts[1].bytes;
}

LoggedBuffers logged_buffer_bytes(const Exl3Runtime& runtime) {
  LoggedBuffers logged;
  for (const RuntimePart& part : runtime.parts) {
    if (part.kind == PartKind::mixed_state) logged.decode_bytes += part.bytes;
    if (part.kind == PartKind::mixed_arena || part.kind == PartKind::mixed_accumulator)
      logged.prefill_bytes += part.bytes;
  }
  return logged;
}

std::vector<std::pair<std::string, std::string>> exl3_runtime_key(const Deployment& d,
                                                                  const Exl3Runtime& runtime) {
  const auto settings = parse_exl3_settings(*d.engine);
  MOEPLAN_CHECK(settings, "a runtime of settings that cannot be parsed");
  const i64 hidden = *d.model->hidden_size, intermediate = intermediate_per_rank(d);
  const std::string tile = join(exl3_tile_config(hidden, intermediate), "x");
  const std::string dtype(name_of(d.engine->dtype));
  const auto number = [](i64 value) { return std::to_string(value); };
  if (runtime.form == RuntimeForm::rank_sliced)
    return {{"scope", "one a model"},
            {"is_draft", runtime.is_draft ? "true" : "false"},
            {"device", "one a device"},
            {"dtype", dtype},
            {"hidden", number(hidden)},
            {"intermediate", number(intermediate)},
            {"experts", number(*d.model->n_routed_experts)},
            {"top_k", number(*d.model->num_experts_per_tok)},
            {"max_num_batched_tokens", number(runtime.scheduled_tokens)},
            {"min_m", number(settings->decode_min_tokens)},
            {"max_m", number(settings->decode_tokens)},
            {"block_m", number(settings->decode_block)},
            {"prefill_chunk", number(settings->prefill_chunk)},
            {"prefill_trellis", settings->prefill_switch ? "true" : "false"},
            {"prefill_block_m", number(settings->prefill_block)},
            {"tile", tile},
            {"prefill_capacity", number(settings->prefill_tokens)}};
  std::vector<std::string> tiers;
  for (const QuantTier& tier : d.quant->tiers)
    tiers.push_back(concat("(", tier.bits, ", ", tier.experts, ")"));
  std::vector<std::pair<std::string, std::string>> key = {
      {"owner", "one a model"},
      {"device", "one a device"},
      {"dtype", dtype},
      {"topk_ids_dtype", "int64"},
      {"hidden", number(hidden)},
      {"intermediate", number(intermediate)},
      {"tiers", join(tiers, ", ")},
      {"top_k", number(*d.model->num_experts_per_tok)},
      {"max_decode_m", number(runtime.decode_tokens)},
      {"max_num_batched_tokens", number(runtime.scheduled_tokens)},
      {"prefill_capacity", number(settings->prefill_tokens)},
      {"tile", "of the mixed kernel"}};
  if (runtime.form == RuntimeForm::mixed_serial) {
    key.push_back({"serial_tile", tile});
    key.push_back({"prefill_block_m", number(settings->prefill_block)});
  }
  return key;
}

}  // namespace moeplan
