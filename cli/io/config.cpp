#include "cli/io/config.hpp"

#include <algorithm>
#include <cstdlib>

#include "cli/io/request_fields.hpp"
#include "cli/io/text_file.hpp"
#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr i64 kMaxLayers = 1 << 12;
constexpr i64 kMaxVocabulary = i64{1} << 24;
constexpr i64 kMaxContext = i64{1} << 32;

constexpr Field kModelFields[] = {
    text<&ModelShape::name>("name", "what people call the model"),
    text<&ModelShape::source>("source", "where the values were read"),
    integer<&ModelShape::hidden_size>("hidden_size", 1, kMaxDimension, "k: hidden size"),
    integer<&ModelShape::intermediate_size>("intermediate_size", 1, kMaxDimension, "of the dense layers"),
    integer<&ModelShape::moe_intermediate_size>("moe_intermediate_size", 1, kMaxDimension,
                                                "of one routed expert, over all ranks"),
    integer<&ModelShape::shared_expert_intermediate_size>("shared_expert_intermediate_size", 0, kMaxDimension,
                                                          "of the shared expert"),
    integer<&ModelShape::num_hidden_layers>("num_hidden_layers", 1, kMaxLayers, "layers without MTP layers"),
    integer<&ModelShape::first_k_dense_replace>("first_k_dense_replace", 0, kMaxLayers,
                                                "leading dense layers"),
    integer<&ModelShape::n_routed_experts>("n_routed_experts", 1, kMaxExperts, "E: routed experts a layer"),
    integer<&ModelShape::n_shared_experts>("n_shared_experts", 0, kMaxExperts, "shared experts a layer"),
    integer<&ModelShape::num_experts_per_tok>("num_experts_per_tok", 1, kMaxTopK, "top-k"),
    integer<&ModelShape::num_attention_heads>("num_attention_heads", 1, kMaxDimension, "query heads"),
    integer<&ModelShape::num_key_value_heads>("num_key_value_heads", 1, kMaxDimension, "key and value heads"),
    integer<&ModelShape::head_dim>("head_dim", 1, kMaxDimension, "of one attention head"),
    integer<&ModelShape::q_lora_rank>("q_lora_rank", 1, kMaxDimension, "MLA query rank"),
    integer<&ModelShape::kv_lora_rank>("kv_lora_rank", 1, kMaxDimension, "MLA key-value rank"),
    integer<&ModelShape::qk_nope_head_dim>("qk_nope_head_dim", 1, kMaxDimension,
                                           "of a head without rotation"),
    integer<&ModelShape::qk_rope_head_dim>("qk_rope_head_dim", 1, kMaxDimension, "of a head's rotated part"),
    integer<&ModelShape::v_head_dim>("v_head_dim", 1, kMaxDimension, "of a value head"),
    integer<&ModelShape::index_topk>("index_topk", 1, kMaxDimension, "positions the indexer selects"),
    integer<&ModelShape::index_n_heads>("index_n_heads", 1, kMaxDimension, "indexer heads"),
    integer<&ModelShape::index_head_dim>("index_head_dim", 1, kMaxDimension, "of an indexer head"),
    integer<&ModelShape::index_full_layers>("index_full_layers", 0, kMaxLayers,
                                            "layers that compute their own index"),
    integer<&ModelShape::num_nextn_predict_layers>("num_nextn_predict_layers", 0, kMaxLayers, "MTP layers"),
    integer<&ModelShape::vocab_size>("vocab_size", 1, kMaxVocabulary, "tokens of the vocabulary"),
    integer<&ModelShape::max_position_embeddings>("max_position_embeddings", 1, kMaxContext,
                                                  "longest context"),
    boolean<&ModelShape::tie_word_embeddings>("tie_word_embeddings", "embedding and head are one tensor"),
};

constexpr Field kTierFields[] = {
    integer<&QuantTier::bits>("bits", 3, 6, "bits a weight").required(),
    integer<&QuantTier::experts>("experts", 1, kMaxExperts, "experts a layer of this width").required(),
};

constexpr Field kQuantFields[] = {
    choice<&Quantization::source_format>("source_format", kSourceFormatNames,
                                         "checkpoint format of the experts")
        .unknown_as(ErrorCode::unsupported_source_format),
    choice<&Quantization::weights>("weights", kWeightFormatNames,
                                   "what the weights are stored as, where source_format does not say it"),
    integer<&Quantization::bits>(
        "bits", 2, 8, "bits a weight, for Trellis checkpoints; with tiers: of the draft's experts"),
    object_list<&Quantization::tiers>("tiers", kTierFields, "mixed bit widths: the experts of each"),
    choice<&Quantization::mixed_form>("mixed_form", kMixedFormNames,
                                      "how the engine runs tiers in prefill (default one_grid)"),
    integer<&Quantization::checkpoint_tp>("checkpoint_tp", 1, 1024, "ranks the checkpoint is sliced for"),
};

