#include "planner/deployment/exl3.hpp"

#include <algorithm>

#include "planner/core/did_you_mean.hpp"
#include "planner/core/limits.hpp"
#include "planner/core/python_int.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr std::string_view kDecode = "decode";
constexpr std::string_view kPrefill = "prefill";
constexpr std::string_view kDraftDecode = "draft decode";
constexpr std::string_view kDraftPrefill = "draft prefill";

constexpr Exl3Variable kVariables[] = {
    {"VLLM_EXL3_TRELLIS_MIN_M", "fewest rows the decode plan serves (1)"},
    {"VLLM_EXL3_TRELLIS_MAX_M", "capacity of the decode plan in tokens (32)"},
    {"VLLM_EXL3_TRELLIS_BLOCK_M", "route block of the decode plan (8)"},
    {"VLLM_EXL3_PREFILL_TRELLIS", "the prefill plan exists only when this is exactly \"1\" (1)"},
    {"VLLM_EXL3_PREFILL_BLOCK_M", "route block of the prefill plan (64)"},
    {"VLLM_EXL3_PREFILL_CAPACITY", "capacity of the prefill plan in tokens (max_num_batched_tokens)"},
    {"VLLM_EXL3_PREFILL_CHUNK", "rows a parity-path call; no plan's capacity (128)"},
    {"VLLM_EXL3_EXT_PATH", "where the extension is loaded from"},
    {"VLLM_EXL3_ABI_SHIM", "library loaded ahead of the extension"},
    {"VLLM_EXL3_ONLINE_TRELLIS_BITS", "bits for quantising further weights at load"},
    {"VLLM_EXL3_ENCODER_SOURCE", "folder of the online encoder"},
    {"VLLM_EXL3_ENCODER_REVISION", "identity of the online encoder"},
    {"VLLM_EXL3_ONLINE_CACHE_DIR", "cache of tensors encoded at load"},
    {"VLLM_EXL3_ONLINE_CACHE_MODE", "off, readonly or readwrite"},
    {"VLLM_EXL3_R7_FUSED", "R7 kernels (0)"},
    {"VLLM_EXL3_R7_FUSED_LAYERS", "layers of the R7 kernels"},
    {"VLLM_EXL3_R7_A1_MIN_ROWS", "R7 threshold"},
    {"VLLM_EXL3_R7_ROUTE_BLOCK", "route block of the R7 kernels"},
    {"VLLM_EXL3_R7_DEBUG", "R7 logging"},
};

std::string env_pointer(std::string_view name) { return concat("/deployment/env/", name); }

const std::string* find_variable(const Environment& env, std::string_view name) {
  for (const auto& [key, value] : env) {
    if (key == name) return &value;
  }
  return nullptr;
}

// Unset or blank is the default; anything but a positive integer is refused, as the integration does.
Result<i64> positive_variable(const Environment& env, std::string_view name, i64 fallback) {
  const std::string* text = find_variable(env, name);
  if (!text || strip_python_space(*text).empty()) return fallback;
  const auto value = parse_python_int(*text);
  if (!value || *value <= 0)
    return Error{ErrorCode::invalid_environment, env_pointer(name),
                 concat(name, " must be a positive integer, got \"", *text, "\""),
                 concat("leave it out for the default ", fallback)};
  if (*value > kMaxTokens)
    return Error{ErrorCode::out_of_range, env_pointer(name),
                 concat(name, " must be at most ", kMaxTokens, ", got ", *text), ""};
  return *value;
}

Status check_variable_names(const Environment& env) {
  for (const auto& [name, text] : env) {
    if (!name.starts_with("VLLM_EXL3_")) continue;
    if (std::ranges::find(kVariables, name, &Exl3Variable::name) != std::end(kVariables)) continue;
    std::vector<std::string_view> known;
    for (const Exl3Variable& row : kVariables) known.push_back(row.name);
    const auto near = did_you_mean(name, known);
    return Error{ErrorCode::unknown_key, env_pointer(name),
                 concat("the EXL3 integration reads no variable ", name),
                 near ? concat("did you mean \"", *near, "\"?") : "drop it"};
  }
  return Ok{};
}

