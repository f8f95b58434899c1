// Deployment: a model on devices under an engine's settings. Plain values as the config states them; nothing
// that decides a shape has a default. docs/configuration.md lists the fields.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/byte_range.hpp"
#include "planner/core/contract.hpp"
#include "planner/core/device_profile.hpp"
#include "planner/core/dtype.hpp"
#include "planner/core/environment.hpp"
#include "planner/plan_request.hpp"

namespace moeplan {

// Field names as in a Hugging Face config.json.
struct ModelShape {
  std::optional<std::string> name;
  std::optional<std::string> source;  // where the values were read
  std::optional<i64> hidden_size;
  std::optional<i64> intermediate_size;
  std::optional<i64> moe_intermediate_size;
  std::optional<i64> shared_expert_intermediate_size;
  std::optional<i64> num_hidden_layers;
  std::optional<i64> first_k_dense_replace;
  std::optional<i64> n_routed_experts;
  std::optional<i64> n_shared_experts;
  std::optional<i64> num_experts_per_tok;
  std::optional<i64> num_attention_heads;
  std::optional<i64> num_key_value_heads;
  std::optional<i64> head_dim;
  std::optional<i64> q_lora_rank;
  std::optional<i64> kv_lora_rank;
  std::optional<i64> qk_nope_head_dim;
  std::optional<i64> qk_rope_head_dim;
  std::optional<i64> v_head_dim;
  std::optional<i64> index_topk;
  std::optional<i64> index_n_heads;
  std::optional<i64> index_head_dim;
  std::optional<i64> index_full_layers;  // layers that compute their own index
  std::optional<i64> num_nextn_predict_layers;
  std::optional<i64> vocab_size;
  std::optional<i64> max_position_embeddings;
  std::optional<bool> tie_word_embeddings;
};

// Experts of one bit width in a checkpoint that mixes them; the same in every layer.
struct QuantTier {
  i64 bits = 0;
  i64 experts = 0;
};

// How an engine runs mixed bit widths: one grid for all tiers, or the tiers one after the other in prefill.
enum class MixedForm { one_grid, serial };
inline constexpr std::string_view kMixedFormNames[] = {"one_grid", "serial"};

// What the routed experts are stored as.
enum class WeightFormat { exl3, nvfp4, mxfp4, fp8, bfloat16 };
inline constexpr std::string_view kWeightFormatNames[] = {"exl3", "nvfp4", "mxfp4", "fp8", "bfloat16"};

struct Quantization {
  std::optional<SourceFormat> source_format;
  std::optional<WeightFormat> weights;  // where the source format does not say it
  std::optional<i64> bits;  // a weight, for Trellis checkpoints; with tiers: of the draft's experts
  std::vector<QuantTier> tiers;
  MixedForm mixed_form = MixedForm::one_grid;
  std::optional<i64> checkpoint_tp;  // ranks the checkpoint was sliced for
};

struct Parallelism {
  i64 tp = 0;
  std::optional<i64> ep, dp, dcp;
};

struct DeviceSettings {
  std::optional<std::string> name;
  std::optional<std::string> source;
  std::optional<std::string> memory_note;
  i64 sm_count = 0;
  std::optional<std::string> compute_capability;
  std::optional<DeviceType> type;
  std::optional<i64> shared_memory_per_block_optin;  // bytes
  std::optional<ByteRange> total_memory;
  std::optional<i64> memory_bandwidth_gb_s;

  DeviceProfile profile() const { return {sm_count, compute_capability, type}; }
};

enum class KvCacheDtype { bfloat16, fp8, fp8_ds_mla, nvfp4_ds_mla };
inline constexpr std::string_view kKvCacheDtypeNames[] = {"bfloat16", "fp8", "fp8_ds_mla", "nvfp4_ds_mla"};

// Which layers keep keys of the sparse-attention indexer.
enum class IndexerCache { full_layers, all_layers };
inline constexpr std::string_view kIndexerCacheNames[] = {"full_layers", "all_layers"};

struct EngineSettings {
  DType dtype{};  // of the activations
  i64 max_num_batched_tokens = 0;
  std::optional<i64> max_num_seqs;
  std::optional<i64> max_model_len;
  std::optional<i64> num_speculative_tokens;
  std::optional<bool> draft_is_exl3;          // the draft's routed experts are EXL3 too
  std::optional<i64> gpu_memory_utilization;  // parts per million
  std::optional<KvCacheDtype> kv_cache_dtype;
  std::optional<i64> kv_record_bytes;  // a token and layer
  std::optional<i64> kv_block_tokens;  // tokens of a KV block
  std::optional<IndexerCache> indexer_cache;
  std::optional<std::vector<i64>> cudagraph_capture_sizes;
  std::optional<std::string> label;  // "engine" in a config: free text
  Environment env;
};

// What the operator states of the memory, exactly.
struct Budget {
  std::optional<i64> margin;           // left to the device after the engine took its share
  std::optional<i64> weights;          // of this rank
  std::optional<i64> base_activation;  // peak activation without MoE scratch
  std::optional<i64> non_torch;
  std::optional<i64> graph_pool;
  std::optional<i64> kv_bytes_per_token_per_rank;
};

// What an engine printed at start, to its digits. `import log` fills it.
struct Measured {
  std::optional<std::string> source;
  std::optional<ByteRange> model_loading;
  std::optional<ByteRange> peak_activation;
  std::optional<ByteRange> non_torch;
  std::optional<ByteRange> graph_estimate;
  std::optional<ByteRange> graph_actual;
  std::optional<ByteRange> requested;
  std::optional<ByteRange> available_kv;
  std::optional<ByteRange> free_memory;  // at start
  std::optional<ByteRange> total_memory;
  std::optional<i64> kv_tokens;
  std::optional<bool> graph_profiling_disabled;
};

// A rank that differs from the others: a pipeline stage, or another device.
struct RankSettings {
  std::optional<std::string> name;
  std::optional<i64> layers;  // of this pipeline stage
  std::optional<i64> sm_count;
  std::optional<ByteRange> total_memory;
  std::optional<Measured> measured;
};

struct Deployment {
  i64 schema_version = 0;
  std::optional<std::string> schema;
  std::optional<std::string> name;
  std::optional<std::string> contract_id;
  const Contract* contract = nullptr;  // the one of that id
  std::optional<ModelShape> model;
  std::optional<Quantization> quant;
  std::optional<Parallelism> parallel;
  std::optional<DeviceSettings> device;
  std::optional<EngineSettings> engine;  // "deployment" in a config
  std::optional<Budget> budget;
  std::optional<Measured> measured;
  std::vector<RankSettings> ranks;  // empty: all ranks are equal
  std::vector<PlanRequest> plans;   // stated explicitly
};

// n: this rank's share of the intermediate size. Needs model and parallel, and a share without rest.
inline i64 intermediate_per_rank(const Deployment& d) {
  return *d.model->moe_intermediate_size / d.parallel->tp;
}

// Layers with routed experts; none where the model does not say how many layers it has.
inline std::optional<i64> moe_layers(const ModelShape& model) {
  if (!model.num_hidden_layers) return std::nullopt;
  return max_of(*model.num_hidden_layers - model.first_k_dense_replace.value_or(0), 0);
}

}  // namespace moeplan
