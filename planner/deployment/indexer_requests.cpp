#include "planner/deployment/indexer_requests.hpp"

#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"
#include "planner/indexer/geometry.hpp"
#include "planner/indexer/paged.hpp"

namespace moeplan {
namespace {

constexpr std::string_view kDecode = "indexer decode";
constexpr std::string_view kPrefill = "indexer prefill";

Error missing(std::string_view pointer) {
  return Error{ErrorCode::missing_field, std::string(pointer),
               concat(pointer.substr(pointer.rfind('/') + 1), " is missing"),
               "the indexer's arenas follow from it; shapes are never defaulted"};
}

}  // namespace

bool has_indexer(const Deployment& deployment) {
  return deployment.model && (deployment.model->index_topk || deployment.model->index_n_heads);
}

i64 decode_rows_per_request(const EngineSettings& engine) {
  return 1 + engine.num_speculative_tokens.value_or(0);
}

Result<std::vector<PlanRequest>> indexer_requests(const Deployment& deployment) {
  std::vector<PlanRequest> requests;
  if (!has_indexer(deployment)) return requests;
  const ModelShape& model = *deployment.model;
  const EngineSettings& engine = *deployment.engine;
  if (!model.index_topk) return missing("/model/index_topk");
  if (!model.index_n_heads) return missing("/model/index_n_heads");
  if (!engine.max_num_seqs || !engine.max_model_len) return requests;

  const auto add = [&](std::string_view id, i64 rows, bool is_prefill) {
    PlanRequest request;
    request.id = id;
    request.kind = RequestKind::indexer_paged;
    IndexerRequest& indexer = request.indexer;
    indexer.contract = deployment.contract;
    indexer.device = deployment.device->profile();
    indexer.env = engine.env;
    indexer.caps.num_q_heads = model.index_n_heads;
    indexer.caps.top_k = model.index_topk;
    indexer.caps.max_q_rows = rows;
    indexer.caps.max_page_table_width = ceil_div(*engine.max_model_len, kKernelPageSize);
    if (is_prefill) {
      indexer.caps.mode = IndexerMode::prefill;
      indexer.caps.shared_page_table = true;
    }
    requests.push_back(std::move(request));
  };
  const i64 decode_rows = *engine.max_num_seqs * decode_rows_per_request(engine);
  if (decode_rows > kMaxTokens)
    return Error{ErrorCode::out_of_range, "/deployment/max_num_seqs",
                 concat("max_num_seqs * (1 + num_speculative_tokens) passes ", kMaxTokens), ""};
  add(kDecode, decode_rows, false);
  add(kPrefill, engine.max_num_batched_tokens, true);
  return requests;
}

std::string indexer_config_pointer(std::string_view request_pointer) {
  constexpr std::string_view kEnv = "/env/";
  if (request_pointer.starts_with(kEnv))
    return concat("/deployment/env/", request_pointer.substr(kEnv.size()));
  const std::pair<std::string_view, std::string_view> origins[] = {
      {"/caps/num_q_heads", "/model/index_n_heads"},
      {"/caps/top_k", "/model/index_topk"},
      {"/caps/max_q_rows", "/deployment/max_num_seqs"},
      {"/caps/max_page_table_width", "/deployment/max_model_len"},
      {"/device/sm_count", "/device/sm_count"},
  };
  for (const auto& [from, to] : origins) {
    if (from == request_pointer) return std::string(to);
  }
  return "/deployment";
}

i64 indexer_layers(const ModelShape& model) {
  return model.index_full_layers ? *model.index_full_layers : model.num_hidden_layers.value_or(0);
}

Result<LateAllocation> late_allocation(const PlanRequest& request, const IndexerLayout& layout) {
  const auto caps = paged_caps(request.indexer.caps);
  if (!caps) return caps.error();
  if (layout.route == IndexerRoute::paged_fused)
    return LateAllocation{"top-k scores of the call", caps->max_q_rows * caps->top_k * 4, caps->max_q_rows,
                          caps->tokens(), 0};
  const IndexerEnvironment env(request.indexer.contract->environment_prefix, request.indexer.env);
  const auto settings = fold_settings(env);
  if (!settings) return settings.error();
  const i64 supertile = std::get<PagedMeta>(layout.meta).supertile_tokens;
  const FoldPeak peak = worst_fold_slab(fold_capacity(*caps, supertile), *settings);
  return LateAllocation{"two-level fold slab", peak.bytes, peak.rows, peak.tokens, peak.slices};
}

}  // namespace moeplan
