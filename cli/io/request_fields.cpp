#include "cli/io/request_fields.hpp"

#include <cmath>
#include <vector>

#include "cli/io/indexer_fields.hpp"
#include "cli/io/request_kinds.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr Field kDeviceProfileFields[] = {
    integer<&DeviceProfile::sm_count>("sm_count", INT64_MIN, kMaxMultiprocessors,
                                      "multiprocessors of the device"),
    text<&DeviceProfile::compute_capability>("compute_capability", "such as \"12.0\"")
        .accepting(is_compute_capability),
    choice<&DeviceProfile::type>("type", kDeviceTypeNames, "cuda (default) or cpu"),
};

// Sizes that have to be positive are refused by the planner, sizes with a floor are raised by it: no minimum
// here.
constexpr Field kWeightFields[] = {
    choice<&MoeWeights::quant_mode>("quant_mode", kQuantModeNames, "kernels the plan is for")
        .required()
        .unknown_as(ErrorCode::unsupported_quant_mode),
    choice<&MoeWeights::source_format>("source_format", kSourceFormatNames,
                                       "checkpoint format of the experts")
        .required()
        .unknown_as(ErrorCode::unsupported_source_format),
    choice<&MoeWeights::activation>("activation", kActivationNames, "activation between the two GEMMs")
        .required()
        .unknown_as(ErrorCode::unsupported_activation),
    choice<&MoeWeights::io_dtype>("io_dtype", kIoDTypeNames, "activations in and out: bfloat16 or float16")
        .required()
        .unknown_as(ErrorCode::unsupported_io_dtype),
    integer<&MoeWeights::experts>("experts", INT64_MIN, kMaxExperts, "E: experts this rank's weights hold")
        .required(),
    integer<&MoeWeights::hidden_size>("hidden_size", INT64_MIN, kMaxDimension, "k: hidden size").required(),
    integer<&MoeWeights::intermediate_size>("intermediate_size", INT64_MIN, kMaxDimension,
                                            "n: this rank's intermediate size, already divided by TP")
        .required(),
    choice<&MoeWeights::weight_layout>("weight_layout", kLayoutOverrideNames,
                                       "asks for another weight layout")
        .unknown_as(ErrorCode::unsupported_weight_layout),
    choice<&MoeWeights::w13_layout>("w13_layout", kW13LayoutNames, "order of gate and up (default w13)")
        .unknown_as(ErrorCode::unsupported_w13_layout),
    integer<&MoeWeights::trellis_bits>("trellis_bits", 2, 6, "bits a Trellis weight (default 3)"),
    choice<&MoeWeights::trellis_codebook>("trellis_codebook", kTrellisCodebookNames, "b12x contracts only"),
    integer_list<&MoeWeights::trellis_tile_config>("trellis_tile_config", INT64_MIN, kMaxDimension, 64,
                                                   "fc1 k, fc1 n, fc2 k, fc2 n"),
    choice<&MoeWeights::trellis_rate_structure>("trellis_rate_structure", kTrellisRatesNames,
                                                "b12x contracts only (default uniform)"),
    choice_list<&MoeWeights::trellis_pair_kinds>("trellis_pair_kinds", kTrellisPairNames,
                                                 "b12x contracts only"),
    boolean<&MoeWeights::coupled_hadamard>("coupled_hadamard", "b12x contracts only (default false)"),
    choice_list<&MoeWeights::weight_quant_modes>("weight_quant_modes", kQuantModeNames,
                                                 "modes the weights are prepared for (default: quant_mode)")
        .unknown_as(ErrorCode::unsupported_quant_mode),
};

SwigluLimit limit_kind(double limit) {
  return std::isfinite(limit) && limit > 0 ? SwigluLimit::positive : SwigluLimit::not_positive_or_infinite;
}

template <int Neutral>
SwigluScale scale_kind(double scale) {
  if (!std::isfinite(scale)) return SwigluScale::not_finite;
  return scale == Neutral ? SwigluScale::neutral : SwigluScale::other_finite;
}