constexpr Field kParallelFields[] = {
    integer<&Parallelism::tp>("tp", 1, 1024, "tensor-parallel ranks").required(),
    integer<&Parallelism::ep>("ep", 1, 1024, "expert-parallel ranks (default 1)"),
    integer<&Parallelism::dp>("dp", 1, 1024, "data-parallel ranks (default 1)"),
    integer<&Parallelism::dcp>("dcp", 1, 1024, "decode-context-parallel ranks (default 1)"),
};

constexpr Field kDeviceFields[] = {
    text<&DeviceSettings::name>("name", "what people call the device"),
    text<&DeviceSettings::source>("source", "where the values were read"),
    integer<&DeviceSettings::sm_count>("sm_count", 1, kMaxMultiprocessors, "multiprocessors").required(),
    text<&DeviceSettings::compute_capability>("compute_capability", "such as \"12.0\"")
        .accepting(is_compute_capability),
    choice<&DeviceSettings::type>("type", kDeviceTypeNames, "cuda (default) or cpu"),
    integer<&DeviceSettings::shared_memory_per_block_optin>("shared_memory_per_block_optin", 0, 1 << 24,
                                                            "bytes of shared memory a block may ask for"),
    byte_range<&DeviceSettings::total_memory>("total_memory", "memory as the engine prints it"),
    text<&DeviceSettings::memory_note>("memory_note", "what is known of the memory in words"),
    integer<&DeviceSettings::memory_bandwidth_gb_s>("memory_bandwidth_gb_s", 0, 1 << 20,
                                                    "10^9 bytes a second"),
};

constexpr Field kEngineFields[] = {
    choice<&EngineSettings::dtype>("dtype", kIoDTypeNames, "activations: bfloat16 or float16").required(),
    integer<&EngineSettings::max_num_batched_tokens>("max_num_batched_tokens", 1, kMaxTokens,
                                                     "most tokens of one scheduler step")
        .required()
        .with_variables(),
    integer<&EngineSettings::max_num_seqs>("max_num_seqs", 1, kMaxTokens, "most sequences at once")
        .with_variables(),
    integer<&EngineSettings::max_model_len>("max_model_len", 1, kMaxContext, "longest context in tokens")
        .with_variables(),
    integer<&EngineSettings::num_speculative_tokens>("num_speculative_tokens", 0, 1024,
                                                     "draft tokens a step (0: no speculation)")
        .with_variables(),
    boolean<&EngineSettings::draft_is_exl3>("draft_is_exl3", "the draft's routed experts are EXL3 too"),
    millionths<&EngineSettings::gpu_memory_utilization>("gpu_memory_utilization",
                                                        "share of the memory the engine takes"),
    choice<&EngineSettings::kv_cache_dtype>("kv_cache_dtype", kKvCacheDtypeNames, "type of the KV cache"),
    integer<&EngineSettings::kv_record_bytes>("kv_record_bytes", 1, 1 << 20, "KV bytes a token and layer"),
    integer<&EngineSettings::kv_block_tokens>("kv_block_tokens", 1, 1024,
                                              "tokens of a KV block (default 64 for MLA, else 16)"),
    choice<&EngineSettings::indexer_cache>("indexer_cache", kIndexerCacheNames,
                                           "layers that keep indexer keys (default full_layers when "
                                           "model.index_full_layers is stated)"),
    integer_list<&EngineSettings::cudagraph_capture_sizes>("cudagraph_capture_sizes", 1, kMaxTokens, 4096,
                                                           "rows of each captured graph"),
    text<&EngineSettings::label>("engine", "which engine build runs, in words"),
    text_map<&EngineSettings::env>("env", "environment of the engine; moeplan never reads its own"),
};

constexpr Field kBudgetFields[] = {
    byte_size<&Budget::margin>("margin", "left on the device after the engine took its share"),
    byte_size<&Budget::weights>("weights", "weights of a rank"),
    byte_size<&Budget::base_activation>("base_activation",
                                        "peak activation of the profile, without MoE scratch"),
    byte_size<&Budget::non_torch>("non_torch", "memory taken outside the framework's allocator"),
    byte_size<&Budget::graph_pool>("graph_pool", "memory of the captured graphs"),
    integer<&Budget::kv_bytes_per_token_per_rank>(
        "kv_bytes_per_token_per_rank", 1, kMaxKvBytesPerToken,
        "KV bytes a token and rank, in place of the derived figure"),
};

