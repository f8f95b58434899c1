#include "planner/deployment/exl3.hpp"

#include "planner/core/text.hpp"
#include "planner/deployment/exl3_runtime.hpp"

namespace moeplan {
namespace {

constexpr std::string_view kDecode = "decode";
constexpr std::string_view kPrefill = "prefill";
constexpr std::string_view kDraftDecode = "draft decode";
constexpr std::string_view kDraftPrefill = "draft prefill";
constexpr std::string_view kTierPrefill = "tier prefill";

struct NamedSize {
  std::string_view pointer;
  const std::optional<i64>& value;
};

void check_positive(std::vector<Error>& errors, std::initializer_list<NamedSize> sizes) {
  for (const auto& [pointer, value] : sizes) {
    const std::string_view name = pointer.substr(pointer.rfind('/') + 1);
    if (!value)
      errors.push_back({ErrorCode::missing_field, std::string(pointer), concat(name, " is missing"),
                        "an EXL3 deployment has to state it; shapes are never defaulted"});
    else if (*value <= 0)
      errors.push_back({ErrorCode::not_positive, std::string(pointer),
                        concat(name, " must be positive, got ", *value), "state the model's own"});
  }
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

// One bit width, or tiers that cover all experts.
void check_bits(std::vector<Error>& errors, const Deployment& d) {
  const Quantization& quant = *d.quant;
  if (quant.tiers.empty()) return check_positive(errors, {{"/quant/bits", quant.bits}});
  i64 experts = 0;
  for (const QuantTier& tier : quant.tiers) experts += tier.experts;
  if (experts != *d.model->n_routed_experts)
    errors.push_back(
        {ErrorCode::invalid_value, "/quant/tiers",
         concat("the tiers hold ", experts, " experts, the model has ", *d.model->n_routed_experts),
         "each expert of a layer belongs to one tier"});
}

// How the stated sizes go together.
void check_shape(std::vector<Error>& errors, const Deployment& d) {
  const ModelShape& model = *d.model;
  const Parallelism& parallel = *d.parallel;
  check_bits(errors, d);
  if (*model.num_experts_per_tok > *model.n_routed_experts)
    errors.push_back({ErrorCode::out_of_range, "/model/num_experts_per_tok",
                      concat("a token cannot be routed to ", *model.num_experts_per_tok, " of ",
                             *model.n_routed_experts, " experts"),
                      "check num_experts_per_tok and n_routed_experts"});
  if (*model.hidden_size % 128 != 0)
    errors.push_back({ErrorCode::misaligned_shape, "/model/hidden_size",
                      concat("EXL3 needs hidden_size to be a multiple of 128, got ", *model.hidden_size),
                      concat("the nearest above is ", align_up(*model.hidden_size, 128))});
  const i64 intermediate = *model.moe_intermediate_size;
  if (intermediate % parallel.tp != 0 || intermediate / parallel.tp % 128 != 0)
    errors.push_back({ErrorCode::indivisible, "/parallel/tp",
                      concat("EXL3 needs moe_intermediate_size / tp to be a multiple of 128, got ",
                             intermediate, " / ", parallel.tp),
                      fitting_tensor_parallel_sizes(intermediate)});
}

// Engine paths that exist and are not modelled.
void check_paths(std::vector<Error>& errors, const Deployment& d) {
  if (d.parallel->ep.value_or(1) != 1)
    errors.push_back({ErrorCode::unsupported_deployment, "/parallel/ep",
                      concat("the EXL3 integration runs tensor-parallel only, got ep ", *d.parallel->ep),
                      "write ep 1"});
  constexpr std::string_view kFused = "VLLM_EXL3_R7_FUSED";
  if (const std::string* fused = find_variable(d.engine->env, kFused);
      fused && *fused != "0" && !fused->empty())
    errors.push_back({ErrorCode::unsupported_deployment, environment_pointer(kFused),
                      concat("the R7 kernels that ", kFused, "=", *fused, " turns on are not modelled"),
                      "plan without the variable, or state the plans themselves"});
  if (d.contract->lean_executor && !d.quant->tiers.empty())
    errors.push_back({ErrorCode::unsupported_deployment, "/quant/tiers",
                      concat("contract ", d.contract->id, " plans one bit width, not mixed ones"),
                      "state quant.bits, or take the contract of an engine: moeplan help contracts lists "
                      "the others"});
}

// The bit width of plans that do not state their own: the draft's, where the target mixes them.
i64 plan_bits(const Quantization& quant) {
  if (quant.bits) return *quant.bits;
  i64 bits = quant.tiers.front().bits;
  for (const QuantTier& tier : quant.tiers) bits = min_of(bits, tier.bits);
  return bits;
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
  moe.weights.trellis_bits = plan_bits(*d.quant);
  const auto tile = exl3_tile_config(*model.hidden_size, intermediate_per_rank(d));
  moe.weights.trellis_tile_config = {tile.begin(), tile.end()};
  moe.weights.activation = Activation::silu;
  moe.weights.io_dtype = d.engine->dtype;
  moe.weights.experts = *model.n_routed_experts;
  moe.weights.hidden_size = *model.hidden_size;
  moe.weights.intermediate_size = intermediate_per_rank(d);
  moe.capacity.max_tokens = tokens;
  moe.capacity.top_k = *model.num_experts_per_tok;
  moe.capacity.route_experts = 0;  // the integration routes outside the arena
  moe.capacity.block_size_m = block_size;
  return request;
}

}  // namespace

std::vector<Error> exl3_errors(const Deployment& deployment) {
  std::vector<Error> errors;
  const ModelShape& model = *deployment.model;
  check_positive(errors, {{"/model/hidden_size", model.hidden_size},
                          {"/model/moe_intermediate_size", model.moe_intermediate_size},
                          {"/model/n_routed_experts", model.n_routed_experts},
                          {"/model/num_experts_per_tok", model.num_experts_per_tok}});
  if (errors.empty()) check_shape(errors, deployment);
  check_paths(errors, deployment);
  const EngineSettings& engine = *deployment.engine;
  const auto variables = exl3_variable_errors(engine);
  errors.insert(errors.end(), variables.begin(), variables.end());
  if (!variables.empty()) return errors;
  const auto settings = read_exl3_settings(engine);
  if (!settings) {
    errors.push_back(settings.error());
    return errors;
  }
  const Quantization& quant = *deployment.quant;
  if (!quant.tiers.empty() && quant.mixed_form == MixedForm::serial && !settings->prefill_switch &&
      engine.max_num_batched_tokens > settings->decode_tokens)
    errors.push_back({ErrorCode::invalid_environment, environment_pointer("VLLM_EXL3_PREFILL_TRELLIS"),
                      "the serial form of mixed bit widths needs VLLM_EXL3_PREFILL_TRELLIS to be \"1\"",
                      "leave the variable out"});
  return errors;
}

Result<Exl3Settings> check_exl3_deployment(const Deployment& deployment) {
  const auto errors = exl3_errors(deployment);
  if (!errors.empty()) return errors.front();
  return read_exl3_settings(*deployment.engine);
}

std::vector<PlanRequest> exl3_runtime_requests(const Deployment& deployment, const Exl3Settings& settings,
                                               bool is_draft) {
  std::vector<PlanRequest> requests;
  requests.push_back(request_of(deployment, is_draft ? kDraftDecode : kDecode, settings.decode_tokens,
                                settings.decode_block));
  if (settings.prefill_enabled)
    requests.push_back(request_of(deployment, is_draft ? kDraftPrefill : kPrefill, settings.prefill_tokens,
                                  settings.prefill_block));
  return requests;
}

PlanRequest exl3_tier_request(const Deployment& deployment, const Exl3Settings& settings,
                              const QuantTier& tier) {
  PlanRequest request = request_of(deployment, kTierPrefill, settings.prefill_tokens, settings.prefill_block);
  request.moe.weights.trellis_bits = tier.bits;
  request.moe.weights.experts = tier.experts;
  request.moe.capacity.route_experts = *deployment.model->n_routed_experts;
  return request;
}

std::array<i64, 4> exl3_tile_config(i64 hidden, i64 intermediate) {
  if (hidden % 256 == 0 && intermediate % 256 == 0) return {64, 256, 64, 256};
  return {64, 128, 64, 128};
}

Result<std::vector<PlanRequest>> exl3_requests(const Deployment& deployment) {
  const auto settings = check_exl3_deployment(deployment);
  if (!settings) return settings.error();
  std::vector<PlanRequest> requests;
  if (deployment.quant->tiers.empty()) requests = exl3_runtime_requests(deployment, *settings, false);
  // The runtime's cache key names the draft, so an EXL3 draft owns a second full set of arenas.
  if (has_exl3_draft(*deployment.engine)) {
    for (PlanRequest& request : exl3_runtime_requests(deployment, *settings, true))
      requests.push_back(std::move(request));
  }
  return requests;
}

bool is_exl3_decode(std::string_view request_id) {
  return request_id == kDecode || request_id == kDraftDecode;
}

std::string exl3_config_pointer(std::string_view request_id, std::string_view request_pointer) {
  const bool prefill = !is_exl3_decode(request_id);
  const std::pair<std::string_view, std::string_view> origins[] = {
      {"/contract", "/contract"},
      {"/weights/experts", "/model/n_routed_experts"},
      {"/weights/hidden_size", "/model/hidden_size"},
      {"/weights/intermediate_size", "/model/moe_intermediate_size"},
      {"/weights/trellis_bits", "/quant/bits"},
      {"/weights/source_format", "/quant/source_format"},
      {"/weights/io_dtype", "/deployment/dtype"},
      {"/capacity/top_k", "/model/num_experts_per_tok"},
      {"/capacity/max_tokens",
       prefill ? "/deployment/env/VLLM_EXL3_PREFILL_CAPACITY" : "/deployment/env/VLLM_EXL3_TRELLIS_MAX_M"},
      {"/capacity/block_size_m",
       prefill ? "/deployment/env/VLLM_EXL3_PREFILL_BLOCK_M" : "/deployment/env/VLLM_EXL3_TRELLIS_BLOCK_M"},
  };
  for (const auto& [from, to] : origins) {
    if (from == request_pointer) return std::string(to);
  }
  return "/deployment";
}

}  // namespace moeplan