constexpr Field kCapacityFields[] = {
    integer<&MoeCapacity::max_tokens>("max_tokens", INT64_MIN, kMaxTokens, "most tokens of one launch")
        .required(),
    integer<&MoeCapacity::top_k>("top_k", INT64_MIN, kMaxTopK, "experts a token is routed to").required(),
    boolean<&MoeCapacity::apply_router_weight_on_input>("apply_router_weight_on_input", "default false"),
    number<&MoeCapacity::swiglu_limit, limit_kind>("swiglu_limit", "clamp of the activation (swigluoai: 7)"),
    number<&MoeCapacity::swiglu_alpha, scale_kind<1>>("swiglu_alpha", "swigluoai only"),
    number<&MoeCapacity::swiglu_beta, scale_kind<0>>("swiglu_beta", "swigluoai only"),
    integer_list<&MoeCapacity::core_token_counts>("core_token_counts", INT64_MIN, kMaxTokens, kMaxTokenCounts,
                                                  "further token counts the core has to serve")
        .only_for(kTensorParallel),
    integer<&MoeCapacity::route_experts>("route_experts", INT64_MIN, kMaxExperts,
                                         "router width (default: experts; 0: no router workspace)")
        .only_for(kTensorParallel),
    choice<&MoeCapacity::route_logits_dtype>("route_logits_dtype", std::span(kDTypeNames).first(3),
                                             "type of the router logits (default: io_dtype)")
        .only_for(kTensorParallel),
    integer<&MoeCapacity::block_size_m>("block_size_m", INT64_MIN, kMaxTokens,
                                        "pinned route block: 8, 16, 32, 48 or 64 (default: unpinned)")
        .only_for(kTensorParallel),
    integer<&MoeCapacity::micro_cutover_pairs>(
        "micro_cutover_pairs", 0, kMaxTokens, "routed pairs below which the micro kernels serve (default 64)")
        .only_for(kTensorParallel),
    boolean<&MoeCapacity::deterministic_output>("deterministic_output", "default false")
        .only_for(kTensorParallel),
    integer<&MoeCapacity::global_experts>("global_experts", INT64_MIN, kMaxExperts, "experts over all ranks")
        .required()
        .only_for(kExpertParallel),
};

// The request as it is written.
struct WrittenRequest {
  std::string id;
  RequestKind kind{};
  std::optional<std::string> contract;
  std::optional<DeviceProfile> device;
  MoeWeights weights;
  MoeCapacity capacity;
  std::optional<Purpose> purpose;
  IndexerCaps caps;
  IndexerArgs args;
  Environment env;
};

constexpr Field kKindField = choice<&WrittenRequest::kind>("kind", kRequestKindNames, "what is planned")
                                 .required()
                                 .unknown_as(ErrorCode::unknown_kind);

constexpr Field kRequestFields[] = {
    text<&WrittenRequest::id>("id", "echoed in the response"),
    kKindField,
    text<&WrittenRequest::contract>("contract",
                                    "layout contract; the planner revision whose arena is asked for"),
    object<&WrittenRequest::device>("device", kDeviceProfileFields, "the device the plan is for"),
    object<&WrittenRequest::weights>("weights", kWeightFields, "this rank's expert weights")
        .required()
        .only_for(kMoe),
    object<&WrittenRequest::capacity>("capacity", kCapacityFields, "what the plan has to serve")
        .required()
        .only_for(kMoe),
    choice<&WrittenRequest::purpose>(
        "purpose", kPurposeNames, "size: the pure query (default); launch: with launch planning's refusals")
        .only_for(kTensorParallel),
    object<&WrittenRequest::caps>("caps", kIndexerCapsFields, "capacities of an indexer arena")
        .required()
        .only_for(kIndexerArenas),
    object<&WrittenRequest::args>("args", kIndexerArgsFields, "arguments of an indexer call")
        .required()
        .only_for(kIndexerCalls),
    text_map<&WrittenRequest::env>("env", "environment of the planned process; moeplan never reads its own")
        .only_for(kIndexer),
};