struct NamedSize {
  std::string_view pointer;
  const std::optional<i64>& value;
};

Status check_positive(std::initializer_list<NamedSize> sizes) {
  for (const auto& [pointer, value] : sizes) {
    const std::string_view name = pointer.substr(pointer.rfind('/') + 1);
    if (!value)
      return Error{ErrorCode::missing_field, std::string(pointer), concat(name, " is missing"),
                   "an EXL3 deployment has to state it; shapes are never defaulted"};
    if (*value <= 0)
      return Error{ErrorCode::not_positive, std::string(pointer),
                   concat(name, " must be positive, got ", *value), ""};
  }
  return Ok{};
}

// The tensor-parallel sizes that leave each rank a multiple of 128.
std::string fitting_tensor_parallel_sizes(i64 intermediate) {
  std::vector<i64> fitting;
  for (i64 tp = 1; tp <= 64; tp *= 2) {
    if (intermediate % (tp * 128) == 0) fitting.push_back(tp);
  }
  return fitting.empty() ? "no tp up to 64 works for this model"
                         : concat("tp ", join(fitting, ", "), " work here");
}

Status check_deployment(const Deployment& d) {
  const ModelShape& model = *d.model;
  const Parallelism& parallel = *d.parallel;
  if (auto s = check_positive({{"/model/hidden_size", model.hidden_size},
                               {"/model/moe_intermediate_size", model.moe_intermediate_size},
                               {"/model/n_routed_experts", model.n_routed_experts},
                               {"/model/num_experts_per_tok", model.num_experts_per_tok},
                               {"/quant/bits", d.quant->bits}});
      !s)
    return s;
  if (parallel.ep.value_or(1) != 1)
    return Error{ErrorCode::unsupported_deployment, "/parallel/ep",
                 concat("the EXL3 integration runs tensor-parallel only, got ep ", *parallel.ep),
                 "write ep 1"};
  if (*model.num_experts_per_tok > *model.n_routed_experts)
    return Error{ErrorCode::out_of_range, "/model/num_experts_per_tok",
                 concat("a token cannot be routed to ", *model.num_experts_per_tok, " of ",
                        *model.n_routed_experts, " experts"),
                 "check num_experts_per_tok and n_routed_experts"};
  if (*model.hidden_size % 128 != 0)
    return Error{ErrorCode::misaligned_shape, "/model/hidden_size",
                 concat("EXL3 needs hidden_size to be a multiple of 128, got ", *model.hidden_size), ""};
  const i64 intermediate = *model.moe_intermediate_size;
  if (intermediate % parallel.tp != 0 || intermediate / parallel.tp % 128 != 0)
    return Error{ErrorCode::indivisible, "/parallel/tp",
                 concat("EXL3 needs moe_intermediate_size / tp to be a multiple of 128, got ", intermediate,
                        " / ", parallel.tp),
                 fitting_tensor_parallel_sizes(intermediate)};
  return Ok{};
}

PlanRequest request_of(const Deployment& d, std::string_view id, i64 tokens, i64 block_size) {
  const ModelShape& model = *d.model;
  PlanRequest request;
  request.id = id;
  MoeRequest& moe = request.moe;
  moe.contract = d.contract;
  moe.device = d.device->profile();
  moe.weights.quant_mode = QuantMode::w4a16;
  moe.weights.source_format = d.contract->trellis_source;
  if (d.contract->trellis_settings) moe.weights.trellis_codebook = TrellisCodebook::mcg;
  moe.weights.trellis_bits = d.quant->bits;
  moe.weights.activation = Activation::silu;
  moe.weights.io_dtype = d.engine->dtype;
  moe.weights.experts = *model.n_routed_experts;
  moe.weights.hidden_size = *model.hidden_size;
  moe.weights.intermediate_size = *model.moe_intermediate_size / d.parallel->tp;
  moe.capacity.max_tokens = tokens;
  moe.capacity.top_k = *model.num_experts_per_tok;
  moe.capacity.route_experts = 0;  // the integration routes outside the arena
  moe.capacity.block_size_m = block_size;
  return request;
}

}  // namespace