constexpr Field kMeasuredFields[] = {
    text<&Measured::source>("source", "where the figures were printed"),
    byte_range<&Measured::model_loading>("model_loading", "weights of a rank"),
    byte_range<&Measured::peak_activation>("peak_activation",
                                           "peak activation of the profile, scratch in it"),
    byte_range<&Measured::non_torch>("non_torch", "memory taken outside the framework's allocator"),
    byte_range<&Measured::graph_estimate>("graph_estimate", "graph memory the engine sets aside"),
    byte_range<&Measured::graph_actual>("graph_actual", "graph memory the engine then took"),
    byte_range<&Measured::requested>("requested", "the engine's share of the device"),
    byte_range<&Measured::available_kv>("available_kv", "what was left for the KV cache"),
    byte_range<&Measured::free_memory>("free_memory", "free on the device at start"),
    byte_range<&Measured::total_memory>("total_memory", "memory of the device"),
    integer<&Measured::kv_tokens>("kv_tokens", 0, i64{1} << 50, "tokens of the KV cache"),
    boolean<&Measured::graph_profiling_disabled>("graph_profiling_disabled",
                                                 "the engine sets nothing aside for graphs"),
};

constexpr Field kRankFields[] = {
    text<&RankSettings::name>("name", "what people call the rank"),
    integer<&RankSettings::layers>("layers", 1, kMaxLayers, "attention layers of this pipeline stage"),
    integer<&RankSettings::sm_count>("sm_count", 1, kMaxMultiprocessors, "multiprocessors"),
    byte_range<&RankSettings::total_memory>("total_memory", "memory as the engine prints it"),
    object<&RankSettings::measured>("measured", kMeasuredFields, "what the engine printed for this rank"),
};

// What reading a value may need of the config around it.
struct Surroundings {
  RequestDefaults defaults;
  std::span<const std::string> allowed_names;
};

void read_stated_plan(FieldContext& context, const JsonNode& node, void* item) {
  *static_cast<PlanRequest*>(item) =
      read_request(context, node, static_cast<const Surroundings*>(context.user)->defaults);
}

// Only names given on the command line: a config from elsewhere must not be able to print a secret.
Result<std::optional<std::string>> read_variable(const void* user, std::string_view name) {
  const auto& allowed = static_cast<const Surroundings*>(user)->allowed_names;
  if (std::ranges::find(allowed, name) == allowed.end())
    return Error{ErrorCode::unresolved_variable, "", concat("${", name, "} may not be read"),
                 concat("allow it with --allow-env ", name)};
  const char* value = std::getenv(std::string(name).c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

void apply_sets(Config& config, const ConfigOverrides& overrides) {
  for (const std::string& set : overrides.sets) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos) {
      config.problems.push_back({Error{ErrorCode::invalid_pointer, "", concat("--set ", set, " has no '='"),
                                       "write --set /json/pointer=value"},
                                 {}});
      continue;
    }
    const std::string_view text = set;
    if (auto s = config.document.set(text.substr(0, equals), text.substr(equals + 1), "--set"); !s)
      config.problems.push_back({s.error(), {}});
  }
  if (!overrides.contract.empty())
    MOEPLAN_CHECK(config.document.set("/contract", overrides.contract, "--contract"), "setting the contract");
}

// What stated plans inherit has to be known before they are read, wherever it stands.
RequestDefaults read_defaults(FieldContext& context, const ConfigOverrides& overrides) {
  const JsonDocument& document = context.document;
  RequestDefaults defaults;
  defaults.contract_is_forced = !overrides.contract.empty();
  defaults.config_reports_contract = true;
  if (const JsonNode* id = document.find(document.root(), "contract"); id && id->type == JsonType::string)
    defaults.contract = read_contract(context, *id, document.text(*id));
  if (const JsonNode* node = document.find(document.root(), "device");
      node && node->type == JsonType::object) {
    DeviceSettings device;
    std::vector<Problem> reported_later;
    FieldContext quiet{.document = document, .problems = reported_later};
    read_fields(quiet, *node, kDeviceFields, &device);
    // A wrong device is reported once, with the config, and not again by every plan.
    defaults.device = reported_later.empty() ? device.profile() : DeviceProfile{.sm_count = 1};
  }
  return defaults;
}