// The kind decides which fields exist, so it is read ahead of them.
std::optional<RequestKind> peek_kind(const FieldContext& context, const JsonNode& node) {
  const JsonNode* kind = context.document.find(node, "kind");
  if (!kind || kind->type != JsonType::string) return std::nullopt;
  for (std::size_t i = 0; i < std::size(kRequestKindNames); ++i) {
    if (kRequestKindNames[i] == context.document.text(*kind)) return static_cast<RequestKind>(i);
  }
  return std::nullopt;
}

void fill_moe(MoeRequest& moe, WrittenRequest written) {
  moe.weights = std::move(written.weights);
  moe.capacity = std::move(written.capacity);
  moe.purpose = written.purpose.value_or(Purpose::size);
}

}  // namespace

const Contract* read_contract(FieldContext& context, const JsonNode& node, std::string_view id) {
  if (const Contract* contract = find_contract(id)) return contract;
  std::vector<std::string_view> ids;
  for (const Contract& contract : contracts()) ids.push_back(contract.id);
  const auto near = did_you_mean(id, ids);
  add_problem(context, node, ErrorCode::unknown_contract, concat("unknown contract \"", id, "\""),
              near ? concat("did you mean \"", *near, "\"?") : concat("known: ", join(ids, ", ")));
  return nullptr;
}

PlanRequest read_request(FieldContext context, const JsonNode& node, const RequestDefaults& defaults) {
  const JsonDocument& document = context.document;
  PlanRequest request;
  if (node.type != JsonType::object) {
    add_problem(context, node, ErrorCode::wrong_type,
                concat("a request must be an object, got ", name_of(node.type)), "write {\"kind\": …, …}");
    return request;
  }
  if (const JsonNode* id = document.find(node, "id"); id && id->type == JsonType::string)
    request.id = document.text(*id);

  const auto kind = peek_kind(context, node);
  if (kind) {
    context.kind = kinds(*kind);
    context.kind_name = name_of(*kind);
  }
  WrittenRequest written;
  if (!kind) {
    // Without its kind nothing can be said of the other fields.
    const JsonNode* stated = document.find(node, "kind");
    if (stated && stated->type != JsonType::null) {
      read_value(context, *stated, kKindField, &written);
    } else {
      add_missing(context, node, "kind", concat("add \"kind\": one of ", join(kRequestKindNames, ", ")));
    }
    return request;
  }
  read_fields(context, node, kRequestFields, &written);

  request.kind = *kind;
  const Contract* contract = defaults.contract;
  if (written.contract && !defaults.contract_is_forced) {
    contract = read_contract(context, *document.find(node, "contract"), *written.contract);
  } else if (!contract && !defaults.config_reports_contract) {
    add_missing(context, node, "contract", "add \"contract\", for example \"sparkinfer-de04125\"");
  }
  const auto device = written.device ? written.device : defaults.device;
  if (context.kind & kMoe) {
    fill_moe(request.moe, std::move(written));
    request.moe.kind = *kind == RequestKind::moe_ep ? MoeKind::expert_parallel : MoeKind::tensor_parallel;
    request.moe.contract = contract;
    request.moe.device = device.value_or(DeviceProfile{});
    if (!request.moe.device.sm_count)
      add_missing(context, node, "device/sm_count",
                  "add the multiprocessor count of the device, for example 188");
    return request;
  }
  request.indexer = {.contract = contract,
                     .device = device.value_or(DeviceProfile{}),
                     .caps = std::move(written.caps),
                     .args = std::move(written.args),
                     .env = std::move(written.env)};
  if (!device && (context.kind & kNeedsDevice))
    add_missing(context, node, "device",
                "add the device, for example {\"sm_count\": 188, \"compute_capability\": \"12.0\"}");
  return request;
}

std::span<const Field> request_fields() { return kRequestFields; }

}  // namespace moeplan