std::span<const Exl3Variable> exl3_variables() { return kVariables; }

Result<Exl3Settings> read_exl3_settings(const EngineSettings& engine) {
  const Environment& env = engine.env;
  if (auto s = check_variable_names(env); !s) return s.error();
  const auto decode_tokens = positive_variable(env, "VLLM_EXL3_TRELLIS_MAX_M", 32);
  const auto decode_block = positive_variable(env, "VLLM_EXL3_TRELLIS_BLOCK_M", 8);
  const auto prefill_block = positive_variable(env, "VLLM_EXL3_PREFILL_BLOCK_M", 64);
  const auto prefill_tokens =
      positive_variable(env, "VLLM_EXL3_PREFILL_CAPACITY", engine.max_num_batched_tokens);
  for (const auto* value : {&decode_tokens, &decode_block, &prefill_block, &prefill_tokens}) {
    if (!*value) return value->error();
  }
  if (*prefill_tokens > engine.max_num_batched_tokens)
    return Error{ErrorCode::invalid_environment, env_pointer("VLLM_EXL3_PREFILL_CAPACITY"),
                 concat("VLLM_EXL3_PREFILL_CAPACITY must be at most max_num_batched_tokens ",
                        engine.max_num_batched_tokens, ", got ", *prefill_tokens),
                 "the engine refuses to start with this"};
  const std::string* prefill = find_variable(env, "VLLM_EXL3_PREFILL_TRELLIS");
  Exl3Settings settings;
  settings.decode_tokens = *decode_tokens;
  settings.decode_block = *decode_block;
  settings.prefill_enabled = (!prefill || *prefill == "1") && engine.max_num_batched_tokens > *decode_tokens;
  settings.prefill_tokens = *prefill_tokens;
  settings.prefill_block = *prefill_block;
  return settings;
}

Result<std::vector<PlanRequest>> exl3_requests(const Deployment& deployment) {
  if (auto s = check_deployment(deployment); !s) return s.error();
  const auto settings = read_exl3_settings(*deployment.engine);
  if (!settings) return settings.error();
  std::vector<PlanRequest> requests;
  const auto add_runtime = [&](std::string_view decode, std::string_view prefill) {
    requests.push_back(request_of(deployment, decode, settings->decode_tokens, settings->decode_block));
    if (settings->prefill_enabled)
      requests.push_back(request_of(deployment, prefill, settings->prefill_tokens, settings->prefill_block));
  };
  add_runtime(kDecode, kPrefill);
  // The runtime's cache key names the draft, so an EXL3 draft owns a second full set of arenas.
  const EngineSettings& engine = *deployment.engine;
  if (engine.draft_is_exl3.value_or(false) && engine.num_speculative_tokens.value_or(0) > 0)
    add_runtime(kDraftDecode, kDraftPrefill);
  return requests;
}

std::string exl3_config_pointer(std::string_view request_id, std::string_view request_pointer) {
  const bool prefill = request_id == kPrefill || request_id == kDraftPrefill;
  const std::pair<std::string_view, std::string_view> origins[] = {
      {"/weights/experts", "/model/n_routed_experts"},
      {"/weights/hidden_size", "/model/hidden_size"},
      {"/weights/intermediate_size", "/model/moe_intermediate_size"},
      {"/weights/trellis_bits", "/quant/bits"},
      {"/weights/source_format", "/quant/source_format"},
      {"/weights/io_dtype", "/deployment/dtype"},
      {"/capacity/top_k", "/model/num_experts_per_tok"},
      {"/capacity/block_size_m",
       prefill ? "/deployment/env/VLLM_EXL3_PREFILL_BLOCK_M" : "/deployment/env/VLLM_EXL3_TRELLIS_BLOCK_M"},
  };
  for (const auto& [from, to] : origins) {
    if (from == request_pointer) return std::string(to);
  }
  return "/deployment";
}

}  // namespace moeplan