void check_header(FieldContext& context, const Deployment& deployment) {
  const JsonDocument& document = context.document;
  if (const JsonNode* version = document.find(document.root(), "schema_version");
      version && version->type == JsonType::integer && deployment.schema_version != 1)
    add_problem(context, *version, ErrorCode::unknown_schema_version,
                concat("schema_version ", deployment.schema_version, " is not known"),
                "this build reads schema_version 1");
  const JsonNode* contract = document.find(document.root(), "contract");
  if (!contract || contract->type == JsonType::null)
    add_missing(context, document.root(), "contract",
                "add \"contract\", or give --contract; for example \"sparkinfer-de04125\"");
}

}  // namespace

std::span<const Field> model_fields() { return kModelFields; }
std::span<const Field> device_fields() { return kDeviceFields; }

std::span<const Field> config_fields() {
  static const Field kRows[] = {
      text<&Deployment::schema>("$schema", "JSON Schema of this file, for editors"),
      integer<&Deployment::schema_version>("schema_version", 0, INT64_MAX, "version of this format: 1")
          .required(),
      text<&Deployment::name>("name", "what people call the deployment"),
      text<&Deployment::contract_id>("contract", "layout contract: the planner revision the engine runs"),
      object<&Deployment::model>("model", kModelFields, "shape of the model, as in its config.json"),
      object<&Deployment::quant>("quant", kQuantFields, "how the experts are quantised"),
      object<&Deployment::parallel>("parallel", kParallelFields, "ranks"),
      object<&Deployment::device>("device", kDeviceFields, "the device of each rank"),
      object<&Deployment::engine>("deployment", kEngineFields, "settings of the engine"),
      object<&Deployment::budget>("budget", kBudgetFields, "memory the operator states"),
      object<&Deployment::measured>("measured", kMeasuredFields, "what an engine printed at start"),
      object_list<&Deployment::ranks>("ranks", kRankFields, "ranks that differ: stages, or other devices"),
      object_list<&Deployment::plans>("plans", request_fields(), "plans stated one by one, as batch requests")
          .with_reader(&read_stated_plan),
  };
  return kRows;
}

void Config::add(Error error) {
  // Two plans made of one wrong field say the same.
  const bool is_known = std::ranges::any_of(problems, [&](const Problem& known) {
    return known.error.code == error.code && known.error.pointer == error.pointer;
  });
  if (is_known || problems.size() >= kMaxProblems) return;
  const JsonNode& node = document.find_nearest(error.pointer);
  const Place place = error.code == ErrorCode::unknown_key ? document.key_place(node) : document.place(node);
  problems.push_back({std::move(error), place});
}

std::unique_ptr<Config> read_config(const std::string& path, const ConfigOverrides& overrides) {
  const std::string name = path == "-" ? "stdin" : path;
  auto text = read_text(path);
  if (text) return parse_config(name, std::move(*text), overrides);
  auto config = std::make_unique<Config>();
  config->name = name;
  Error error = text.error();
  if (error.code == ErrorCode::unreadable)
    error.help +=
        "; moeplan init glm-5.2 writes an example, configs/glm52.json in the source tree is another";
  config->problems.push_back({std::move(error), Place{config->name, 0, 0, {}, 1}});
  return config;
}

std::unique_ptr<Config> parse_config(std::string name, std::string text, const ConfigOverrides& overrides) {
  auto config = std::make_unique<Config>();
  config->name = std::move(name);
  config->text = std::move(text);
  JsonDocument& document = config->document;
  if (auto parsed = document.parse(config->text, config->name); !parsed) {
    config->problems.push_back({parsed.error(), document.error_place()});
    return config;
  }
  Surroundings surroundings{.defaults = {}, .allowed_names = overrides.environment};
  FieldContext context{
      .document = document, .problems = config->problems, .variable = &read_variable, .user = &surroundings};
  if (document.root().type != JsonType::object) {
    add_problem(context, document.root(), ErrorCode::wrong_type,
                concat("a config must be an object, got ", name_of(document.root().type)),
                "write {\"schema_version\": 1, …}");
    return config;
  }
  apply_sets(*config, overrides);
  surroundings.defaults = read_defaults(context, overrides);
  read_fields(context, document.root(), config_fields(), &config->deployment);
  check_header(context, config->deployment);
  config->deployment.contract = surroundings.defaults.contract;
  return config;
}

}  // namespace moeplan
